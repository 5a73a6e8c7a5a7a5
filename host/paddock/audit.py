"""The audit log: one JSON object a line, in a file that only the user can read.

`record` never raises: it logs the first failure to write. When it returns, the line is in the file, after lines of
other threads that came first. That takes as long as the file system does; another process that writes is waited for,
but no longer than a second. A line is plain ASCII and bounded, so text from modules stays inside its quotes. Known
secrets are masked before a text is cut. Each pair of module and event has a rate limit, so one module cannot push
everything else out of the file; the next line says how many were left out.

Each line ends with `prev`, the digest of the line before it in the file, also of one that another host wrote. The first
line of a new file has that of the last line of the file that was set aside. So a line that is changed, moved or taken
out breaks the chain; an end that is cut off does not, and shows only beside a digest that is kept elsewhere.

A policy may have each line sent on to services of the system, and may require the log (`AuditLog.obey`).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from paddock.errors import KindError
from paddock.state_folder import open_own, state_folder, state_path
from paddock.token_bucket import TokenBucket

MAX_FILE_BYTES: Final = 16 << 20  # The file is rotated at this size; the one rotated before is deleted.
MAX_LINE_BYTES: Final = 8192  # small enough that a line is written in one piece
NO_LINE: Final = "0" * 32  # what the first line of all has in place of a digest
_LINK: Final = ', "prev": "{}"}}\n'
_MAX_MASKED_CHARACTERS: Final = 65536  # of one text, before it is masked and cut; a module may pass megabytes
_CUTS: Final = (1000, 200, 40)  # characters of one text, each tried until the line fits
_MAX_ITEMS: Final = 100  # of one list or table
_MAX_DEPTH: Final = 6
# Bytes about one module and event: the burst suits thousands of connections at once; at the rate a module needs
# days to fill both files.
_BURST_BYTES: Final = 512 << 10
_BYTES_PER_SECOND: Final = 200.0
_WAIT_SECONDS: Final = 1.0  # for another host that writes, which takes microseconds
_NEXT_WAIT_SECONDS: Final = 0.05  # once something has failed: each line would hold up the session
_NAME: Final = "audit.jsonl"
_APPENDING: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT
_OURS: Final = frozenset({"time", "session", "event", "left_out", "seq", "uid", "pid", "prev"})
_UNWRITTEN: Final = "the audit log cannot be written, and misses what happens from here on"
# By the name of a service: its socket, and what stands before a line there. 86 is a message for those who watch over
# logins (authpriv), which most systems show to root alone.
_SERVICES: Final[Mapping[str, tuple[str, str]]] = {
    "journald": (
        "/run/systemd/journal/socket",
        "SYSLOG_IDENTIFIER=paddock\nSYSLOG_FACILITY=10\nPRIORITY=6\nMESSAGE=",
    ),
    "syslog": ("/dev/log", "<86>paddock[{pid}]: "),
}

_log = logging.getLogger(__name__)


class AuditLog:
    """The record of one session.

    Args:
        session: the id of the session, in every line.
        path: the file; by default `audit.jsonl` in the user's state folder.
        environ: names the user; by default the environment of the process.
        mask: returns a text with its secrets hidden.
        clock: returns seconds, for the rate limit of lines.
        pid: the session's host; by default this process.
    """

    def __init__(
        self,
        session: str,
        *,
        path: Path | None = None,
        environ: Mapping[str, str] | None = None,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
        pid: int | None = None,
    ) -> None:
        self._session = session
        self._path = path
        self._environ = environ
        self._mask = mask
        self._clock = clock
        self._rates: dict[tuple[str, str], _Rate] = {}
        self._lock = threading.Lock()
        self._pid = pid
        self._lines = 0
        self._forward: Collection[str] = ()
        self._is_required = False
        self._failures: dict[str, str] = {}  # the first of each kind
        self._on_failure: Callable[[], object] = lambda: None

    @staticmethod
    def silent() -> AuditLog:
        """Return one that records nothing."""
        return _SubSessionLog(None, "")

    def of_lost(self, id: str, pid: int) -> AuditLog:
        """Return the log of an earlier session, whose host could not write its end."""
        lost = AuditLog(id, path=self._path, environ=self._environ, mask=self._mask, pid=pid)
        lost._forward, lost._is_required = self._forward, self._is_required
        return lost

    def of_sub_session(self, id: str) -> AuditLog:
        """Return the log of a session that this one started: its lines go to the same file and name it."""
        return _SubSessionLog(self, id)

    def obey(self, forward: Collection[str], is_required: bool) -> None:
        """Send each line on to services, `journald` or `syslog`, from here on; `check` refuses if the log is required.

        Raises:
            KindError: the log is required, and cannot be written.
        """
        self._forward, self._is_required = forward, is_required
        if is_required:
            try:
                os.close(self._opened()[0])
            except OSError as error:
                self._fail(_UNWRITTEN, error)
        self.check()

    def check(self) -> None:
        """Refuse to go on without a log that a policy requires.

        Raises:
            KindError: a line is missing from it.
        """
        if self._is_required and self._failures:
            raise KindError(
                "AuditError",
                "nothing runs here without an audit log, as a policy says",
                detail=[f"{said}: {why}" for said, why in self._failures.items()],
                hints=[f"mend {self._file}, or take `[audit] required` out of the policy: `paddock policy show`"],
            )

    @contextmanager
    def needed(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call `stop`, perhaps in another thread, when a log that a policy requires misses a line meanwhile.

        Raises:
            KindError: it misses one, before or after.
        """
        self.check()
        self._on_failure = stop
        try:
            yield
        finally:
            self._on_failure = lambda: None
        self.check()

    def record(self, event: str, /, **facts: object) -> None:
        """Write one line: what happened, as in `module.started`, and the facts about it.

        `module` among the facts names the module that it is about. Facts cannot replace the log's own fields.
        """
        try:
            with self._lock:
                self._record(event, facts)
        except Exception as error:  # the audited act continues, unless a policy requires its record
            self._fail(_UNWRITTEN, error)

    def _fail(self, said: str, error: Exception) -> None:
        if said not in self._failures:
            self._failures[said] = str(error)
            _log.warning("%s: %s", said, error)
        if self._is_required:
            self._on_failure()

    def _record(self, event: str, facts: Mapping[str, object]) -> None:
        rate = _Rate()
        if "module" in facts:
            rate = self._rates.setdefault((str(facts["module"]), event), rate)
        if not rate.admits(self._clock()):
            return
        lines = [*self._lines_left_out()] if event == "session.ended" else []
        lines.append(self._line(event, facts, rate.left_out))
        rate.spend(len(lines[-1]))
        self._write(lines)

    def _lines_left_out(self) -> Iterator[str]:
        for (module, event), rate in self._rates.items():
            if rate.left_out:
                yield self._line("audit.left_out", {"module": module, "of": event}, rate.left_out)
                rate.spend(0)

    def _line(self, event: str, facts: Mapping[str, object], left_out: int) -> str:
        """Return a line without its end, which names the line before it."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head: dict[str, Any] = {"time": now, "session": self._session, "event": event}
        if left_out:
            head["left_out"] = left_out
        self._lines += 1
        head |= {"seq": self._lines, "uid": os.geteuid(), "pid": self._pid or os.getpid()}
        own = {name: value for name, value in facts.items() if name not in _OURS}
        for characters in _CUTS:
            line = _encoded({**head, **_Plain(self._mask, characters).table(own, _MAX_DEPTH)})
            if len(line) + len(_LINK) + len(NO_LINE) <= MAX_LINE_BYTES:
                return line
        return _encoded({**head, "cut": sorted(own)[:_MAX_ITEMS]})

    # -- the file --------------------------------------------------------------------------

    @property
    def _file(self) -> Path:
        return self._path or audit_path(self._environ)

    def _write(self, lines: Sequence[str]) -> None:
        descriptor, size = self._opened()
        try:
            end, is_torn = _end_of(descriptor, size) if size else (_end_before(self._file), False)
            linked: list[str] = []
            for line in lines:
                if linked:
                    end = digest_of(linked[-1][:-1].encode())
                linked.append(line + _LINK.format(end))
            # A line that was cut off is ended first, so that it spoils no other.
            data = ("\n" * is_torn + "".join(linked)).encode()
            if os.write(descriptor, data) < len(data):
                os.ftruncate(descriptor, size)
                raise OSError("there was no room for all of a line")
        finally:
            os.close(descriptor)
        for service in sorted(self._forward):
            try:
                self._send(service, linked)
            except OSError as error:
                self._fail(f"the audit log is not sent on to {service}, which misses lines from here on", error)

    def _send(self, service: str, lines: Sequence[str]) -> None:
        place, head = _SERVICES[service]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(self._patience if self._is_required else 0)
            for line in lines:
                sender.sendto(f"{head.format(pid=os.getpid())}{line}".encode(), place)

    @property
    def _patience(self) -> float:
        return _NEXT_WAIT_SECONDS if self._failures else _WAIT_SECONDS

    def _opened(self) -> tuple[int, int]:
        """Return a descriptor of the file to append to, locked, and its size; one that is too large is set aside."""
        if self._path is None:
            self._path = state_folder(self._environ) / _NAME
        while True:
            descriptor = open_locked(self._path, _APPENDING, fcntl.LOCK_EX, self._patience)
            try:
                size = os.fstat(descriptor).st_size
                if size < MAX_FILE_BYTES:
                    return descriptor, size
                os.replace(self._path, older(self._path))
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


class _SubSessionLog(AuditLog):
    """Writes the lines of one sub-session to the log of the first session, if there is one."""

    def __init__(self, whole: AuditLog | None, id: str) -> None:
        super().__init__(id)
        self._whole = whole

    def record(self, event: str, /, **facts: object) -> None:
        if self._whole is not None:
            self._whole.record(event, **{**facts, "sub_session": self._session})


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


def audit_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the log of the user with `environ` is, by default of this process's user."""
    return state_path(os.environ if environ is None else environ) / _NAME


