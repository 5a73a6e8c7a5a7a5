"""Run commands for the host, one after the other, in a sandboxed worker: an entry beside that of modules.

It speaks the protocol that modules speak. The host calls `RUN`, which answers with a stream of the command's output and
ends with its exit code. The worker calls `INPUT`, whose stream is the command's input. Credit bounds the data in
transit in either direction, and cancelling `RUN` ends the command.

Each command is a process group of its own, and nothing of it is left when it has ended. The worker ends when the host
closes the connection, and its init then ends all that still runs. One thread, one loop, bounded memory.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections import deque
from enum import IntEnum
from typing import Final

import msgpack

from paddock_sdk.protocol import PROTOCOL_VERSION, Cancel, Connection, Flag, Frame, Item, Request, Response, Role
from paddock_sdk.protocol.frames import HEADER_BYTES, Buffer, FrameParts


class CommandMethod(IntEnum):
    """The one call that either end makes of the other, to target 0; both are answered with a stream."""

    RUN = 1  # of the worker: msgpack [[argument…], has input] -> OUTPUT items, then CODE; a failure is COUNT and text
    INPUT = 2  # of the host: -> the command's input


class Output(IntEnum):
    """The first byte of an item of `RUN`: which stream the rest comes from."""

    STDOUT = 1
    STDERR = 2


DATA_BYTES: Final = 128 << 10  # of one item
WINDOW: Final = 8  # items on their way, in either direction: 1 MiB
RUN_BYTES: Final = 1 << 20  # of arguments; the kernel takes little more
TO_WORKER_BYTES: Final = HEADER_BYTES + RUN_BYTES
TO_HOST_BYTES: Final = HEADER_BYTES + 1 + DATA_BYTES
MAX_TEXT_BYTES: Final = 1024  # of a failure
GREETING: Final[bytes] = msgpack.packb({"protocol": PROTOCOL_VERSION})
COUNT: Final = struct.Struct(">I")
CODE: Final = struct.Struct(">i")  # negative for a signal

_PIPE_BYTES: Final = 1 << 20  # fewer, larger pieces; the system may grant less
_GRACE_SECONDS: Final = 0.5  # for a command to end by itself, and remove what it has half made
_LAST_WORDS_SECONDS: Final = 1.0  # for output that a process outside the group still holds open
_PIECES_AT_ONCE: Final = 16
_OWN_INIT: Final = 1


def serve(rpc: socket.socket, name: str) -> None:
    """Run the host's commands until it closes the connection."""
    rpc.setblocking(False)
    CommandServer(rpc).run()


