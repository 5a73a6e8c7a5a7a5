"""Run commands for the host, one after the other, in a worker that is shut in: an entry beside that of modules.

Each command is a process group of its own. What it prints is passed on as it comes, what it is given to read is passed
to it as fast as it takes it, and nothing of it is left when it has ended. The worker ends when the host lets go of it,
and its init ends with it whatever still runs. One thread, one loop, bounded memory.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import time
from collections import deque
from typing import Any, Final

import msgpack

from paddock_sdk.worker.command_frames import (
    CODE,
    COUNT,
    MAX_TEXT_BYTES,
    TO_WORKER,
    CommandFrameDecoder,
    FrameKind,
    frame,
)

_READ_BYTES: Final = 128 << 10
_PIPE_BYTES: Final = 1 << 20  # fewer, larger pieces; the system may grant less
_UNSENT_BYTES: Final = 1 << 20  # beyond, a command waits until the host has read
_LAST_WORDS_SECONDS: Final = 1.0  # for output that somebody holds open who got away from the group
_OWN_INIT: Final = 1


def serve(rpc: socket.socket, name: str) -> None:
    """Run what the host asks for until it lets go of the worker."""
    rpc.setblocking(False)
    CommandServer(rpc).run()


class CommandServer:
    """The worker's side of one session of commands."""

    def __init__(self, rpc: socket.socket) -> None:
        self._rpc = rpc
        self._decoder = CommandFrameDecoder(TO_WORKER)
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._command: _Command | None = None
        # With process numbers of our own, all that there are besides the init are ours.
        self._is_alone = os.getppid() == _OWN_INIT

    def run(self) -> None:
        """Serve until the host is gone."""
        while True:
            ready = self._wait()
            if self._rpc.fileno() in ready and not self._receive():
                return
            command = self._command
            if command is not None:
                command.go_on(ready)
                self._end_if_over(command)
            if self._unsent and not self._send_some():
                return

    def send(self, kind: FrameKind, payload: bytes | memoryview = b"") -> None:
        """Have a frame sent as soon as the host takes it."""
        data = frame(kind, payload)
        self._unsent.append(memoryview(data))
        self._unsent_bytes += len(data)

    def _wait(self) -> dict[int, int]:
        poller = select.poll()
        poller.register(self._rpc, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        timeout = None
        if self._command is not None:
            for fd, events in self._command.interests(may_print=self._unsent_bytes < _UNSENT_BYTES):
                poller.register(fd, events)
            timeout = self._command.seconds_left()
        return dict(poller.poll(None if timeout is None else timeout * 1000))

    def _receive(self) -> bool:
        """Take what the host says; return False once it is gone."""
        try:
            data = self._rpc.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for kind, payload in self._decoder.feed(data):
            self._obey(kind, payload)
        return data != b""

    def _obey(self, kind: FrameKind, payload: memoryview) -> None:
        command = self._command
        if kind is FrameKind.RUN:
            if command is None:
                self._start(msgpack.unpackb(payload))
        elif command is None:
            pass  # it was sent before the host knew that its command had ended
        elif kind is FrameKind.INPUT:
            command.take_input(bytes(payload))
        elif kind is FrameKind.INPUT_END:
            command.take_input_end()
        elif kind is FrameKind.STOP:
            command.stop(COUNT.unpack(payload)[0] / 1000)

    def _start(self, asked: dict[str, Any]) -> None:
        try:
            self._command = _Command(self, asked["argv"], has_input=asked["has_input"], is_alone=self._is_alone)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            number = getattr(error, "errno", None) or 0
            text = os.strerror(number) if number else str(error)
            self.send(FrameKind.FAILED, COUNT.pack(number) + text.encode()[:MAX_TEXT_BYTES])

    def _end_if_over(self, command: _Command) -> None:
        code = command.end_if_over()
        if code is not None:
            self._command = None
            self.send(FrameKind.ENDED, CODE.pack(code))

    def _send_some(self) -> bool:
        try:
            sent = self._rpc.sendmsg(list(self._unsent)[:16], (), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._unsent_bytes -= sent
        while sent:
            first = self._unsent.popleft()
            if sent < len(first):
                self._unsent.appendleft(first[sent:])
                break
            sent -= len(first)
        return True


class _Command:
    """One command that was started.

    Raises:
        OSError, ValueError: it cannot be.
    """

    def __init__(self, server: CommandServer, argv: list[bytes], *, has_input: bool, is_alone: bool) -> None:
        self._server = server
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
            self._process.stdout.fileno(): (self._process.stdout, FrameKind.STDOUT),
            self._process.stderr.fileno(): (self._process.stderr, FrameKind.STDERR),
        }
        self._input: deque[memoryview] = deque()
        self._input_ends = not has_input
        self._code: int | None = None
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        pipes = [*self._outputs, *([] if self._stdin is None else [self._stdin.fileno()])]
        for fd in pipes:
            os.set_blocking(fd, False)
            try:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            except OSError:
                pass  # the user has used up what pipes may take

    def interests(self, *, may_print: bool) -> list[tuple[int, int]]:
        """Return what is to be waited for."""
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

    def take_input(self, data: bytes) -> None:
        """Take what the command is to read; what it does not want is taken for it."""
        if self._stdin is None:
            self._server.send(FrameKind.TAKEN, COUNT.pack(len(data)))
        elif data:
            self._input.append(memoryview(data))

    def take_input_end(self) -> None:
        """Close its input once it has read what there is."""
        self._input_ends = True
        if not self._input:
            self._close_input()

    def stop(self, grace: float) -> None:
        """Ask its processes to end, and make them end `grace` seconds later."""
        if self._code is None:
            self._signal(signal.SIGTERM)
            self._kill_at = time.monotonic() + grace

    def go_on(self, ready: dict[int, int]) -> None:
        """Do what can be done without waiting."""
        if self._stdin is not None and self._input and self._stdin.fileno() in ready:
            self._write()
        for fd in [fd for fd in self._outputs if fd in ready]:
            self._read(fd)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill()
            self._kill_at = None
        if self._pidfd in ready and self._code is None:
            self._kill()  # what it left behind, while its number cannot mean anybody else
            self._code = self._process.wait()
            self._kill_at = None
            self._give_up_at = time.monotonic() + _LAST_WORDS_SECONDS

    def end_if_over(self) -> int | None:
        """Return how it ended, with everything let go of, or None while there is more to come."""
        if self._code is None:
            return None
        assert self._give_up_at is not None
        if self._outputs and time.monotonic() < self._give_up_at:
            return None
        self._close_input()
        for fd in list(self._outputs):
            self._close_output(fd)
        os.close(self._pidfd)
        return self._code

    def _read(self, fd: int) -> None:
        _, kind = self._outputs[fd]
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close_output(fd)
            return
        self._server.send(kind, data)
        if self._give_up_at is not None:
            self._give_up_at = time.monotonic() + _LAST_WORDS_SECONDS

    def _write(self) -> None:
        assert self._stdin is not None
        try:
            written = os.write(self._stdin.fileno(), self._input[0])
        except BlockingIOError:
            return
        except OSError:
            self._server.send(FrameKind.TAKEN, COUNT.pack(sum(map(len, self._input))))
            self._close_input()
            return
        rest = self._input.popleft()[written:]
        if rest:
            self._input.appendleft(rest)
        self._server.send(FrameKind.TAKEN, COUNT.pack(written))
        if self._input_ends and not self._input:
            self._close_input()

    def _close_input(self) -> None:
        self._input.clear()
        if self._stdin is not None:
            self._stdin.close()
            self._stdin = None

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