def older(path: Path) -> Path:
    """Return where a file that had grown too large was set aside."""
    return path.with_name(f"{path.name}.1")


def digest_of(line: bytes) -> str:
    """Return 32 hexadecimal digits of a line without its newline; of one that is too long for Paddock's, of its end."""
    return hashlib.sha256(line[-MAX_LINE_BYTES:]).hexdigest()[:32]


def open_locked(path: Path, flags: int, operation: int, seconds: float) -> int:
    """Return a descriptor of the file that is at `path`, with a lock on it, as long as others wait for such a lock.

    Raises:
        OSError: it is none of ours, or another process had the lock all the time.
    """
    deadline = time.monotonic() + seconds
    while True:
        descriptor = open_own(path, flags)
        try:
            _lock(descriptor, operation, deadline)
            with suppress(FileNotFoundError):  # it was just taken away
                if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, operation: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(errno.EBUSY, "another process has held it for too long") from None
            time.sleep(_WAIT_SECONDS / 2000)
        except OSError:  # a file system without locks: lines of several hosts may be linked to the same one
            return
        else:
            return


def _encoded(line: Mapping[str, Any]) -> str:
    """Return a JSON object in ASCII, without the brace at its end."""
    return json.dumps(line).replace("\x7f", "\\u007f")[:-1]


def _end_of(descriptor: int, size: int) -> tuple[str, bool]:
    """Return the digest of a file's last line, and whether that has no newline."""
    tail = os.pread(descriptor, MAX_LINE_BYTES + 1, max(0, size - MAX_LINE_BYTES - 1))
    return digest_of(tail.removesuffix(b"\n").rpartition(b"\n")[2]), not tail.endswith(b"\n")


def _end_before(path: Path) -> str:
    """Return the digest of the last line of the file that was set aside."""
    with suppress(OSError), open(older(path), "rb", opener=open_own) as file:
        if size := os.fstat(file.fileno()).st_size:
            return _end_of(file.fileno(), size)[0]
    return NO_LINE
