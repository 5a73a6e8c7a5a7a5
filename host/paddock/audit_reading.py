"""Reads the audit log of a user: its lines, those that come meanwhile, and whether each goes on from the one before.

The file is the user's own, and anything may have been done to it: a line that Paddock did not write as it stands has no
facts, and no more of a file is read than Paddock lets one grow to.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from paddock.audit import MAX_FILE_BYTES, MAX_LINE_BYTES, digest_of, older, open_locked
from paddock.errors import KindError
from paddock.state_folder import open_own

_WAIT_SECONDS: Final = 5.0  # for hosts that write
_MOST_BYTES: Final = 2 * MAX_FILE_BYTES
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


class AuditLine(NamedTuple):
    """One line without its newline; one that is too long for Paddock's, or has no end, is not whole."""

    place: str
    text: bytes
    is_whole: bool

    @property
    def facts(self) -> Mapping[str, Any] | None:
        """What it says; None if it is no line of an audit log."""
        try:
            found = json.loads(self.text) if self.is_whole else None
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class Chain:
    """What the lines of an audit log, in their order, prove.

    `lines` are linked, and follow `before` that are not. `ends_with` is the digest of the last one, empty if there is
    none. `since` counts the lines after the one with the digest that was asked for; None if none has it. `wrong` names
    the first line that does not go on from the one before, and says so; it is empty if each does.
    """

    lines: int = 0
    before: int = 0
    ends_with: str = ""
    since: int | None = None
    wrong: str = ""

    @classmethod
    def of(cls, lines: Iterable[AuditLine], sought: str | None = None) -> Self:
        """Follow the lines until one is wrong; `sought` is the digest that one of them is to have."""
        linked = before = 0
        end = wrong = ""
        since: int | None = None
        for line in lines:
            prev = (line.facts or {}).get("prev")
            if isinstance(prev, str) and _DIGEST.fullmatch(prev):
                if end and prev != end:
                    wrong = f"{line.place} does not go on from the line before: one was changed, or lines are missing"
                    break
                linked += 1
            elif linked:
                wrong = f"{line.place} is none that Paddock wrote as it stands"
                break
            else:
                before += 1
            end = digest_of(line.text)
            since = 0 if end == sought else None if since is None else since + 1
        return cls(linked, before, end if linked else "", since, wrong)


def audit_lines(path: Path) -> Iterator[AuditLine]:
    """Yield the lines of the file that was set aside, then those of the present one, as of now.

    Raises:
        KindError: there is no audit log, or it cannot be read.
    """
    with _readable(path), open(open_locked(path, os.O_RDONLY, fcntl.LOCK_SH, _WAIT_SECONDS), "rb") as file:
        present, before = file.read(_MOST_BYTES), b""
        with suppress(FileNotFoundError), open(older(path), "rb", opener=open_own) as aside:
            before = aside.read(_MOST_BYTES)
    yield from _lines(older(path), before)
    yield from _lines(path, present)


def follow_lines(path: Path) -> Iterator[AuditLine | None]:
    """Yield the lines that come from now on, also in a new file; None whenever there are no more yet.

    Raises:
        KindError: as above.
    """
    with _readable(path), ExitStack() as stack:
        file = stack.enter_context(open(path, "rb", opener=open_own))
        count, begun = file.read(_MOST_BYTES).count(b"\n"), b""
        while True:
            newer = None
            with suppress(FileNotFoundError):  # it was taken away
                if not os.path.samestat(os.fstat(file.fileno()), os.lstat(path)):
                    newer = stack.enter_context(open(path, "rb", opener=open_own))
            if os.fstat(file.fileno()).st_size < file.tell():  # it was cut
                file.seek(0, os.SEEK_END)
            come, end, begun = (begun + file.read(_MOST_BYTES)).rpartition(b"\n")
            yield from _lines(path, come + end, count)
            count += come.count(b"\n") + len(end)
            if newer is None:
                yield None
            else:
                file.close()
                file, count, begun = newer, 0, b""


def _lines(path: Path, data: bytes, count: int = 0) -> Iterator[AuditLine]:
    """Yield the lines in `data`, before which the file has others; the last one may have no end."""
    *whole, rest = data.split(b"\n")
    for text in whole:
        count += 1
        yield AuditLine(f"line {count} of {path}", text, len(text) < MAX_LINE_BYTES)
    if rest:
        yield AuditLine(f"line {count + 1} of {path}", rest, False)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = f"the audit log cannot be read: {error.filename or path}: {error.strerror}"
        if isinstance(error, FileNotFoundError):
            said = f"nothing was recorded here: there is no {path}"
        hint = f"each session and each call is recorded there; see what there is: `ls -l {path.parent}`"
        raise KindError("AuditError", said, hints=[hint]) from error
