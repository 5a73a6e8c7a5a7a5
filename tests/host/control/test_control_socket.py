"""A session's control socket: who is served, with what, and what a peer cannot do to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel

from paddock.control import socket as control_socket
from paddock.control.sessions import NoAnswerError, Place, ask
from paddock.control.socket import ControlSocket, Peer
from paddock.control.status import REQUEST_BYTES, Done, LogLine, LogLines, Request
from support.rows import each_row

_SECONDS = 30  # hit only by a hang


class _Served:
    """A session that answers with what it was asked, and has a million characters to say if it is asked for logs."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def answer(self, request: Request, peer: Peer) -> BaseModel:
        self.asked.append(request)
        if request.module == "unknown":
            raise LookupError("the session has no module `unknown`")
        if request.get == "logs":
            lines = tuple(LogLine(module="m", stream="stdout", text="x" * 50_000) for _ in range(20))
            return LogLines(lines=lines, positions={"m": 7})
        return Done(done="lift", said=(str(peer.pid),))


@asynccontextmanager
async def _listening(folder: Path, *inits: int) -> AsyncIterator[tuple[_Served, Path]]:
    served = _Served()
    with anyio.fail_after(_SECONDS):
        async with ControlSocket.listening(folder, served.answer, lambda: frozenset(inits)):
            yield served, folder / f"{os.getpid()}.sock"


def _connected(path: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(_SECONDS)
    line.connect(str(path))
    return line


async def _said(path: Path, *sent: bytes) -> list[Any]:
    """Return the lines that come for what is sent, until the connection ends."""

    def talk() -> bytes:
        with _connected(path) as line:
            for part in sent:
                line.sendall(part)
            with line.makefile("rb") as answers:
                return answers.read()

    return [json.loads(line) for line in (await anyio.to_thread.run_sync(talk)).splitlines()]


async def test_a_line_in_is_a_line_out_and_nothing_is_left(tmp_path: Path) -> None:
    async with _listening(tmp_path) as (served, path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        place = Place(tmp_path, path.name, os.geteuid())
        done = await anyio.to_thread.run_sync(ask, place, Request(do="lift", module="m"), Done)
        assert done.said == (str(os.getpid()),) and served.asked == [Request(do="lift", module="m")]
        async with _listening(tmp_path):
            assert {*os.listdir(tmp_path)} == {f"{os.getpid()}.sock", f"{os.getpid()}-2.sock"}
    assert not os.listdir(tmp_path)


async def test_who_follows_gets_lines_from_where_the_last_ended(tmp_path: Path) -> None:
    async with _listening(tmp_path) as (served, path):

        def follow() -> None:
            with _connected(path) as line, line.makefile("rb") as answers:
                line.sendall(b'{"v": 1, "get": "logs", "follow": 0.2}\n')
                assert all(json.loads(answers.readline())["positions"] == {"m": 7} for _ in range(2))

        await anyio.to_thread.run_sync(follow)
        assert [one.since for one in served.asked] == [{}, {"m": 7}]


@pytest.mark.parametrize(
    "sent",
    [
        b"\n",
        b"\x00\xff\x1b[2J garbage\n",
        b"[" * 20_000 + b"\n",
        b'{"v": 2, "get": "status"}\n',
        b'{"get": "secrets"}\n',
        b'{"get": "status", "follow": 0.1}\n',
        b'{"do": "debug", "module": "m"}\n',
        b'{"do": "lift", "module": "unknown"}\n',
    ],
)
async def test_what_is_no_request_is_refused_in_words(tmp_path: Path, sent: bytes) -> None:
    async with _listening(tmp_path) as (_, path):
        (answer,) = await _said(path, sent)
        assert answer.keys() == {"error"} and "\x1b" not in answer["error"]


async def test_a_flood_and_silence_end_alone_and_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_socket, "_SECONDS", 0.3)
    async with _listening(tmp_path) as (served, path):
        silent = _connected(path)
        flooding = _connected(path)
        flooding.setblocking(False)
        flooding.send(b"x" * (REQUEST_BYTES + 1))
        assert [*(await _said(path, b'{"do": "lift", "module": "m"}\n'))]
        for line in (silent, flooding):
            assert await anyio.to_thread.run_sync(_ended, line)
        assert len(served.asked) == 1


async def test_few_connections_wait_for_one_turn_of_the_session(tmp_path: Path) -> None:
    with contextlib.ExitStack() as lines:
        async with _listening(tmp_path) as (_, path):
            with pytest.raises(BlockingIOError):
                for _ in range(20):
                    line = lines.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                    line.setblocking(False)
                    line.connect(str(path))


async def test_a_reader_that_stops_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "_SECONDS", 0.3)
    async with _listening(tmp_path) as (_, path):
        line = _connected(path)
        line.sendall(b'{"get": "logs", "follow": 0.2}\n')
        got = await anyio.to_thread.run_sync(_slowly, line)
        assert 0 < got < 1_000_000  # the first answer has more


def _slowly(line: socket.socket) -> int:
    """Wait until what is sent has ended without reading any of it; return how much of it came."""
    got = 0
    with line:
        poll = select.poll()
        poll.register(line, select.POLLRDHUP)
        while not poll.poll(1000):
            pass
        try:
            while data := line.recv(1 << 16):
                got += len(data)
        except ConnectionResetError:
            pass
    return got


def _ended(line: socket.socket) -> bool:
    with line:
        try:
            return line.recv(1) == b""
        except ConnectionResetError:
            return True


async def test_a_ninth_connection_waits_for_none_of_the_eight(tmp_path: Path) -> None:
    async with _listening(tmp_path) as (_, path):
        held = [_connected(path) for _ in range(8)]
        (answer,) = await _said(path)
        assert "8 others" in answer["error"]
        for line in held:
            line.close()
        with anyio.fail_after(_SECONDS):
            while "error" in (await _said(path, b'{"do": "lift", "module": "m"}\n'))[0]:
                pass


@each_row(
    ("peer", "why"),
    [
        (Peer(os.getpid(), os.geteuid() + 1), "of uid"),
        (Peer(0, os.geteuid()), "pid namespace"),
        (Peer(2**22 + 1, os.geteuid()), "cannot be seen"),
    ],
)
def test_another_user_and_another_namespace_are_refused(peer: Peer, why: str) -> None:
    assert why in control_socket._refusal(peer, frozenset())
    assert not control_socket._refusal(Peer(os.getpid(), os.geteuid()), frozenset())


async def test_a_process_below_an_init_is_refused(tmp_path: Path) -> None:
    async with _listening(tmp_path, os.getpid()) as (served, path):
        place = Place(tmp_path, path.name, os.geteuid())
        with pytest.raises(NoAnswerError, match="a process of a module"):
            await anyio.to_thread.run_sync(ask, place, Request(get="status"), Done)
        assert not served.asked