class CommandServer:
    """The worker's side of one session of commands."""

    def __init__(self, rpc: socket.socket) -> None:
        self.connection = Connection(Role.WORKER, receive_limit=TO_WORKER_BYTES, send_limit=TO_HOST_BYTES)
        self._rpc = rpc
        self._unsent: deque[Buffer] = deque()
        self._command: _Command | None = None
        # With process numbers of our own, all that there are besides the init are ours.
        self._is_alone = os.getppid() == _OWN_INIT

    def run(self) -> None:
        """Serve until the host is gone."""
        self.send(self.connection.send_hello(GREETING))
        while True:
            ready = self._wait()
            if self._rpc.fileno() in ready and not self._receive():
                return
            command = self._command
            if command is not None:
                command.go_on(ready)
                if command.is_over:
                    self._command = None
            if self._unsent and not self._send_some():
                return

    def send(self, frame: bytes | FrameParts | None) -> None:
        """Queue a frame, if there is one, to be sent as soon as the host takes it."""
        if frame is not None:
            self._unsent.extend((frame,) if isinstance(frame, bytes) else frame)

    def _wait(self) -> dict[int, int]:
        poller = select.poll()
        poller.register(self._rpc, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        timeout = None
        if self._command is not None:
            for fd, events in self._command.interests():
                poller.register(fd, events)
            timeout = self._command.seconds_left()
        return dict(poller.poll(None if timeout is None else timeout * 1000))

    def _receive(self) -> bool:
        """Process the host's frames; return False once it is gone."""
        try:
            size = self._rpc.recv_into(self.connection.get_buffer())
        except BlockingIOError:
            return True
        except OSError:
            return False
        for frame in self.connection.buffer_updated(size) if size else ():
            self._obey(frame)
        return size > 0

    def _obey(self, frame: Frame) -> None:
        command = self._command
        if isinstance(frame, Request):
            self._start(frame)
        elif command is not None and isinstance(frame, Item | Response):
            command.take_input(frame)
        elif command is not None and isinstance(frame, Cancel):
            command.stop()

    def _start(self, request: Request) -> None:
        try:
            if self._command is not None:
                raise ValueError("one command at a time")
            argv, has_input = msgpack.unpackb(request.body)
            self._command = _Command(self, request.id, argv, has_input=has_input, is_alone=self._is_alone)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            number = getattr(error, "errno", None) or 0
            text = os.strerror(number) if number else str(error)
            body = COUNT.pack(number) + text.encode()[:MAX_TEXT_BYTES]
            self.send(self.connection.send_failure(request.id, body))

    def _send_some(self) -> bool:
        try:
            sent = self._rpc.sendmsg(list(self._unsent)[:_PIECES_AT_ONCE], (), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return True
        except OSError:
            return False
        while sent:
            first = self._unsent.popleft()
            if sent < len(first):
                self._unsent.appendleft(memoryview(first)[sent:])
                break
            sent -= len(first)
        return True


class _Command:
    """One command that was started, in the service of the host's call `id`.

    Raises:
        OSError, ValueError: it cannot be.
    """

    def __init__(self, server: CommandServer, id: int, argv: list[bytes], *, has_input: bool, is_alone: bool) -> None:
        self.is_over = False
        self._id = id
        self._server = server
        self._connection = server.connection
        self._is_alone = is_alone
        self._process = subprocess.Popen(  # noqa: S603 - what to run is the host's to say, who may do anything here
            argv,
            bufsize=0,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._pidfd = os.pidfd_open(self._process.pid)
        self._stdin = self._process.stdin
        self._outputs = {
            self._process.stdout.fileno(): (self._process.stdout, Output.STDOUT),
            self._process.stderr.fileno(): (self._process.stderr, Output.STDERR),
        }
        self._input: deque[memoryview] = deque()
        self._input_id = 0
        self._input_ends = not has_input
        self._is_stopped = False
        self._code: int | None = None
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        pipes = [*self._outputs, *([] if self._stdin is None else [self._stdin.fileno()])]
        for fd in pipes:
            os.set_blocking(fd, False)
            try:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            except OSError:
                pass  # the user's limit of memory in pipes is reached
        if has_input:
            self._input_id, frame = self._connection.send_request(
                0, CommandMethod.INPUT, b"", flags=Flag.STREAM, parent=id
            )
            server.send(frame)
            server.send(self._connection.send_credit(self._input_id, WINDOW))

    def interests(self) -> list[tuple[int, int]]:
        """Return the descriptors to wait for."""
        may_print = self._is_stopped or self._connection.credit(self._id) > 0
        if self._give_up_at is not None and not may_print:
            self._give_up_at = time.monotonic() + _LAST_WORDS_SECONDS  # it is not the command that is late
        found = [(fd, select.POLLIN) for fd in self._outputs] if may_print else []
        if self._code is None:
            found.append((self._pidfd, select.POLLIN))
        if self._stdin is not None and self._input:
            found.append((self._stdin.fileno(), select.POLLOUT))
        return found

    def seconds_left(self) -> float | None:
        """Return for how long there is nothing to do unless something happens."""
        moments = [moment for moment in (self._kill_at, self._give_up_at) if moment is not None]
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def take_input(self, frame: Item | Response) -> None:
        """Take a piece of the command's input, or its end."""
        if frame.id != self._input_id or self._stdin is None:
            return
        if isinstance(frame, Response):
            self._input_ends = True
        elif frame.body:
            self._input.append(memoryview(frame.body))
        if self._input_ends and not self._input:
            self._close_input()

    def stop(self) -> None:
        """Ask its processes to end, and kill them a moment later; their later output is dropped."""
        self._is_stopped = True
        if self._code is None:
            self._signal(signal.SIGTERM)
            self._kill_at = time.monotonic() + _GRACE_SECONDS

    def go_on(self, ready: dict[int, int]) -> None:
        """Do everything that needs no waiting, and answer the call once all is done."""
        if self._stdin is not None and self._input and self._stdin.fileno() in ready:
            self._write()
        for fd in [fd for fd in self._outputs if fd in ready]:
            self._read(fd)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill()
            self._kill_at = None
        if self._pidfd in ready and self._code is None:
            self._kill()  # kills what it left behind, while its number cannot mean another process
            self._code = self._process.wait()
            self._kill_at = None
            self._give_up_at = time.monotonic() + _LAST_WORDS_SECONDS
        if self._give_up_at is not None and not (self._outputs and time.monotonic() < self._give_up_at):
            self._end()

    def _end(self) -> None:
        """Close everything, and report how it ended."""
        assert self._code is not None
        self._close_input()
        for fd in list(self._outputs):
            self._close_output(fd)
        os.close(self._pidfd)
        self._server.send(self._connection.send_response(self._id, CODE.pack(self._code)))
        self.is_over = True

    def _read(self, fd: int) -> None:
        _, output = self._outputs[fd]
        if not self._is_stopped and not self._connection.credit(self._id):
            return  # the other output used the remaining credit
        item = bytearray(1 + DATA_BYTES)
        item[0] = output
        try:
            size = os.readv(fd, [memoryview(item)[1:]])
        except BlockingIOError:
            return
        if not size:
            self._close_output(fd)
            return
        if not self._is_stopped:
            self._server.send(self._connection.send_item(self._id, memoryview(item)[: 1 + size]))
        if self._give_up_at is not None:
            self._give_up_at = time.monotonic() + _LAST_WORDS_SECONDS

    def _write(self) -> None:
        assert self._stdin is not None
        try:
            written = os.write(self._stdin.fileno(), self._input[0])
        except BlockingIOError:
            return
        except OSError:
            self._close_input()
            return
        rest = self._input.popleft()[written:]
        if rest:
            self._input.appendleft(rest)
        else:
            self._server.send(self._connection.send_credit(self._input_id, 1))
        if self._input_ends and not self._input:
            self._close_input()

    def _close_input(self) -> None:
        """Close the command's input; the host should send no more."""
        self._input.clear()
        if self._stdin is not None:
            self._stdin.close()
            self._stdin = None
            self._server.send(self._connection.send_cancel(self._input_id))

    def _close_output(self, fd: int) -> None:
        pipe, _ = self._outputs.pop(fd)
        pipe.close()

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self._is_alone:
            try:
                os.kill(-1, signal.SIGKILL)  # neither us nor the init
            except ProcessLookupError:
                pass

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
