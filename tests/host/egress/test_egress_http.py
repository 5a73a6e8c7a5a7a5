"""HTTP through the gate: each request is understood in one way, is for the destination, and is written anew."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re

import anyio
import pytest

from host.egress.ground import (
    LOOPBACK,
    PATIENCE,
    Ground,
    Line,
    answered,
    brief,
    gate_for,
    serving,
)
from host.egress.origin import SWITCHED, Asked, answer, granted, origin, says
from support.rows import each_row


async def asked_through(ground: Ground, port: int, *requests: bytes) -> Line:
    line = await ground.connect(LOOPBACK, port)
    for request in requests:
        await line.say(request)
    return line


def get(host: str, path: str = "/", *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode("latin-1")


async def test_requests_on_a_kept_connection_are_passed_on_one_by_one() -> None:
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await ground.connect(LOOPBACK, site.port)
        for number in range(3):
            assert (await line.ask(get(f"localhost:{site.port}", f"/{number}?q=a%20b")))[::2] == (200, b"ok")
        await line.close()
        record = await ground.ledger.only()
    assert site.lines == [f"GET /{number}?q=a%20b HTTP/1.1" for number in range(3)]
    assert site.connections == 1
    assert (record["protocol"], record["requests"], record["outcome"]) == ("http", 3, "ended")


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def echo(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer(asked.line.split()[1].encode()))
        return True

    async with origin(echo) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        host = f"{LOOPBACK}:{site.port}"
        line = await asked_through(ground, site.port, b"".join(get(host, f"/{number}") for number in range(5)))
        assert [(await line.answer())[2] for _ in range(5)] == [b"/0", b"/1", b"/2", b"/3", b"/4"]
        await line.close()


# The host that was granted is `api.test:8080`.
H = b"Host: api.test:8080\r\n"
POST = b"POST / HTTP/1.1\r\n" + H
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
ACCEPTED = [
    b"GET / HTTP/1.1\r\n" + H + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: API.test.:8080\r\n\r\n",
    b"GET http://api.test:8080/ HTTP/1.1\r\n" + H + b"\r\n",
    b"GET http://api.test:8080 HTTP/1.1\r\n" + H + b"\r\n",
    b"GET http://api.test:8080?a=b HTTP/1.1\r\n" + H + b"\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + H + b"\r\n",
    b"PROPFIND /x HTTP/1.1\r\n" + H + b"X: a\tb\r\nY:\r\n\r\n",
    POST + b"Content-Length: 3\r\n\r\nabc",
    CHUNKED + b"3;name=value\r\nabc\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
]
REFUSED = {
    "two ways, length first": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two ways, chunks first": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "two lengths that are the same": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "a negative length": POST + b"Content-Length: -1\r\n\r\nabc",
    "a hexadecimal length": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "a length with an underscore": POST + b"Content-Length: 1_0\r\n\r\nabc",
    "a length without end": POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nabc",
    "another encoding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "chunked, twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked with a tab before": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks of HTTP/1.0": b"POST / HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\n" + H + b"Content-Length : 3\r\n\r\nabc",
    "a tab before the colon": b"GET / HTTP/1.1\r\n" + H + b"Transfer-Encoding\t: chunked\r\n\r\n",
    "a line that goes on": b"GET / HTTP/1.1\r\n" + H + b"X: a\r\n b\r\n\r\n",
    "a first header that goes on": b"GET / HTTP/1.1\r\n X: a\r\n" + H + b"\r\n",
    "a NUL in a value": b"GET / HTTP/1.1\r\n" + H + b"X: a\0b\r\n\r\n",
    "a NUL in the target": b"GET /a\0b HTTP/1.1\r\n" + H + b"\r\n",
    "bare LF": b"GET / HTTP/1.1\n" + H.replace(b"\r\n", b"\n") + b"\n",
    "one bare LF": b"GET / HTTP/1.1\r\n" + H + b"X: a\nY: b\r\n\r\n",
    "a bare LF before the end": b"GET / HTTP/1.1\r\n" + H + b"X: a\n\r\nGET /2 HTTP/1.1\r\n\r\n",
    "a bare CR": b"GET / HTTP/1.1\r\n" + H + b"X: a\rY: b\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\n" + H + b"X\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\n" + H + b": x\r\n\r\n",
    "an empty line first": b"\r\nGET / HTTP/1.1\r\n" + H + b"\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + H + H + b"\r\n",
    "two hosts, one of them another": b"GET / HTTP/1.1\r\n" + H + b"Host: evil.test:8080\r\n\r\n",
    "an empty host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "another host": b"GET / HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n",
    "another port": b"GET / HTTP/1.1\r\nHost: api.test:80\r\n\r\n",
    "no port": b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n",
    "a host with a user": b"GET / HTTP/1.1\r\nHost: api.test:8080@evil.test\r\n\r\n",
    "a host with a path": b"GET / HTTP/1.1\r\nHost: api.test:8080/evil.test\r\n\r\n",
    "a list of hosts": b"GET / HTTP/1.1\r\nHost: api.test:8080, evil.test\r\n\r\n",
    "another target": b"GET http://evil.test:8080/ HTTP/1.1\r\n" + H + b"\r\n",
    "a target with a user": b"GET http://api.test:8080@evil.test/ HTTP/1.1\r\n" + H + b"\r\n",
    "a target and another host": b"GET http://api.test:8080/ HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n",
    "a target of another scheme": b"GET https://api.test:8080/ HTTP/1.1\r\n" + H + b"\r\n",
    "a target with a fragment": b"GET http://api.test:8080/#@evil.test/ HTTP/1.1\r\n" + H + b"\r\n",
    "a target with a backslash": b"GET http://api.test:8080\\@evil.test/ HTTP/1.1\r\n" + H + b"\r\n",
    "a target without a slash": b"GET api.test:8080/ HTTP/1.1\r\n" + H + b"\r\n",
    "a tunnel": b"CONNECT api.test:8080 HTTP/1.1\r\n" + H + b"\r\n",
    "no version": b"GET /\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/3.1": b"GET / HTTP/3.1\r\n" + H + b"\r\n",
    "a version in small letters": b"GET / http/1.1\r\n" + H + b"\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\n" + H + b"\r\n",
    "a space after the version": b"GET / HTTP/1.1 \r\n" + H + b"\r\n",
    "a target with a space": b"GET /a b HTTP/1.1\r\n" + H + b"\r\n",
    "a chunk of no size": CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
    "a chunk with a sign": CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    "a chunk with a prefix": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk with a bare LF": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "a chunk extension with a bare LF": POST + b"Transfer-Encoding: chunked\r\n\r\n3;\nx\r\nabc\r\n0\r\n\r\n",
    "a chunk longer than it says": POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "headers without end": b"GET / HTTP/1.1\r\n" + H + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 100) for n in range(200)),
    "too many headers": b"GET / HTTP/1.1\r\n" + H + b"a:\r\n" * 200 + b"\r\n",
    "a target without end": b"GET /" + b"a" * 20_000,
}


@each_row("request_bytes", ACCEPTED)
async def test_requests_for_the_destination_arrive_there(request_bytes: bytes) -> None:
    async with granted(8080) as (ground, site):
        assert (await answered(await ground.place("api.test", 8080), request_bytes))[0] == 200
    assert not ground.ledger.denials
    (asked,) = site.asked
    target = re.sub(rb"http://[^/?]*", b"", request_bytes.split(b" ")[1]) or b"/"
    assert asked.line.encode() == b"%s %s HTTP/1.1" % (
        request_bytes.split(b" ")[0],
        b"/" + target if target.startswith(b"?") else target,
    )
    assert asked.headers("host")[0].lower().replace(".:", ":") == "api.test:8080"
    assert asked.body == (b"abc" if b"abc" in request_bytes else b"")


@each_row("case", REFUSED)
async def test_ambiguous_requests_and_other_hosts_are_refused(case: str) -> None:
    async with granted(8080, bounds=brief()) as (ground, site):
        heard = await ground.heard("api.test", 8080, REFUSED[case])
        record = await ground.ledger.only()
    assert len(ground.ledger.denials) == 1
    assert record["outcome"] == "refused", record
    assert re.match(rb"HTTP/1\.1 4\d\d |HTTP/1\.1 50[15] ", heard), heard
    # No request was ever whole there: at most the beginning of one whose body was malformed further on.
    assert not [asked for asked in site.asked if asked.body or not asked.headers("transfer-encoding")]


async def test_a_second_request_for_another_host_is_refused() -> None:
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, get(f"{LOOPBACK}:{site.port}") + get("evil.test"))
        assert (await line.answer())[0] == 200
        status, headers, body = await line.answer()
        assert (status, headers["proxy-status"]) == (403, "paddock")  # a client takes it for no answer of the server
        assert b'net: ["evil.test:80"]' in body
        assert await line.rest() == b""
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert len(site.asked) == 1
    assert [denial.target for denial in ground.ledger.denials] == ["evil.test:80"]


async def test_a_request_hidden_in_a_body_stays_a_body() -> None:
    hidden = get("evil.test")
    request = b"POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n" + hidden
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, request % (b"localhost:%d" % site.port, len(hidden)))
        assert (await line.answer())[0] == 200
        await line.close()
    assert [asked.body for asked in site.asked] == [hidden]


@each_row("listed", ["Host, Cookie", "Host, Cookie, Upgrade, HTTP2-Settings"])
async def test_hop_by_hop_headers_are_not_passed_on(listed: str) -> None:
    headers = (
        f"Connection: close, X-Mine, {listed}",
        "Keep-Alive: timeout=5",
        "Proxy-Authorization: Basic c2VjcmV0",
        "Proxy-Connection: keep-alive",
        "TE: trailers",
        "Upgrade: h2c",
        "HTTP2-Settings: x",
        "X-Mine: 1",
        "Cookie: a=b",
        "X-Kept: 2",
    )
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, get(f"{LOOPBACK}:{site.port}", "/", *headers))
        _, told, body = await line.answer()
        assert body == b"ok"
        assert told["connection"] == "close"
        assert await line.rest() == b""
    (asked,) = site.asked
    assert asked.head == (
        f"GET / HTTP/1.1\r\nHost: {LOOPBACK}:{site.port}\r\nCookie: a=b\r\nX-Kept: 2\r\n\r\n".encode()
    )


async def test_a_websocket_is_carried_as_it_is_once_it_is_accepted() -> None:
    accept = base64.b64encode(hashlib.sha1(b"x").digest()).decode()

    async def upgrade(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        if not asked.headers("upgrade"):
            writer.write(answer(b"no"))
            return True
        writer.write(
            f"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
            + b"\x81\x05first"
        )
        return False

    async with origin(upgrade) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        headers = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: eA==")
        line = await asked_through(ground, site.port, get(f"{LOOPBACK}:{site.port}", "/ws", *headers))
        head = await line.hear_until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert accept.encode() in head
        assert await line.hear(7) == b"\x81\x05first"
        assert await line.rest() == b""
    assert site.asked[0].headers("upgrade") == ["websocket"]


async def test_both_sides_of_a_websocket_speak_when_they_like() -> None:
    upgrade = says(SWITCHED, goes_on=True)
    async with origin(upgrade) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        headers = ("Connection: Upgrade", "Upgrade: websocket")
        line = await asked_through(ground, site.port, get(f"{LOOPBACK}:{site.port}", "/ws", *headers))
        await line.hear_until(b"\r\n\r\n")
        # What looks like a request to somebody else is a message here, and arrives.
        await line.say(get("evil.test", "/inside", "Connection: Upgrade", "Upgrade: websocket"))
        await line.hear_until(b"\r\n\r\n")
        await line.close()
    assert site.lines == ["GET /ws HTTP/1.1", "GET /inside HTTP/1.1"]


async def test_a_websocket_that_is_declined_leaves_http() -> None:
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        headers = ("Connection: Upgrade", "Upgrade: websocket")
        line = await asked_through(ground, site.port, get(f"{LOOPBACK}:{site.port}", "/", *headers) + get("evil.test"))
        assert (await line.answer())[0] == 200
        assert (await line.answer())[0] == 403
        await line.close()
    assert len(site.asked) == 1


async def test_a_client_that_waits_to_be_told_to_go_on_is_told_by_the_server() -> None:
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await ground.connect(LOOPBACK, site.port)

        async def encourage() -> None:
            with anyio.fail_after(PATIENCE):
                while not site.asked:
                    await asyncio.sleep(0.01)

        await line.say(
            b"POST / HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n" % site.port
        )
        await encourage()
        assert (await line.ask(b"abc"))[0] == 200
        await line.close()
    assert site.asked[0].headers("expect") == ["100-continue"]
    assert site.asked[0].body == b"abc"


@each_row("status", ["100 Continue", "103 Early Hints"])
async def test_what_a_server_says_before_its_answer_is_passed_on(status: str) -> None:
    hint = says(f"HTTP/1.1 {status}\r\nX: 1\r\n\r\n".encode() + answer(b"ok"), goes_on=True)
    async with origin(hint) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, get(f"localhost:{site.port}"))
        assert (await line.hear_until(b"\r\n\r\n")).startswith(f"HTTP/1.1 {status}\r\n".encode())
        assert (await line.answer())[::2] == (200, b"ok")
        await line.close()


async def test_an_answer_that_comes_before_the_request_has_ended_arrives() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"too large", status="413 Content Too Large", connection="close"))
        await writer.drain()
        await reader.read()

    async with serving(handle) as port, gate_for(f"{LOOPBACK}:{port}") as ground:
        line = await ground.connect(LOOPBACK, port)
        await line.say(b"POST / HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 1000000\r\n\r\n" % port)
        assert (await line.ask(b"x" * 1000))[::2] == (413, b"too large")
        await line.close()


async def test_nothing_is_said_into_an_answer_that_has_begun() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun")
        await reader.read()

    async with serving(handle) as port, gate_for(f"{LOOPBACK}:{port}") as ground:
        line = await ground.connect(LOOPBACK, port)
        await line.say(b"POST / HTTP/1.1\r\nHost: localhost:%d\r\nTransfer-Encoding: chunked\r\n\r\n" % port)
        await line.hear_until(b"begun")
        await line.say(b"no chunk\r\n")
        assert b"HTTP/1.1" not in await line.rest()
        assert (await ground.ledger.only())["outcome"] == "refused"


async def test_large_bodies_arrive_whole_both_ways() -> None:
    much = os.urandom(1 << 20) * 5

    async def echo(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(asked.body), 700_001):
            piece = asked.body[start : start + 700_001]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")
        return True

    async with origin(echo) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await ground.connect(LOOPBACK, site.port)
        head = b"POST / HTTP/1.0\r\nHost: localhost:%d\r\nContent-Length: %d\r\n\r\n" % (site.port, len(much))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(line.say, head + much)
            heard = await line.rest()
        # HTTP/1.0 knows no chunks: the end of the body is that of the connection.
        assert heard.partition(b"\r\n\r\n")[2] == much
        await line.close()
    assert [asked.body == much for asked in site.asked] == [True]


async def test_bodies_in_many_pieces_arrive_whole_without_holding_the_loop() -> None:
    many = 10_000

    echo = says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\ny\r\n" * many + b"0\r\n\r\n")

    async def beat(gaps: list[float]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0)
            gaps.append(loop.time() - before)

    async with origin(echo) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await ground.connect(LOOPBACK, site.port)
        gaps: list[float] = []
        beating = asyncio.create_task(beat(gaps))
        head = b"POST / HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n" % site.port
        await line.say(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * many + b"0\r\n\r\n")
        heard = (await line.rest()).partition(b"\r\n\r\n")[2]
        beating.cancel()
        await line.close()
    assert heard.count(b"y") == many
    assert site.asked[0].body == b"x" * many
    assert len(gaps) > many // 200  # turns that others had


async def test_events_of_a_stream_arrive_one_by_one() -> None:
    heard = asyncio.Event()

    async def stream(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(5):
            heard.clear()
            writer.write(b"9\r\ndata: %d\n\n\r\n" % number)
            await writer.drain()
            await heard.wait()  # nothing more is sent before this has arrived
        writer.write(b"0\r\n\r\n")
        return True

    async with origin(stream) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, get(f"localhost:{site.port}"))
        await line.hear_until(b"\r\n\r\n")
        for number in range(5):
            assert await line.hear_until(b"\n\n\r\n") == b"9\r\ndata: %d\n\n\r\n" % number
            heard.set()
        assert await line.hear(5) == b"0\r\n\r\n"
        await line.close()


async def test_answers_without_a_body_have_none_whatever_they_say() -> None:
    async def bodiless(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        if asked.line.startswith("HEAD"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n")
        elif "/304" in asked.line:
            writer.write(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nETag: x\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        return True

    async with origin(bodiless) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        host = f"localhost:{site.port}"
        line = await ground.connect(LOOPBACK, site.port)
        for request, status in ((get(host).replace(b"GET", b"HEAD"), 200), (get(host, "/304"), 304), (get(host), 204)):
            await line.say(request)
            head = await line.hear_until(b"\r\n\r\n")
            assert int(head.split()[1]) == status
        await line.close()
    assert len(site.asked) == 3


async def test_a_body_that_ends_with_the_connection_is_passed_on_in_chunks() -> None:
    until_the_end = says(b"HTTP/1.0 200 OK\r\n\r\nall there is")
    async with origin(until_the_end) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await ground.connect(LOOPBACK, site.port)
        for _ in range(2):  # the client's own connection stays: the next request gets another one behind it
            await line.say(get(f"localhost:{site.port}"))
            assert b"chunked" in await line.hear_until(b"\r\n\r\n")
            assert await line.hear_until(b"0\r\n\r\n") == b"c\r\nall there is\r\n0\r\n\r\n"
        await line.close()
        records = await ground.ledger.has(2)
    for name in ("requests", "destination", "rule", "protocol", "way"):
        assert records[0][name] == records[1][name], name
    assert [record["requests"] for record in records] == [1, 1]


OK = b"HTTP/1.1 200 OK\r\n"
BROKEN = {
    "nothing": b"",
    "no head": b"HTTP/1.1 200 O",
    "no HTTP": b"SSH-2.0-x\r\n\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "two ways, length first": OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "two ways, chunks first": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "headers without end": OK + b"X: y\r\n" * 20_000,
}


@each_row("case", BROKEN)
async def test_an_answer_that_is_none_is_said_to_be_none(case: str) -> None:
    break_off = says(BROKEN[case])
    async with origin(break_off) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, get(f"localhost:{site.port}"))
        assert (await line.answer())[0] == 502
        await line.close()
        assert (await ground.ledger.only())["outcome"] == "failed"
    assert not ground.ledger.denials


async def test_an_answer_that_is_cut_off_is_not_taken_for_a_whole_one() -> None:
    cut_off = says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
    async with origin(cut_off) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, get(f"localhost:{site.port}"))
        heard = await line.rest()
        record = await ground.ledger.only()
    assert not heard.endswith(b"0\r\n\r\n")
    assert (record["outcome"], record["reason"]) == ("failed", "the destination ended in the middle of an answer")


async def test_a_server_that_ends_between_requests_ends_the_clients_connection() -> None:
    once = says(answer(b"ok"))
    async with origin(once) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, get(f"localhost:{site.port}"))
        assert (await line.answer())[0] == 200
        assert await line.rest() == b""


async def test_a_client_that_goes_away_ends_what_it_asked_for() -> None:
    gone = asyncio.Event()

    async def wait(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        while not writer.transport.is_closing():
            await asyncio.sleep(0.05)
        gone.set()
        return False

    async with origin(wait) as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await asked_through(ground, site.port, get(f"localhost:{site.port}"))
        with anyio.fail_after(PATIENCE):
            while not site.asked:
                await asyncio.sleep(0.01)
        await line.close()
        with anyio.fail_after(PATIENCE):
            await gone.wait()
        await ground.ledger.only()


SLOW = [b"G", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: "]


@each_row("beginning", SLOW)
async def test_a_client_that_takes_too_long_for_a_request_is_sent_away(beginning: bytes) -> None:
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}", bounds=brief(idle_seconds=9.0)) as ground:
        line = await asked_through(ground, site.port, beginning)
        heard = b""
        for _ in range(100):  # a byte now and then does not help
            try:
                await line.say(b"a")
                heard += await asyncio.wait_for(line.reader.read(100), 0.05)
            except TimeoutError:
                continue
            except OSError:
                break
            if line.reader.at_eof():
                break
        assert heard.startswith(b"HTTP/1.1 408 ") or not heard
        await line.close()
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert not site.asked


async def test_a_server_that_speaks_first_is_not_taken_for_http() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read()

    async with serving(greet) as port, gate_for(f"{LOOPBACK}:{port}") as ground:
        line = await ground.connect(LOOPBACK, port)
        await line.hear(19)
        await line.say(get(f"localhost:{port}"))
        assert await line.rest() == b"RESET"
        assert (await ground.ledger.only())["outcome"] == "refused"


@pytest.mark.parametrize(("port", "said"), [(443, get("api.test:443")), (443, b"SSH-2.0-x\r\n"), (80, b"EHLO me\r\n")])
async def test_at_the_ports_of_the_web_nothing_else_is_spoken(port: int, said: bytes) -> None:
    async with granted(port) as (ground, site):
        assert await ground.heard("api.test", port, said) == b"RESET"
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert not site.asked
    assert len(ground.ledger.denials) == 1
