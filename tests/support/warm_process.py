"""Have a process that has loaded what programs need become each of them in a child: loading is most of what they take.

What a process gets from the one that starts it comes with the request: arguments, environment, folder, umask, standard
streams, the terminal, and the machine with a policy that it is to be on. The process itself needs only the standard
library for it.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TextIO

_SECONDS = 200  # for one command; hit only by a hang
_LONGEST = 1 << 20  # bytes of a request: arguments and environment
_PIPE = 1 << 20  # bytes of stdin, which are written before the command begins


class WarmCommand:
    """A command that has begun; `pid` is its process, which leads a session where it is on a terminal."""

    def __init__(self, reports: socket.socket) -> None:
        self._reports = reports
        self._code: int | None = None
        self.pid = self._next_report(_SECONDS)

    def poll(self) -> int | None:
        """Return how it ended, if it has."""
        if self._code is None:
            try:
                self._code = self._next_report(0)
            except BlockingIOError:
                return None
            self._reports.close()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Return how it ended, once it has.

        Raises:
            TimeoutError: It has not ended in time, and goes on.
        """
        if self._code is None:
            self._code = self._next_report(timeout)
            self._reports.close()
        return self._code

    def _next_report(self, timeout: float | None) -> int:
        self._reports.settimeout(timeout)
        said = self._reports.recv(100)
        if not said:
            raise ConnectionError("the process that becomes commands has ended")
        return int(said)


class WarmProcess:
    """A process that becomes commands, each in a child.

    It is started by `command`, followed by the numbers of its descriptors: `more`, and the connection for requests.
    """

    def __init__(self, command: Sequence[str], more: Sequence[int] = ()) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()  # of the umask, which can only be read while another one is set
        with theirs:
            fds = [*more, theirs.fileno()]
            self._process = subprocess.Popen([*command, *map(str, fds)], pass_fds=fds, cwd="/")
        self._connection.settimeout(_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()
        self._process.wait(_SECONDS)

    @property
    def pid(self) -> int:
        """The process whose children the commands are."""
        return self._process.pid

    def run(
        self,
        args: Sequence[str],
        stdin: str,
        cwd: Path | None,
        environ: Mapping[str, str],
        *,
        machine: Sequence[str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, on a `machine` with a policy or else on this one."""
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
        with (
            open(reading, "rb") as given,
            open(os.memfd_create("stdout"), "w+b") as stdout,
            open(os.memfd_create("stderr"), "w+b") as stderr,
        ):
            with open(writing, "w", encoding="utf-8") as pipe:
                pipe.write(stdin)
            streams = [file.fileno() for file in (given, stdout, stderr)]
            command = self.begin(args, streams, cwd, environ, machine=machine)
            try:
                code = command.wait(_SECONDS)
            except TimeoutError:
                os.kill(command.pid, signal.SIGKILL)
                command.wait()
                raise
            said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in (stdout, stderr)]
        return subprocess.CompletedProcess(args, code, said[0].decode(), said[1].decode())

    def begin(
        self,
        args: Sequence[str],
        streams: Sequence[int],
        cwd: Path | None,
        environ: Mapping[str, str],
        *,
        machine: Sequence[str] | None = None,
        on_terminal: bool = False,
    ) -> WarmCommand:
        """Begin a command with the given standard streams; with `on_terminal` they are the terminal that it is on."""
        with self._lock:
            os.umask(mask := os.umask(0o077))
        request = json.dumps([[*args], os.fspath(cwd or Path.cwd()), {**environ}, mask, machine, on_terminal]).encode()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._connection, [request], [*streams, theirs.fileno()])
        return WarmCommand(ours)


# -- in the process ------------------------------------------------------------------------


def become_each(connection: socket.socket, enter: Callable[..., object] | None = None) -> bool:
    """Return in each child, once it has what a command begins with, and at last in this process, which says so.

    `enter` puts a child on the machine that the request names.
    """
    running: dict[int, tuple[int, socket.socket]] = {}  # by a descriptor that is readable once the process has ended
    while True:
        ready, _, _ = select.select([connection, *running], [], [])
        for ended in running.keys() & {*ready}:
            pid, reports = running.pop(ended)
            os.close(ended)
            with reports:
                reports.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        if connection not in ready:
            continue
        request, ancillary, _, _ = connection.recvmsg(_LONGEST, socket.CMSG_SPACE(4 * array.array("i").itemsize))
        if not request:
            return False
        given = array.array("i", b"".join(data for _, _, data in ancillary))
        reports = socket.socket(fileno=given.pop())
        child = os.fork()
        if child == 0:
            connection.close()
            for number, (_, others) in running.items():
                os.close(number)
                others.close()
            with reports:
                _become(given, reports, enter, *json.loads(request))
            return True
        for number in given:
            os.close(number)
        running[os.pidfd_open(child)] = child, reports


def _become(
    given: Sequence[int],
    reports: socket.socket,
    enter: Callable[..., object] | None,
    args: list[str],
    cwd: str,
    env: dict[str, str],
    mask: int,
    machine: list[str] | None,
    on_terminal: bool,
) -> None:
    for standard, number in enumerate(given):
        os.dup2(number, standard)
        os.close(number)
    if on_terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    reports.send(str(os.getpid()).encode())
    sys.stdin = sys.__stdin__ = _opened(0, sys.stdin, None)
    sys.stdout = sys.__stdout__ = _opened(1, sys.stdout, "\n")
    sys.stderr = sys.__stderr__ = _opened(2, sys.stderr, "\n")
    os.umask(mask)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    if machine is not None and enter is not None:
        enter(*machine)
    os.chdir(cwd)
    sys.argv[1:] = args


def _opened(standard: int, before: TextIO, newline: str | None) -> TextIO:
    """Open a standard stream anew: whether it is a terminal says how it is buffered."""
    mode: Literal["r", "w"] = "w" if standard else "r"
    stream = open(standard, mode, encoding=before.encoding, errors=before.errors, newline=newline, closefd=False)
    if standard == 2:
        stream.reconfigure(line_buffering=True)
    return stream


def run_and_end(command: Callable[[], object]) -> None:
    """Run a command and end as programs do, but that nothing is taken apart.

    The interpreter would touch, and so copy, all that the command shares with this process: that takes longer than most
    commands.
    """
    code = 0
    try:
        command()
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)  # the interpreter says what becomes of it
    os._exit(code & 0xFF)
