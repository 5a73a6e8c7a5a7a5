"""What the host makes of a worker that does not do what ours do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from paddock.isolation.commands.command_runner import CommandChannel, WorkerGoneError
from paddock_sdk.worker.command_frames import CODE, COUNT, MAX_DATA_BYTES, FrameKind, frame
from paddock_sources.commands.command_output import CommandOutput
from paddock_sources.commands.command_runner import CommandError, CommandOutputError, CommandResult, CommandTimeoutError

_ENDED = frame(FrameKind.ENDED, CODE.pack(0))


@contextmanager
def worker(behave: Callable[[socket.socket], None]) -> Iterator[CommandChannel]:
    """A channel to a worker that behaves like this once it was asked for a command."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(60)

    def serve() -> None:
        with theirs, suppress(ConnectionError):  # who is lost is not listened to
            theirs.recv(1 << 16)
            behave(theirs)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield CommandChannel("git", ours)
    finally:
        ours.close()
        thread.join(10)


def run(channel: CommandChannel, timeout: float = 10) -> CommandResult:
    return channel.run(["git"], b"", CommandOutput("git", None, None, 1 << 20), timeout)


@pytest.mark.parametrize(
    "said",
    [
        b"\0" * 5,
        b"\xff" * 64,
        frame(FrameKind.RUN),
        frame(FrameKind.STDOUT, bytes(MAX_DATA_BYTES + 1)),
        frame(FrameKind.ENDED),
        frame(FrameKind.ENDED, CODE.pack(1 << 20)),
        frame(FrameKind.ENDED, CODE.pack(-1 << 31)),
        frame(FrameKind.TAKEN, COUNT.pack(1)),
        frame(FrameKind.FAILED, b"x"),
        frame(FrameKind.STDOUT, b"x") + _ENDED + frame(FrameKind.STDOUT, b"y"),
        _ENDED + _ENDED,
        b"",
        _ENDED[:-1],
    ],
)
def test_a_worker_that_says_what_none_says_is_lost(said: bytes) -> None:
    with worker(lambda stream: stream.sendall(said)) as channel:
        with pytest.raises(WorkerGoneError):
            run(channel)
        assert channel.is_lost


@pytest.mark.parametrize("said", [_ENDED + _ENDED, frame(FrameKind.ENDED), frame(FrameKind.TAKEN, COUNT.pack(1))])
def test_what_none_says_after_what_ended_a_command_does_not_hide_why_it_was_ended(said: bytes) -> None:
    too_much = frame(FrameKind.STDOUT, bytes(MAX_DATA_BYTES)) * 2
    with worker(lambda stream: stream.sendall(too_much + said)) as channel:
        with pytest.raises(CommandOutputError):
            channel.run(["git"], b"", CommandOutput("git", None, None, MAX_DATA_BYTES), 10)
        assert channel.is_lost


def test_a_worker_that_never_ends_a_command_is_lost_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.isolation.commands.command_runner._STOP_SECONDS", 0.3)

    def spew(stream: socket.socket) -> None:
        while True:
            stream.sendall(frame(FrameKind.STDERR, b"x"))

    with worker(spew) as channel:
        since = time.monotonic()
        with pytest.raises(CommandTimeoutError):
            run(channel, timeout=0.2)
        assert channel.is_lost
        assert time.monotonic() - since < 60


def test_why_a_command_was_not_started_is_shown_as_text() -> None:
    said = frame(FrameKind.FAILED, COUNT.pack(2) + b"\x1b[31mred\xff")
    with worker(lambda stream: stream.sendall(said)) as channel:
        with pytest.raises(CommandError) as caught:
            run(channel)
        assert not channel.is_lost
    assert "\x1b" not in str(caught.value)


def test_arguments_are_bounded() -> None:
    with worker(lambda stream: None) as channel:
        with pytest.raises(CommandError, match="arguments"):
            channel.run(["git", "x" * (2 << 20)], b"", CommandOutput("git", None, None, 1), 1)
        channel._rpc.send(b"x")
