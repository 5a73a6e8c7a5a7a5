"""Run commands in a sandboxed worker, one after the other, and carry their input and output.

This is the host's side of `paddock_sdk.worker.commands`, over the protocol that modules speak. It blocks, and is called
in threads; only the launch and the end of the worker happen on the loop. The worker's messages are untrusted: they are
bounded, and anything out of order ends the worker. This file does not know what the commands may reach.
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
from typing import Final

import msgpack

from paddock_sdk.protocol import (
    Cancel,
    Connection,
    Credit,
    Failure,
    Flag,
    Frame,
    Hello,
    Item,
    Kind,
    RemoteProtocolError,
    Request,
    Response,
    Role,
)
from paddock_sdk.protocol.frames import Buffer, FrameParts
from paddock_sdk.worker.commands import (
    CODE,
    COUNT,
    DATA_BYTES,
    GREETING,
    MAX_TEXT_BYTES,
    RUN_BYTES,
    TO_HOST_BYTES,
    TO_WORKER_BYTES,
    WINDOW,
    CommandMethod,
    Output,
)
from paddock_sources.commands.command_output import CommandOutput, input_pieces
from paddock_sources.commands.command_runner import (
    CommandError,
    CommandMissingError,
    CommandResult,
    CommandTimeoutError,
)

_GLANCE_SECONDS: Final = 0.1  # between two looks at whether its caller still wants it
_STOP_SECONDS: Final = 3.0  # from the request to stop to the command's end; then the worker is ended
_CODES: Final = range(-64, 256)


class WorkerGoneError(Exception):
    """Raised when the worker ended during a command, or sent a message that Paddock's own worker never sends."""


