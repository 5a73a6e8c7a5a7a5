"""The search for model servers on this machine: what counts as one, and what a hostile listener achieves: nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from click.testing import CliRunner

from paddock.cli.init.init_command import init
from paddock.cli.init.local_servers import LocalServer, find_servers
from paddock.plan.load import load_plan
from paddock.plan.secret_references import expanded, references
from support.rows import each_row

_SECONDS = 60  # hit only by a hang

Play = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(play: Play) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Have `play` answer each request on a port of 127.0.0.1; the requests are collected."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            await play(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


def saying(body: bytes | str, *, status: str = "200 OK", headers: str = "") -> Play:
    data = body.encode() if isinstance(body, str) else body

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n{headers}\r\n".encode() + data)

    return play


def models(*names: object) -> str:
    return json.dumps({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "x"} for name in names]})


async def found(play: Play, seconds: float = 30) -> tuple[LocalServer, ...]:
    async with listening(play) as (port, _):
        with anyio.fail_after(_SECONDS):
            servers = await find_servers([port], seconds=seconds)
    assert all(server.port == port for server in servers)
    return servers


async def test_a_server_is_found_with_its_models_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with (
        listening(saying(models("b:8b", "a", "b:8b"))) as (first, asked),
        listening(saying(models("c"))) as (second, _),
        listening(saying("")) as (gone, _),
    ):
        servers = await find_servers([second, gone, first], seconds=_SECONDS)
    assert servers == (LocalServer(second, ("c",)), LocalServer(first, ("b:8b", "a")))
    assert asked == [
        f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{first}\r\nAccept: application/json\r\n"
        "Connection: close\r\n\r\n".encode()
    ]


@each_row(
    ("told", "window"),
    [
        ({"max_model_len": 8192}, 8192),
        ({"context_length": 32768}, 32768),
        ({"max_context_length": 4096}, 4096),
        ({"context_window": 131072}, 131072),
        ({"max_model_len": "8192"}, None),
        ({"max_model_len": -1}, None),
        ({"max_model_len": True}, None),
        ({"max_model_len": 10**12}, None),
        ({"context_length": {"a": [1]}}, None),
        ({}, None),
    ],
)
async def test_a_window_counts_where_the_server_tells_a_usual_one(told: dict[str, object], window: int | None) -> None:
    (server,) = await found(saying(json.dumps({"data": [{"id": "a", **told}, {"id": "b"}]})))
    assert server.models == ("a", "b") and server.windows.get("a") == window and "b" not in server.windows


async def test_an_answer_in_chunks_is_read() -> None:
    body = models("a").encode()

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    assert [server.models for server in await found(play)] == [("a",)]


@each_row(
    "play",
    [
        saying("<html>It works!</html>"),
        saying(models("a"), status="401 Unauthorized"),
        saying(models("a"), status="500 Oops"),
        saying('{"data": {"id": "a"}}'),
        saying('{"data": [{"id": 7}]}'),
        saying('{"data": [{"id": ""}]}'),
        saying('{"data": []}'),
        saying("[" * 100_000),
        saying(models("x" * 201)),
        saying(models(*(str(number) for number in range(1001)))),
        saying(b"\xff\xfe{}"),
        saying(models("a") + " " * (1 << 20)),
        saying(models("a"), headers=f"X: {'y' * 100_000}\r\n"),
        saying(models("\x1b[2J", "a\nb", "\u202ea", "\u3164")),
    ],
    ids=[
        *("html", "unauthorised", "failure", "no list", "no text", "empty name", "no model", "deep", "long name"),
        *("too many", "no text at all", "too large", "large header", "names that draw"),
    ],
)
async def test_what_is_no_list_of_models_is_no_server(play: Play) -> None:
    assert await found(play) == ()


async def test_only_names_that_can_be_shown_are_offered() -> None:
    (server,) = await found(saying(models("good", "evil\x1b[2J", "x\n  - module: y", "\u2066z", "gut-gemäß")))
    assert server.models == ("good", "gut-gemäß")


async def test_a_redirect_is_not_followed() -> None:
    async with listening(saying(models("other"))) as (elsewhere, asked):
        place = f"Location: http://127.0.0.1:{elsewhere}/v1/models\r\n"
        assert await found(saying("", status="302 Found", headers=place)) == ()
    assert asked == []


@each_row("kind", ["silent", "trickle", "endless", "slams"])
async def test_a_server_that_never_ends_its_answer_costs_a_bounded_time(kind: str) -> None:
    over = asyncio.Event()

    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" if kind != "silent" else b"")
        while kind != "slams" and not over.is_set():
            writer.write({"trickle": b" ", "endless": b" " * 65536}.get(kind, b""))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with listening(play) as (bad, _), listening(saying(models("a"))) as (good, _):
        with anyio.fail_after(_SECONDS):
            servers = await find_servers([bad, good], seconds=0.5)
        over.set()
    assert servers == (LocalServer(good, ("a",)),)


async def test_a_model_named_like_a_reference_is_no_secret_in_the_plan(tmp_path: Path) -> None:
    plan, name = tmp_path / "plan.yaml", "x${OPENAI_API_KEY}"
    async with listening(saying(models(name))) as (port, _):
        words = [str(plan), "--yes", "--base-url", f"http://127.0.0.1:{port}/v1", "--key-variable", "OPENAI_API_KEY"]
        result = await anyio.to_thread.run_sync(CliRunner().invoke, init, words)
    assert result.exit_code == 0, result.output
    (entry,) = load_plan(plan).providers
    assert [one.place for one in references(entry.config)] == ["api_key"]
    assert expanded(entry.config, entry.permissions, {"OPENAI_API_KEY": "sk-1"})["default_model"] == name
