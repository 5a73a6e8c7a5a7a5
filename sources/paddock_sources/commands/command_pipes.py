"""The pipes of one command, for every runner: its input is written and its output read until it has ended."""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from io import FileIO
from typing import Final

from paddock_sources.commands.command_runner import Command, CommandError, CommandTimeoutError

_PIPE_BYTES: Final = 1 << 20  # fewer, larger pieces; the system may grant less
_READ_BYTES: Final = 128 << 10
_GLANCE_SECONDS: Final = 0.1  # between two looks at whether its caller still wants it
_LAST_WORDS_SECONDS: Final = 1.0  # for output that a process outside the group still holds open


class CommandPipes:
    """The runner's ends; `theirs` are those of the command: its input, output and messages.

    The command may have the other ends, too, by opening them anew. So none of ours ever blocks.

    Raises:
        CommandError: there can be no pipes, for one because the host has as many files open as it may.
    """

    def __init__(self, name: str, command: Command) -> None:
        self._name = name
        with ExitStack() as made:
            try:
                given, self._stdin = _pipe(made)
                stdout, printed = _pipe(made)
                stderr, messages = _pipe(made)
            except OSError as error:
                raise CommandError(name, f"it can have no pipes: {os.strerror(error.errno or 0).lower()}") from error
            made.pop_all()
        self.theirs = (given, printed, messages)
        self._timeout = command.timeout
        self._pieces = _pieces(command.stdin)
        self._piece = memoryview(b"")
        self._outputs = {
            stdout.fileno(): (stdout, command.output.take_stdout),
            stderr.fileno(): (stderr, command.output.take_stderr),
        }
        for fd in (self._stdin.fileno(), *self._outputs):
            os.set_blocking(fd, False)
            with suppress(OSError):  # the user's limit of memory in pipes is reached
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def carry(self, end: int, take_end: Callable[[], int], check: Callable[[], None]) -> int:
        """Carry input and output until the command has ended; return its exit code.

        The descriptor `end` is readable once it has ended, and `take_end` then returns the code. `check` is called
        several times a second. An exception of either leaves the command running.

        Raises:
            CommandTimeoutError: it takes too long.
        """
        deadline = time.monotonic() + self._timeout
        give_up = float("inf")
        code: int | None = None
        while code is None or (self._outputs and time.monotonic() < give_up):
            check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise CommandTimeoutError(self._name, self._timeout)
            ready = self._wait(end if code is None else None, min(left, _GLANCE_SECONDS))
            if not self._stdin.closed and self._stdin.fileno() in ready:
                self._write()
            for fd in self._outputs.keys() & ready:
                self._read(fd)
                give_up = time.monotonic() + _LAST_WORDS_SECONDS
            if end in ready and code is None:
                code = take_end()
                give_up = time.monotonic() + _LAST_WORDS_SECONDS
        return code

    def close_theirs(self) -> None:
        """Close the ends of the command, which has its own by now."""
        for pipe in self.theirs:
            pipe.close()

    def close(self) -> None:
        """Close all ends that are open here."""
        self.close_theirs()
        self._stdin.close()
        for pipe, _ in self._outputs.values():
            pipe.close()

    def _wait(self, end: int | None, seconds: float) -> dict[int, int]:
        poller = select.poll()
        if end is not None:
            poller.register(end, select.POLLIN)
        for fd in self._outputs:
            poller.register(fd, select.POLLIN)
        if not self._stdin.closed:
            poller.register(self._stdin, select.POLLOUT)
        return dict(poller.poll(seconds * 1000))

    def _read(self, fd: int) -> None:
        pipe, take = self._outputs[fd]
        data = pipe.read(_READ_BYTES)
        if data:
            take(memoryview(data))
        elif data is not None:
            del self._outputs[fd]
            pipe.close()

    def _write(self) -> None:
        if not self._piece:
            self._piece = next(self._pieces, memoryview(b""))
        try:
            written = self._stdin.write(self._piece) if self._piece else 0
        except OSError:
            written = 0  # the command reads no further
        if written == 0:
            self._stdin.close()
        else:
            self._piece = self._piece[written or 0 :]


def _pipe(made: ExitStack) -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    os.fchmod(reading, 0o666)  # a command of another user may open what it has by name, such as /dev/stdin
    return made.enter_context(FileIO(reading, "r")), made.enter_context(FileIO(writing, "w"))


def _pieces(stdin: bytes | Iterable[bytes]) -> Iterator[memoryview]:
    chunks = (stdin,) if isinstance(stdin, (bytes, bytearray, memoryview)) else stdin
    for chunk in chunks:
        if chunk:
            yield memoryview(chunk)
