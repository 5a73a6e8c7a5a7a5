"""Ask a sandboxed worker for commands, one after the other: the host's side of `paddock_sdk.worker.commands`.

It blocks, and is called in threads; only the launch and the end of the worker happen on the loop. The worker's answers
are untrusted: one that is not as ours are ends the worker. This file does not know what the commands may reach.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

import msgpack

from paddock_sdk.worker.commands import ANSWER, LENGTH
from paddock_sources.commands.command_pipes import CommandPipes
from paddock_sources.commands.command_runner import Command, CommandError, CommandMissingError

_STOP_SECONDS: Final = 3.0  # from the request to stop to the command's end; then the worker is ended
_REQUEST_BYTES: Final = 1 << 20  # of arguments; the kernel takes little more
_CODES: Final = range(-64, 256)


class WorkerGoneError(Exception):
    """Raised when the worker ended during a command, or sent a message that Paddock's own worker never sends."""


class CommandChannel:
    """The stream to one worker; used by one thread at a time.

    `name` names its commands in messages, `rpc` is the stream. Once it `is_lost`, the worker is useless and has to be
    ended.
    """

    def __init__(self, name: str, rpc: socket.socket) -> None:
        self.is_lost = False
        self._name = name
        self._rpc = rpc
        self._is_asked = False
        self._errno = 0
        rpc.settimeout(_STOP_SECONDS)

    def run(self, command: Command, check: Callable[[], None] = lambda: None) -> int:
        """Run a command to its end; `check` is called several times a second, and an exception of it ends the command.

        Raises:
            CommandError: it could not be started, or took too long.
            WorkerGoneError: the worker was lost under it.
        """
        request = msgpack.packb([os.fsencode(word) for word in command.argv])
        if len(request) > _REQUEST_BYTES:
            raise CommandError(
                self._name, f"its arguments take {len(request)} bytes, {_REQUEST_BYTES} can be passed on"
            )
        with closing(CommandPipes(self._name, command)) as pipes:
            try:
                self._ask(request, [pipe.fileno() for pipe in pipes.theirs])
                pipes.close_theirs()
                code = pipes.carry(self._rpc.fileno(), self._answer, check)
            except WorkerGoneError:
                self.is_lost = True
                raise
            except BaseException:
                self._stop()
                raise
        if self._errno:
            program, reason = command.argv[0], os.strerror(self._errno).lower()
            if self._errno == errno.ENOENT:
                raise CommandMissingError(self._name, program, reason)
            raise CommandError(self._name, f"`{program}` cannot be started: {reason}")
        return code

    def _ask(self, request: bytes, pipes: Sequence[int]) -> None:
        """Send a request; without one, ask for the end of the command."""
        message = LENGTH.pack(len(request)) + request
        try:
            sent = socket.send_fds(self._rpc, [message], pipes, socket.MSG_NOSIGNAL)
            if sent < len(message):
                self._rpc.sendall(message[sent:])
        except OSError as error:
            raise WorkerGoneError(error.strerror or str(error)) from error
        self._is_asked = True

    def _answer(self) -> int:
        """Take the answer, once it is there, or wait a while for it; return the exit code."""
        try:
            answer = self._rpc.recv(2 * ANSWER.size)
            code, self._errno = ANSWER.unpack(answer)
        except OSError as error:
            raise WorkerGoneError(error.strerror or str(error)) from error
        except struct.error as error:
            raise WorkerGoneError(f"it sent what no worker sends: {error}" if answer else "it ended") from error
        if code not in _CODES:
            raise WorkerGoneError(f"it sent what no worker sends: the exit code {code}")
        self._is_asked = False
        return int(code)

    def _stop(self) -> None:
        """End the command, if it runs, and wait for its end."""
        try:
            if self._is_asked:
                self._ask(b"", ())
                self._answer()
        except WorkerGoneError:
            self.is_lost = True
