"""Reads the audit log of a user: its lines, those that come meanwhile, and whether each goes on from the one before.

The file is the user's own, and anything may have been done to it: a line that Paddock did not write as it stands has no
facts. No more of a line is held than Paddock's longest has.
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
from typing import Any, BinaryIO, Final, NamedTuple, Self

from paddock.audit import MAX_LINE_BYTES, digest_of, older, open_locked
from paddock.errors import KindError
from paddock.state_folder import open_own

_WAIT_SECONDS: Final = 5.0  # for hosts that write
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


class AuditLine(NamedTuple):
    """One line without its newline; of one that is too long, or has no end yet, the last part, which is not whole."""

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
    with _readable(path), ExitStack() as stack:
        descriptor = open_locked(path, os.O_RDONLY, fcntl.LOCK_SH, _WAIT_SECONDS)
        current = _File(path, stack.enter_context(open(descriptor, "rb")))
        files = [(current, current.size)]
        with suppress(FileNotFoundError):
            before = _File(older(path), stack.enter_context(open(older(path), "rb", opener=open_own)))
            files.insert(0, (before, before.size))
        fcntl.flock(current.file, fcntl.LOCK_UN)
        for file, size in files:
            yield from file.lines(size)
            if file.begun:  # its last line has no end
                yield file.taken(is_whole=False)


def follow_lines(path: Path) -> Iterator[AuditLine | None]:
    """Yield the lines that come from now on, also in a new file; None whenever there are no more yet.

    Raises:
        KindError: as above.
    """
    with _readable(path), ExitStack() as stack:
        current = _File(path, stack.enter_context(open(path, "rb", opener=open_own)))
        for _ in current.lines(current.size):
            pass
        while True:
            yield from current.lines(current.size)
            with suppress(FileNotFoundError):  # it was taken away
                if not os.path.samestat(os.fstat(current.file.fileno()), os.lstat(path)):
                    file = stack.enter_context(open(path, "rb", opener=open_own))
                    yield from current.lines(current.size)  # what came before it was set aside
                    current.file.close()
                    current = _File(path, file)
                    continue
            yield None


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


class _File:
    """The lines of one file, as far as they were read; `begun` is the beginning of the next."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.file = file
        self.begun = b""
        self._path = path
        self._count = 0

    @property
    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def lines(self, size: int) -> Iterator[AuditLine]:
        """Yield the whole lines up to an offset in bytes."""
        if size < self.file.tell():  # it was cut
            self.file.seek(size)
        while (left := size - self.file.tell()) > 0:
            self.begun = self.begun[-MAX_LINE_BYTES - 1 :] + self.file.readline(min(left, MAX_LINE_BYTES))
            if self.begun.endswith(b"\n"):
                yield self.taken(is_whole=len(self.begun) <= MAX_LINE_BYTES)

    def taken(self, *, is_whole: bool) -> AuditLine:
        """Return what was begun as a line."""
        self._count += 1
        text, self.begun = self.begun.removesuffix(b"\n")[-MAX_LINE_BYTES:], b""
        return AuditLine(f"line {self._count} of {self._path}", text, is_whole)
