"""Run commands in a worker that is shut in, one after the other, and carry what they read and print.

The host's side of `paddock_sdk.worker.commands`. It blocks, and is called in threads; only the launch and the end of
the worker are the loop's. What the worker sends is the word of a stranger: it is bounded, and anything out of order
ends the worker. Knows nothing of what the commands may reach.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgpack

from paddock.workers.launcher import LaunchSpec
from paddock_sdk.worker.command_frames import (
    CODE,
    COUNT,
    INPUT_WINDOW_BYTES,
    MAX_DATA_BYTES,
    MAX_RUN_BYTES,
    TO_HOST,
    CommandFrameDecoder,
    FrameError,
    FrameKind,
    frame,
)
from paddock_sources.commands.command_output import CommandOutput, input_pieces
from paddock_sources.commands.command_runner import (
    CommandError,
    CommandMissingError,
    CommandResult,
    CommandTimeoutError,
)

ENTRY: Final = "paddock_sdk.worker.commands:serve"

_READ_BYTES: Final = 1 << 20
_GLANCE_SECONDS: Final = 0.1  # between two looks at whether anybody still wants it
_GRACE_SECONDS: Final = 0.5  # for a command to end by itself, and take away what it has half made
_STOP_SECONDS: Final = 3.0  # from the request to stop to the command's end; then the worker is ended
_CODES: Final = range(-64, 256)


@dataclass(frozen=True, slots=True)
class CommandSpec(LaunchSpec):
    """What a worker that runs commands is to be; it comes from the same template as a module's."""

    def request(self) -> bytes:
        """Return the request as whoever forks the worker reads it."""
        return self._packed("profile", {"entry": ENTRY, "profile": self.profile.as_dict()})


class WorkerGoneError(Exception):
    """Raised when the worker ended under a command, or said what none of ours says."""