class CommandChannel:
    """The stream to one worker; used by one thread at a time.

    `name` names its commands in messages, `rpc` is the stream, which does not block. Once it `is_lost`, the worker is
    useless and has to be ended.
    """

    def __init__(self, name: str, rpc: socket.socket) -> None:
        self.is_lost = False
        self._name = name
        self._rpc = rpc
        self._connection = Connection(Role.HOST, receive_limit=TO_HOST_BYTES, send_limit=TO_WORKER_BYTES)
        self._is_greeted = False
        self._unsent: deque[Buffer] = deque()
        self._arrived: deque[Frame] = deque()

    def run(
        self,
        argv: Sequence[str],
        stdin: bytes | Iterable[bytes],
        output: CommandOutput,
        timeout: float,
        check: Callable[[], None] = lambda: None,
    ) -> CommandResult:
        """Run a command to its end; `check` is called several times a second, and an exception of it ends the command.

        Raises:
            CommandError: it could not be started, or took too long.
            WorkerGoneError: the worker was lost under it.
        """
        pieces = None if isinstance(stdin, bytes) and not stdin else input_pieces(stdin, DATA_BYTES)
        request = msgpack.packb([[os.fsencode(word) for word in argv], pieces is not None])
        if len(request) > RUN_BYTES:
            raise CommandError(self._name, f"its arguments take {len(request)} bytes, {RUN_BYTES} can be passed on")
        run = _Run(self._name, str(argv[0]), output, pieces, self._connection, self._send)
        deadline = time.monotonic() + timeout
        try:
            while run.code is None:
                check()
                if (left := deadline - time.monotonic()) <= 0:
                    raise CommandTimeoutError(self._name, timeout)
                if self._is_greeted:
                    run.begin(request)
                    while not self._unsent and run.send_input():
                        pass
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
        """End the command and wait for its end; its later output is dropped."""
        if not self._is_greeted:  # it has not begun, and a worker that does not greet in this time will not
            self.is_lost = True
            return
        run.cancel()
        deadline = time.monotonic() + _STOP_SECONDS
        try:
            while run.is_under_way:
                if (left := deadline - time.monotonic()) <= 0:
                    raise WorkerGoneError("it does not end")
                self._exchange(run, left)
            self._take_in(run)
        except (WorkerGoneError, CommandError):
            self.is_lost = True

    def _send(self, frame: bytes | FrameParts | None) -> None:
        """Queue a frame to be sent, if there is one."""
        if frame is not None:
            self._unsent.extend((frame,) if isinstance(frame, bytes) else frame)

    def _exchange(self, run: _Run, seconds: float) -> None:
        """Send and receive as much as possible, once the stream is ready for either."""
        self._take_in(run)  # what is left after an exception about the earlier output
        if run.code is not None:
            return
        poller = select.poll()
        poller.register(self._rpc, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        for _, events in poller.poll(seconds * 1000):
            try:
                if events & select.POLLOUT:
                    self._send_some()
                received = self._rpc.recv_into(self._connection.get_buffer()) if events & ~select.POLLOUT else None
            except BlockingIOError:
                continue
            except OSError as error:
                raise WorkerGoneError(error.strerror or str(error)) from error
            if received is not None:
                self._receive(received, run)  # whose own errors are not the stream's

    def _send_some(self) -> None:
        data = self._unsent[0]
        sent = self._rpc.send(data, socket.MSG_NOSIGNAL)
        if sent < len(data):
            self._unsent[0] = memoryview(data)[sent:]
        else:
            self._unsent.popleft()

    def _receive(self, size: int, run: _Run) -> None:
        if size == 0:
            raise WorkerGoneError("it ended")
        try:
            self._arrived.extend(self._connection.buffer_updated(size))
        except RemoteProtocolError as error:
            raise _lost_by(error) from error
        self._take_in(run)

    def _take_in(self, run: _Run) -> None:
        try:
            while self._arrived:
                frame = self._arrived.popleft()
                if isinstance(frame, Hello):
                    self._greet(frame)
                else:
                    run.take(frame)
        except RemoteProtocolError as error:
            raise _lost_by(error) from error

    def _greet(self, hello: Hello) -> None:
        if hello.body != GREETING:
            raise RemoteProtocolError("another greeting than ours")
        self._is_greeted = True
        self._send(self._connection.send_welcome(GREETING))


class _Run:
    """One command, as far as the worker has reported it."""

    def __init__(
        self,
        name: str,
        program: str,
        output: CommandOutput,
        pieces: Iterator[memoryview] | None,
        connection: Connection,
        send: Callable[[bytes | FrameParts | None], None],
    ) -> None:
        self.code: int | None = None
        self._name = name
        self._program = program
        self._output = output
        self._pieces = pieces
        self._connection = connection
        self._send = send
        self._id = 0
        self._input_id = 0
        self._taken = 0
        self._is_dropped = False

    @property
    def is_under_way(self) -> bool:
        """Whether the worker was asked for it, and has not reported its end."""
        return self._connection.is_calling(self._id)

    def begin(self, request: bytes) -> None:
        """Ask the worker to start it, once."""
        if not self._id:
            self._id, frame = self._connection.send_request(0, CommandMethod.RUN, request, flags=Flag.STREAM)
            self._send(frame)
            self._send(self._connection.send_credit(self._id, WINDOW))

    def send_input(self) -> bool:
        """Send a piece of its input, if any is wanted; return whether it was sent."""
        if not self._connection.credit(self._input_id):
            return False
        piece = None if self._pieces is None else next(self._pieces, None)
        if piece is None:
            self._end_input()
        else:
            self._send(self._connection.send_item(self._input_id, piece))
        return piece is not None

    def cancel(self) -> None:
        """Ask the worker to end it; its later output is dropped."""
        self._is_dropped = True
        self._send(self._connection.send_cancel(self._id))

    def take(self, frame: Frame) -> None:
        """Take a message of the worker.

        Raises:
            RemoteProtocolError: it cannot be true.
            CommandError: the command could not be started.
        """
        if frame.handles:
            raise RemoteProtocolError("objects, of which a command has none")
        if isinstance(frame, Item):
            self._take_output(memoryview(frame.body))
        elif isinstance(frame, Request) and self._may_ask(frame):
            self._input_id = frame.id
        elif isinstance(frame, Cancel) and frame.id == self._input_id:
            self._end_input()
        elif isinstance(frame, Response):
            code = _unpacked(CODE, frame.body)
            if code not in _CODES:
                raise RemoteProtocolError(f"the exit code {code}")
            self.code = code
        elif isinstance(frame, Failure):
            self._fail(memoryview(frame.body))
        elif not isinstance(frame, Credit):
            raise RemoteProtocolError(f"a frame of kind {Kind(frame.kind).name}")

    def _may_ask(self, request: Request) -> bool:
        asked = (request.target, request.method, request.flags, request.parent)
        expected = (0, CommandMethod.INPUT, Flag.STREAM, self._id)
        return asked == expected and self._pieces is not None and not self._input_id

    def _take_output(self, item: memoryview) -> None:
        if not item or item[0] not in (Output.STDOUT, Output.STDERR):
            raise RemoteProtocolError("output from nowhere")
        if not self._is_dropped:
            (self._output.take_stdout if item[0] == Output.STDOUT else self._output.take_stderr)(item[1:])
        self._taken += 1
        if self._taken == WINDOW // 2:
            self._send(self._connection.send_credit(self._id, self._taken))
            self._taken = 0

    def _end_input(self) -> None:
        if self._connection.is_serving(self._input_id):
            self._send(self._connection.send_response(self._input_id, b""))

    def _fail(self, body: memoryview) -> None:
        if len(body) < COUNT.size:
            raise RemoteProtocolError("a failure without a number")
        (number,) = COUNT.unpack(body[: COUNT.size])
        text = bytes(body[COUNT.size :][:MAX_TEXT_BYTES]).decode("utf-8", errors="replace").lower()
        self.code = -1
        if number == errno.ENOENT:
            raise CommandMissingError(self._name, self._program, text)
        raise CommandError(self._name, f"`{self._program}` cannot be started: {text}")


def _lost_by(error: RemoteProtocolError) -> WorkerGoneError:
    return WorkerGoneError(f"it sent what no worker sends: {error}")


def _unpacked(layout: struct.Struct, body: Buffer) -> int:
    try:
        value: int
        (value,) = layout.unpack(body)
    except struct.error as error:
        raise RemoteProtocolError(str(error)) from error
    return value
