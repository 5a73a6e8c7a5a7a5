"""What the host makes of a worker that does not do what ours do."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from paddock.isolation.commands.command_channel import CommandChannel, WorkerGoneError
from paddock_sdk.worker.commands import ANSWER
from paddock_sources.commands.command_runner import (
    Command,
    CommandError,
    CommandMissingError,
    CommandOutput,
    CommandOutputError,
    CommandTimeoutError,
)
from support.rows import each_row

_ENDED = ANSWER.pack(0, 0)


@contextmanager
def worker(behave: Callable[[socket.socket, list[int]], None]) -> Iterator[CommandChannel]:
    """A channel to a worker that behaves like this once it was asked for a command, with its pipes."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)

    def serve() -> None:
        with theirs, suppress(ConnectionError):  # who is lost is not listened to
            _, pipes, _, _ = socket.recv_fds(theirs, 1 << 16, 3)
            try:
                behave(theirs, pipes)
            finally:
                for pipe in pipes:
                    os.close(pipe)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield CommandChannel("git", ours)
    finally:
        ours.close()
        thread.join(10)


def say(*answers: bytes) -> Callable[[socket.socket, list[int]], None]:
    """Close the pipes, answer so, and listen until the host is gone."""

    def behave(stream: socket.socket, pipes: list[int]) -> None:
        while pipes:
            os.close(pipes.pop())
        for answer in answers:
            stream.sendall(answer)
        while stream.recv(1 << 16):
            pass

    return behave


def run(channel: CommandChannel, timeout: float = 10, most: int = 1 << 20, stdin: bytes = b"") -> int:
    return channel.run(Command(["git"], stdin, CommandOutput("git", None, None, most), timeout))


@each_row("said", [b"\0", b"\xff" * 64, _ENDED[:-1], _ENDED * 2, ANSWER.pack(1 << 20, 0), ANSWER.pack(-1 << 31, 0)])
def test_a_worker_that_says_what_none_says_is_lost(said: bytes) -> None:
    with worker(say(said)) as channel:
        with pytest.raises(WorkerGoneError, match="no worker sends"):
            run(channel)
        assert channel.is_lost


def test_a_worker_that_ends_without_an_answer_is_lost() -> None:
    with worker(lambda stream, pipes: None) as channel:
        with pytest.raises(WorkerGoneError, match="it ended"):
            run(channel)
        assert channel.is_lost


@pytest.mark.parametrize("spews", [False, True])
def test_a_worker_that_never_answers_is_lost_in_bounded_time(monkeypatch: pytest.MonkeyPatch, spews: bool) -> None:
    monkeypatch.setattr("paddock.isolation.commands.command_channel._STOP_SECONDS", 0.3)

    def spew(stream: socket.socket, pipes: list[int]) -> None:
        with suppress(BrokenPipeError):
            while spews:
                os.write(pipes[2], bytes(1 << 16))
        say()(stream, pipes)

    with worker(spew) as channel:
        since = time.monotonic()
        with pytest.raises(CommandTimeoutError):
            run(channel, timeout=0.2)
        assert channel.is_lost
        assert time.monotonic() - since < 60


def test_a_worker_that_takes_no_request_is_lost_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.isolation.commands.command_channel._STOP_SECONDS", 0.3)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 12)
        channel = CommandChannel("git", ours)
        with pytest.raises(WorkerGoneError):
            channel.run(Command(["git", "x" * (1 << 19)], b"", CommandOutput("git", None, None, 1), 10))
        assert channel.is_lost


def test_what_is_said_after_too_much_output_does_not_hide_it() -> None:
    def spew(stream: socket.socket, pipes: list[int]) -> None:
        os.write(pipes[1], bytes(1 << 15))
        say(_ENDED * 2)(stream, pipes)

    with worker(spew) as channel:
        with pytest.raises(CommandOutputError):
            run(channel, most=1 << 10)
        assert channel.is_lost


class _AlwaysReady:
    """Says that each descriptor is ready, as it was until the command opened the other end and used it."""

    def __init__(self) -> None:
        self._fds: list[int] = []

    def register(self, fd: int, events: int) -> None:
        self._fds.append(fd if isinstance(fd, int) else fd.fileno())

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        return [(fd, 1) for fd in self._fds]


def test_other_ends_that_a_command_opens_for_itself_hold_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.isolation.commands.command_channel._STOP_SECONDS", 0.3)
    monkeypatch.setattr("select.poll", _AlwaysReady)

    def wait(stream: socket.socket, pipes: list[int]) -> None:
        while stream.recv(1 << 16):
            pass

    with worker(wait) as channel, pytest.raises(WorkerGoneError, match="timed out"):
        run(channel, stdin=bytes(1 << 22))


def test_why_a_command_was_not_started_is_the_kernels_own_text() -> None:
    with worker(say(ANSWER.pack(-1, 13))) as channel:
        with pytest.raises(CommandError, match="`git` cannot be started: permission denied"):
            run(channel)
        assert not channel.is_lost
    with worker(say(ANSWER.pack(-1, 2))) as channel, pytest.raises(CommandMissingError):
        run(channel)


def test_arguments_are_bounded() -> None:
    with worker(say(_ENDED)) as channel:
        with pytest.raises(CommandError, match="arguments"):
            channel.run(Command(["git", "x" * (2 << 20)], b"", CommandOutput("git", None, None, 1), 1))
        assert run(channel) == 0, "the next command is sent as if there had been none"
