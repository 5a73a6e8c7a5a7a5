"""The audit log: one JSON object a line, in a file that only the user can read.

`record` never raises: it logs the first failure to write. When it returns, the line is in the file, after lines of
other threads that came first. That takes as long as the file system does; no other process is waited for. A line is
plain ASCII and bounded, so text from modules stays inside its quotes. Known secrets are masked before a text is cut.
Each pair of module and event has a rate limit, so one module cannot push everything else out of the file; the next line
says how many were left out.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from paddock.state_folder import open_own, state_folder
from paddock.token_bucket import TokenBucket

_MAX_FILE_BYTES: Final = 16 << 20  # The file is rotated at this size; the one rotated before is deleted.
_MAX_LINE_BYTES: Final = 8192  # small enough that a line is written in one piece
_MAX_MASKED_CHARACTERS: Final = 65536  # of one text, before it is masked and cut; a module may pass megabytes
_CUTS: Final = (1000, 200, 40)  # characters of one text, each tried until the line fits
_MAX_ITEMS: Final = 100  # of one list or table
_MAX_DEPTH: Final = 6
# Bytes about one module and event: the burst suits thousands of connections at once; at the rate a module needs
# days to fill both files.
_BURST_BYTES: Final = 512 << 10
_BYTES_PER_SECOND: Final = 200.0
_UNFINISHED_SECONDS: Final = 0.05  # for another host to finish a line, which takes microseconds
_APPENDING: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT
_OURS: Final = frozenset({"time", "session", "event", "left_out"})

_log = logging.getLogger(__name__)


class AuditLog:
    """The record of one session.

    Args:
        session: the id of the session, in every line.
        path: the file; by default `audit.jsonl` in the user's state folder.
        environ: names the user; by default the environment of the process.
        mask: returns a text with its secrets hidden.
        clock: returns seconds, for the rate limit of lines.
    """

    def __init__(
        self,
        session: str,
        *,
        path: Path | None = None,
        environ: Mapping[str, str] | None = None,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._path = path
        self._environ = environ
        self._mask = mask
        self._clock = clock
        self._rates: dict[tuple[str, str], _Rate] = {}
        self._lock = threading.Lock()
        self._may_be_torn = True  # by a host that was killed, or by a full disk
        self._has_failed = False

    @staticmethod
    def silent() -> AuditLog:
        """Return one that records nothing."""
        return _SilentLog("")

    def of_lost(self, id: str) -> AuditLog:
        """Return the log of an earlier session, whose host could not write its end."""
        return AuditLog(id, path=self._path, environ=self._environ, mask=self._mask)

    def of_sub_session(self, id: str) -> AuditLog:
        """Return the log of a session that this one started: its lines go to the same file and name it."""
        return _SubSessionLog(self, id)

    def record(self, event: str, /, **facts: object) -> None:
        """Write one line: what happened, as in `module.started`, and the facts about it.

        `module` among the facts names the module that it is about. Facts cannot replace the log's own fields.
        """
        try:
            with self._lock:
                self._record(event, facts)
        except Exception as error:  # The audited act continues even if its record fails.
            if not self._has_failed:
                self._has_failed = True
                _log.warning("the audit log cannot be written, and misses what happens from here on: %s", error)

    def _record(self, event: str, facts: Mapping[str, object]) -> None:
        rate = _Rate()
        if "module" in facts:
            rate = self._rates.setdefault((str(facts["module"]), event), rate)
        if not rate.admits(self._clock()):
            return
        line = self._line(event, facts, rate.left_out)
        rate.spend(len(line))
        self._write((self._lines_left_out() if event == "session.ended" else b"") + line)

    def _lines_left_out(self) -> bytes:
        lines = b""
        for (module, event), rate in self._rates.items():
            if rate.left_out:
                lines += self._line("audit.left_out", {"module": module, "of": event}, rate.left_out)
                rate.spend(0)
        return lines

    def _line(self, event: str, facts: Mapping[str, object], left_out: int) -> bytes:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head: dict[str, Any] = {"time": now, "session": self._session, "event": event}
        if left_out:
            head["left_out"] = left_out
        own = {name: value for name, value in facts.items() if name not in _OURS}
        for characters in _CUTS:
            line = _encoded({**head, **_Plain(self._mask, characters).table(own, _MAX_DEPTH)})
            if len(line) <= _MAX_LINE_BYTES:
                return line
        return _encoded({**head, "cut": sorted(own)[:_MAX_ITEMS]})

    # -- the file --------------------------------------------------------------------------

    def _write(self, lines: bytes) -> None:
        if self._path is None:
            self._path = state_folder(self._environ) / "audit.jsonl"
        descriptor = self._open(self._path)
        try:
            # A line that was cut off is ended first, so that it spoils no other.
            lines = b"\n" + lines if self._may_be_torn and _is_torn(descriptor) else lines
            self._may_be_torn = os.write(descriptor, lines) < len(lines)
        finally:
            os.close(descriptor)
        if self._may_be_torn:
            raise OSError("there was no room for all of a line")

    def _open(self, path: Path) -> int:
        """Open the file to append to it; rotate it first where it has grown too large."""
        descriptor = open_own(path, _APPENDING)
        try:
            if os.fstat(descriptor).st_size < _MAX_FILE_BYTES or not _is_set_aside(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return open_own(path, _APPENDING)


class _SubSessionLog(AuditLog):
    """Writes the lines of one sub-session to the log of the first session."""

    def __init__(self, whole: AuditLog, id: str) -> None:
        super().__init__(id)
        self._whole = whole

    def record(self, event: str, /, **facts: object) -> None:
        self._whole.record(event, **{**facts, "sub_session": self._session})


class _SilentLog(AuditLog):
    """Records nothing."""

    def record(self, event: str, /, **facts: object) -> None:
        pass


class _Rate:
    """How much may be written at present, and how many lines were dropped since the last that was written."""

    def __init__(self) -> None:
        self._bytes = TokenBucket(_BYTES_PER_SECOND, _BURST_BYTES)
        self.left_out = 0

    def admits(self, now: float) -> bool:
        if self._bytes.wait(now) == 0:
            return True
        self.left_out += 1
        return False

    def spend(self, size: int) -> None:
        self._bytes.take(size)
        self.left_out = 0


class _Plain:
    """Converts facts to JSON's own types, within bounds."""

    def __init__(self, mask: Callable[[str], str], characters: int) -> None:
        self._mask = mask
        self._characters = characters

    def table(self, values: Mapping[Any, object], depth: int) -> dict[str, Any]:
        items = list(values.items())[:_MAX_ITEMS]
        return {self._text(str(key)): self._value(value, depth - 1) for key, value in items}

    def _value(self, value: object, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self._number(value) if value.bit_length() <= 64 else hex(value)[: self._characters]
        if isinstance(value, float):
            return self._number(value) if math.isfinite(value) else None
        if depth > 0 and isinstance(value, Mapping):
            return self.table(value, depth)
        if depth > 0 and isinstance(value, (list, tuple, set, frozenset)):
            ordered = sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)
            return [self._value(item, depth - 1) for item in ordered[:_MAX_ITEMS]]
        return self._text(str(value))

    def _number(self, value: int | float) -> int | float | str:
        # A secret may be all digits.
        shown = self._mask(str(value))
        return value if shown == str(value) else shown

    def _text(self, text: str) -> str:
        # Masked before it is cut: half a secret would not be recognised.
        shown = self._mask(text[:_MAX_MASKED_CHARACTERS])
        return shown if len(shown) <= self._characters else shown[: self._characters] + "…"


def _encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line).replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def _is_torn(descriptor: int) -> bool:
    """Whether the file ends within a line, and not because another host is just writing it."""
    deadline = time.monotonic() + _UNFINISHED_SECONDS
    while True:
        size = os.fstat(descriptor).st_size
        if size == 0 or os.pread(descriptor, 1, size - 1) in (b"\n", b""):
            return False
        if time.monotonic() > deadline:
            return True
        time.sleep(_UNFINISHED_SECONDS / 50)


def _is_set_aside(path: Path, descriptor: int) -> bool:
    """Rotate a full file, unless another host is doing so; return whether a new file is to be opened.

    A process that still has the old file open writes its last lines there, so nothing is lost.
    """
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                os.replace(path, path.with_name(path.name + ".1"))
        return True
    return False