class CommandChannel:
    """The stream to one worker; used by one thread at a time.

    `name` is what its commands are called in messages, `rpc` the stream, which does not block. Once it `is_lost`, the
    worker is of no use any more, and to be ended.
    """

    def __init__(self, name: str, rpc: socket.socket) -> None:
        self.is_lost = False
        self._name = name
        self._rpc = rpc
        self._decoder = CommandFrameDecoder(TO_HOST)
        self._unsent: deque[memoryview] = deque()
        self._heard: deque[tuple[FrameKind, memoryview]] = deque()
        self._buffer = memoryview(bytearray(_READ_BYTES))

    def run(
        self,
        argv: Sequence[str],
        stdin: bytes | Iterable[bytes],
        output: CommandOutput,
        timeout: float,
        check: Callable[[], None] = lambda: None,
    ) -> CommandResult:
        """Run a command to its end; `check` is called several times a second, and what it raises ends the command.

        Raises:
            CommandError: it could not be started, or took too long.
            WorkerGoneError: the worker was lost under it.
        """
        has_input = not (isinstance(stdin, bytes) and not stdin)
        request = msgpack.packb({"argv": [os.fsencode(word) for word in argv], "has_input": has_input})
        if len(request) > MAX_RUN_BYTES:
            raise CommandError(self._name, f"its arguments take {len(request)} bytes, {MAX_RUN_BYTES} can be passed on")
        self._send(frame(FrameKind.RUN, request))
        run = _Run(self._name, str(argv[0]), output, input_pieces(stdin, MAX_DATA_BYTES) if has_input else None)
        deadline = time.monotonic() + timeout
        try:
            while run.code is None:
                check()
                if (left := deadline - time.monotonic()) <= 0:
                    raise CommandTimeoutError(self._name, timeout)
                while not self._unsent and (data := run.next_input()) is not None:
                    self._send(data)
                self._exchange(run, min(left, _GLANCE_SECONDS))
        except WorkerGoneError:
            self.is_lost = True
            raise
        except BaseException:
            self._stop(run)
            raise
        output.finish()
        return CommandResult(run.code, output.stdout, output.stderr)

    def _stop(self, run: _Run) -> None:
        """End the command, and wait until it has; what it still prints is dropped."""
        if run.code is not None:
            return
        run.is_dropped = True
        self._send(frame(FrameKind.STOP, COUNT.pack(int(_GRACE_SECONDS * 1000))))
        deadline = time.monotonic() + _STOP_SECONDS
        try:
            while run.code is None:
                if (left := deadline - time.monotonic()) <= 0:
                    raise WorkerGoneError("it does not end")
                self._exchange(run, left)
        except (WorkerGoneError, CommandError):
            self.is_lost = True

    def _send(self, data: bytes) -> None:
        self._unsent.append(memoryview(data))

    def _exchange(self, run: _Run, seconds: float) -> None:
        """Send and receive what can be, once anything can."""
        self._take_in(run)  # what is left when somebody did not like what came before it
        if run.code is not None:
            return
        poller = select.poll()
        poller.register(self._rpc, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        for _, events in poller.poll(seconds * 1000):
            try:
                if events & select.POLLOUT:
                    self._send_some()
                received = self._rpc.recv_into(self._buffer) if events & ~select.POLLOUT else None
            except BlockingIOError:
                continue
            except OSError as error:
                raise WorkerGoneError(error.strerror or str(error)) from error
            if received is not None:
                self._take(received, run)  # whose own errors are not the stream's

    def _send_some(self) -> None:
        data = self._unsent[0]
        sent = self._rpc.send(data, socket.MSG_NOSIGNAL)
        if sent < len(data):
            self._unsent[0] = data[sent:]
        else:
            self._unsent.popleft()

    def _take(self, size: int, run: _Run) -> None:
        if size == 0:
            raise WorkerGoneError("it ended")
        try:
            self._heard.extend(self._decoder.feed(self._buffer[:size]))
        except FrameError as error:
            raise _lost_by(error) from error
        self._take_in(run)

    def _take_in(self, run: _Run) -> None:
        try:
            while self._heard:
                run.take(*self._heard.popleft())
        except FrameError as error:
            raise _lost_by(error) from error


class _Run:
    """One command as far as the host has heard of it."""

    def __init__(self, name: str, program: str, output: CommandOutput, pieces: Iterator[memoryview] | None) -> None:
        self.code: int | None = None
        self.is_dropped = False
        self._name = name
        self._program = program
        self._output = output
        self._pieces = pieces
        self._window = INPUT_WINDOW_BYTES

    def next_input(self) -> bytes | None:
        """Return the next frame of input that may be sent, if there is one."""
        if self._pieces is None or self._window < MAX_DATA_BYTES:
            return None
        piece = next(self._pieces, None)
        if piece is None:
            self._pieces = None
            return frame(FrameKind.INPUT_END)
        self._window -= len(piece)
        return frame(FrameKind.INPUT, piece)

    def take(self, kind: FrameKind, payload: memoryview) -> None:
        """Take what the worker says.

        Raises:
            FrameError: it cannot be true.
            CommandError: the command could not be started.
        """
        if self.code is not None:
            raise FrameError("something after a command's end")
        if kind is FrameKind.STDOUT or kind is FrameKind.STDERR:
            if not self.is_dropped:
                (self._output.take_stdout if kind is FrameKind.STDOUT else self._output.take_stderr)(payload)
        elif kind is FrameKind.TAKEN:
            self._window += _unpacked(COUNT, payload)
            if self._window > INPUT_WINDOW_BYTES:
                raise FrameError("more input was taken than was given")
        elif kind is FrameKind.ENDED:
            code = _unpacked(CODE, payload)
            if code not in _CODES:
                raise FrameError(f"the exit code {code}")
            self.code = code
        else:
            self._fail(payload)

    def _fail(self, payload: memoryview) -> None:
        if len(payload) < COUNT.size:
            raise FrameError("a failure without a number")
        (number,) = COUNT.unpack(payload[: COUNT.size])
        text = bytes(payload[COUNT.size :]).decode("utf-8", errors="replace").lower()
        self.code = -1  # there is nothing to stop
        if number == errno.ENOENT:
            raise CommandMissingError(self._name, self._program, text)
        raise CommandError(self._name, f"`{self._program}` cannot be started: {text}")


def _lost_by(error: FrameError) -> WorkerGoneError:
    return WorkerGoneError(f"it sent what no worker sends: {error}")


def _unpacked(layout: struct.Struct, payload: memoryview) -> int:
    try:
        value: int
        (value,) = layout.unpack(payload)
    except struct.error as error:
        raise FrameError(str(error)) from error
    return value
