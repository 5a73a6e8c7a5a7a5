"""Run commands without having the interpreter load Paddock for each: that takes half of what a short command takes.

As a program, loads it once, and for each request becomes the command in a child. For tests of what commands do; how
one starts, and what of it is in its process, is shown by those of `command_line`.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_SECONDS = 200  # for one command; hit only by a hang
_LONGEST = 1 << 20  # bytes of a request: arguments and environment
_MODULES = ("add", "call", "lock", "list", "remove", "run", "sync", "update", "verify")


class WarmCommands:
    """A process that becomes one command after the other; entered, it is there."""

    def __enter__(self) -> Self:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd="/"
            )
        self._connection.settimeout(_SECONDS)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()
        self._process.wait()

    def run(
        self, args: Sequence[str], stdin: str, cwd: Path | None, environ: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        request = json.dumps([[*args], os.fspath(cwd or Path.cwd()), {**environ}]).encode()
        reading, writing = os.pipe()
        with (
            open(reading, "rb") as given,
            open(os.memfd_create("stdout"), "w+b") as stdout,
            open(os.memfd_create("stderr"), "w+b") as stderr,
        ):
            with open(writing, "w", encoding="utf-8") as pipe:
                pipe.write(stdin)
            socket.send_fds(self._connection, [request], [file.fileno() for file in (given, stdout, stderr)])
            pid = int(self._connection.recv(100))
            try:
                code = int(self._connection.recv(100))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._connection.recv(100)
                raise
            said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in (stdout, stderr)]
        return subprocess.CompletedProcess(args, code, said[0].decode(), said[1].decode())


# -- as a program --------------------------------------------------------------------------


def _serve(connection: socket.socket) -> bool:
    """Return in each child, which is to become the command, and at last in this process, which says so."""
    while True:
        request, ancillary, _, _ = connection.recvmsg(_LONGEST, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        if not request:
            return False
        given = array.array("i")
        for _, _, data in ancillary:
            given.frombytes(data)
        child = os.fork()
        if child == 0:
            _become(connection, given, *json.loads(request))
            return True
        for number in given:
            os.close(number)
        connection.send(str(child).encode())
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(connection: socket.socket, given: array.array[int], args: list[str], cwd: str, env: dict[str, str]) -> None:
    connection.close()
    for standard, number in enumerate(given):
        os.dup2(number, standard)
        os.close(number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv[1:] = args


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, which no command has on its path
    import importlib

    from paddock.cli import main

    for name in _MODULES:
        importlib.import_module(f"paddock.cli.{name}_command")
    if _serve(socket.socket(fileno=int(sys.argv.pop()))):
        sys.argv[0] = "-c"
        main()
