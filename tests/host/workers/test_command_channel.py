"""What the host makes of a worker that does not do what ours do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from paddock.isolation.commands.command_channel import CommandChannel, WorkerGoneError
from paddock_sdk.protocol import Flag, HandleSide, Kind
from paddock_sdk.protocol.frames import HandleEntry, encode_frame
from paddock_sdk.worker.commands import CODE, COUNT, DATA_BYTES, GREETING, WINDOW, CommandMethod, Output
from paddock_sources.commands.command_output import CommandOutput
from paddock_sources.commands.command_runner import CommandError, CommandOutputError, CommandResult, CommandTimeoutError
from support.rows import each_row

_RUN = 1  # the id of the first call
_AN_OBJECT = [HandleEntry(HandleSide.SENDER, 7, b"")]


def frame(kind: Kind, body: bytes = b"", *, id: int = _RUN, **fields: Any) -> bytes:
    """Return a frame as it is on the wire."""
    encoded = encode_frame(kind, id=id, body=body, **fields)
    return encoded if isinstance(encoded, bytes) else encoded.head + bytes(encoded.body)


def item(data: bytes = b"x", output: int = Output.STDOUT) -> bytes:
    return frame(Kind.ITEM, bytes([output]) + data)


def ask(**fields: int) -> bytes:
    """Return a request for input, otherwise than ours by some fields."""
    return frame(Kind.REQUEST, **{"method": CommandMethod.INPUT, "flags": Flag.STREAM, "parent": _RUN, **fields})


_HELLO = frame(Kind.HELLO, GREETING, id=0)
_ENDED = frame(Kind.RESPONSE, CODE.pack(0))


@contextmanager
def worker(behave: Callable[[socket.socket], None], hello: bytes = _HELLO) -> Iterator[CommandChannel]:
    """A channel to a worker that behaves like this once it was asked for a command."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(60)

    def serve() -> None:
        with theirs, suppress(ConnectionError):  # who is lost is not listened to
            theirs.sendall(hello)
            heard = b""
            while b"git" not in heard and (data := theirs.recv(1 << 16)):
                heard += data
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


@each_row(
    "said",
    [
        b"\0" * 5,
        b"\xff" * 64,
        item(bytes(DATA_BYTES + 1)),
        item(output=3),
        frame(Kind.ITEM),
        frame(Kind.ITEM, b"\0x", handles=_AN_OBJECT),
        frame(Kind.RESPONSE, CODE.pack(0), handles=_AN_OBJECT),
        item() * (WINDOW + 1),
        frame(Kind.RESPONSE),
        frame(Kind.RESPONSE, CODE.pack(1 << 20)),
        frame(Kind.RESPONSE, CODE.pack(-1 << 31)),
        frame(Kind.RESPONSE, CODE.pack(0), id=2),
        frame(Kind.FAILURE, b"x"),
        ask(),
        frame(Kind.REQUEST, method=CommandMethod.RUN),
        frame(Kind.NOTIFY, method=1, id=0),
        frame(Kind.MIRROR, id=0),
        frame(Kind.RELEASE, id=7),
        frame(Kind.GOODBYE, id=0),
        _HELLO,
        item() + _ENDED + item(),
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


def test_a_worker_that_never_greets_is_lost() -> None:
    with worker(lambda stream: None, b"") as channel:
        with pytest.raises(CommandTimeoutError):
            run(channel, timeout=0.2)
        assert channel.is_lost


@pytest.mark.parametrize("hello", [frame(Kind.HELLO, b"\x80", id=0), frame(Kind.NOTIFY, method=1, id=0), b"\0" * 26])
def test_a_worker_with_another_greeting_is_lost(hello: bytes) -> None:
    with worker(lambda stream: None, hello) as channel:
        with pytest.raises(WorkerGoneError):
            run(channel)
        assert channel.is_lost


@pytest.mark.parametrize("said", [ask(id=1) + ask(id=2), ask(parent=2), ask(method=3), ask(target=5), ask(flags=0)])
def test_a_worker_is_given_input_once_and_for_its_own_command(said: bytes) -> None:
    with worker(lambda stream: stream.sendall(said)) as channel:
        with pytest.raises(WorkerGoneError):
            channel.run(["git"], b"input", CommandOutput("git", None, None, 1 << 20), 10)
        assert channel.is_lost


@pytest.mark.parametrize("said", [_ENDED + _ENDED, frame(Kind.GOODBYE, id=0) * 2])
def test_what_none_says_after_what_ended_a_command_does_not_hide_why(said: bytes) -> None:
    too_much = item(bytes(DATA_BYTES)) * 2
    with worker(lambda stream: stream.sendall(too_much + said)) as channel:
        with pytest.raises(CommandOutputError):
            channel.run(["git"], b"", CommandOutput("git", None, None, DATA_BYTES), 10)
        assert channel.is_lost


def test_a_worker_that_never_ends_a_command_is_lost_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.isolation.commands.command_channel._STOP_SECONDS", 0.3)

    def spew(stream: socket.socket) -> None:
        for _ in range(WINDOW):
            stream.sendall(item(output=Output.STDERR))
        while stream.recv(1 << 16):
            pass

    with worker(spew) as channel:
        since = time.monotonic()
        with pytest.raises(CommandTimeoutError):
            run(channel, timeout=0.2)
        assert channel.is_lost
        assert time.monotonic() - since < 60


def test_why_a_command_was_not_started_is_shown_as_text() -> None:
    said = frame(Kind.FAILURE, COUNT.pack(2) + b"\x1b[31mred\xff")

    def refuse(stream: socket.socket) -> None:
        stream.sendall(said)
        while stream.recv(1 << 16):
            pass

    with worker(refuse) as channel:
        with pytest.raises(CommandError) as caught:
            run(channel)
        assert not channel.is_lost
    assert "\x1b" not in str(caught.value)


def test_arguments_are_bounded() -> None:
    def answer(stream: socket.socket) -> None:
        stream.sendall(_ENDED)
        while stream.recv(1 << 16):  # the channel may have more to send, and must not find it closed
            pass

    with worker(answer) as channel:
        with pytest.raises(CommandError, match="arguments"):
            channel.run(["git", "x" * (2 << 20)], b"", CommandOutput("git", None, None, 1), 1)
        assert run(channel).code == 0, "the next command is sent as if there had been none"
