"""A key is put into requests for one host, over verified TLS, and does not come back in any answer."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from host.egress.certificates import TestAuthority
from host.egress.ground import LOOPBACK, PATIENCE, Ground, Line, Names, answered, gate_for
from host.egress.origin import SWITCHED, Asked, Origin, Respond, answer, granted, origin, say_ok, says
from paddock.egress import stream_redactor as echo_filter
from paddock.egress.certificate_authority import CertificateAuthority
from paddock.egress.injection import InjectionError, KeyInjection, keys_for
from paddock.egress.stream_redactor import HOLD_SECONDS, WINDOW_BYTES, StreamRedactor
from paddock.plan.host_name import Destination
from paddock.plan.net_rule import NetRule
from support.examples import examples
from support.rows import each_row

VALUE = "sk-live-51H/x+Y=zz%20&q"
PLACEHOLDER = "paddock-secret-API_KEY-0123456789abcdef"
STARS = "*" * len(VALUE)
WINDOW_BYTES_OF_PLAIN = WINDOW_BYTES * 3 // 4  # of which base64 makes as much as is held back


def injection(rule: str = "api.test", value: str = VALUE, name: str = "API_KEY") -> KeyInjection:
    return KeyInjection(
        name, PLACEHOLDER if name == "API_KEY" else f"placeholder-of-{name}", value, NetRule.parse(rule)
    )


@asynccontextmanager
async def injected(
    authority: TestAuthority, respond: Respond = say_ok, *, server: str = "api.test", **given: Any
) -> AsyncIterator[tuple[Ground, Origin]]:
    """Have a gate that puts the key in for api.test, and the server there."""
    given.setdefault("injections", [injection()])
    given = {"names": ("api.test", "other.test"), "upstream_tls": authority.client(), **given}
    async with granted(443, respond=respond, tls=authority.server(server), **given) as (ground, site):
        yield ground, site


async def connected(ground: Ground, host: str = "api.test", **tls: Any) -> Line:
    context = ssl.create_default_context(cadata=ground.gate.ca_pem)
    return await Line.to(await ground.place(host, 443), ssl=context, server_hostname=host, **tls)


def get(path: str = "/", *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: api.test", *headers, "", ""]).encode("latin-1")


async def told(ground: Ground, request: bytes) -> tuple[int, dict[str, str], bytes]:
    line = await connected(ground)
    heard = await line.ask(request)
    await line.close()
    return heard


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


# -- putting it in -------------------------------------------------------------------------------


async def test_the_key_replaces_its_placeholder_in_headers_and_query(authority: TestAuthority) -> None:
    async with injected(authority) as (ground, site):
        status, _, body = await told(
            ground,
            get(
                f"/v1/x?key={PLACEHOLDER}&n=1",
                f"Authorization: Bearer {PLACEHOLDER}",
                f"X-Api-Key: {PLACEHOLDER}",
                "Accept-Encoding: gzip, br",
                "Accept-Charset: utf-16",
            ),
        )
        assert (status, body) == (200, b"ok")
        record = await ground.ledger.only()
    (asked,) = site.asked
    assert asked.line == f"GET /v1/x?key={quote(VALUE, safe='')}&n=1 HTTP/1.1"
    assert asked.headers("authorization") == [f"Bearer {VALUE}"]
    assert asked.headers("x-api-key") == [VALUE]
    assert asked.headers("accept-encoding") == ["identity"]
    assert asked.headers("accept-charset") == []
    assert (record["protocol"], record["injected"], record["echoes"]) == ("inject", ["API_KEY"], 0)


@pytest.mark.parametrize("credentials", ["{}:", "user:{}", "{0}:{0}"])
async def test_it_is_put_into_credentials_of_a_user_too(authority: TestAuthority, credentials: str) -> None:
    async with injected(authority) as (ground, site):
        header = f"Authorization: {basic(credentials.format(PLACEHOLDER))}"
        assert (await told(ground, get("/", header)))[0] == 200
    assert site.asked[0].headers("authorization") == [basic(credentials.format(VALUE))]


async def test_it_is_put_nowhere_else(authority: TestAuthority) -> None:
    body = json.dumps({"key": PLACEHOLDER}).encode()
    async with injected(authority) as (ground, site):
        request = get(f"/{PLACEHOLDER}/x", f"Content-Length: {len(body)}", "X-Other: abc", method="POST") + body
        assert (await told(ground, request))[0] == 200
        record = await ground.ledger.only()
    (asked,) = site.asked
    assert PLACEHOLDER in asked.line
    assert asked.body == body
    assert VALUE.encode() not in asked.head
    assert "injected" not in record


async def test_other_hosts_get_the_placeholder_and_untouched_tls(authority: TestAuthority) -> None:
    async with injected(authority, server="other.test") as (ground, site):
        where = await ground.place("other.test", 443)
        assert (
            await answered(
                where,
                get("/", f"Authorization: Bearer {PLACEHOLDER}"),
                ssl=authority.client(),
                server_hostname="other.test",
            )
        )[0] == 200
        assert (await ground.ledger.only())["protocol"] == "tls"
    assert site.asked[0].headers("authorization") == [f"Bearer {PLACEHOLDER}"]


async def test_several_keys_for_one_host_each_go_where_they_belong(authority: TestAuthority) -> None:
    both = [injection(), injection(value="another-key-entirely", name="SECOND")]
    async with injected(authority, injections=both) as (ground, site):
        await told(ground, get("/", f"A: {PLACEHOLDER}", "B: placeholder-of-SECOND"))
        assert (await ground.ledger.only())["injected"] == ["API_KEY", "SECOND"]
    assert (site.asked[0].headers("a"), site.asked[0].headers("b")) == ([VALUE], ["another-key-entirely"])


async def test_it_is_put_in_through_a_tunnel_as_well(authority: TestAuthority) -> None:
    async with injected(authority) as (ground, site):
        line = await Line.to(ground.proxy())
        await line.say(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
        await line.hear_until(b"established\r\n\r\n")
        context = ssl.create_default_context(cadata=ground.gate.ca_pem)
        await line.writer.start_tls(context, server_hostname="api.test")
        assert (await line.ask(get("/", f"X-Key: {PLACEHOLDER}")))[0] == 200
        await line.close()
        record = await ground.ledger.only()
    assert (record["way"], record["protocol"]) == ("proxy", "inject")
    assert site.asked[0].headers("x-key") == [VALUE]


async def test_requests_in_ended_tls_are_judged_as_others_are(authority: TestAuthority) -> None:
    async with injected(authority) as (ground, site):
        line = await connected(ground)
        assert (await line.ask(get("/", f"X-Key: {PLACEHOLDER}")))[0] == 200
        assert (await line.ask(get("/", f"X-Key: {PLACEHOLDER}").replace(b"api.test", b"other.test")))[0] == 403
        await line.close()
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\nHost: api.test:443\r\nX-Key: %s\r\n\r\n" % PLACEHOLDER.encode(), b"SSH-2.0-x\r\n"]
)
async def test_without_tls_nothing_is_sent(authority: TestAuthority, said: bytes) -> None:
    async with injected(authority) as (ground, site):
        line = await Line.to(await ground.place("api.test", 443))
        await line.say(said)
        assert await line.rest() == b"RESET"
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert (site.asked, site.connections) == ([], 0)


@each_row("by_proxy", [False, True])
async def test_over_plain_http_it_goes_to_the_machine_itself_and_no_further(by_proxy: bool) -> None:
    async with origin() as site:
        here, there = f"{LOOPBACK}:{site.port}", f"api.test:{site.port}"
        async with gate_for(
            here, there, names=Names.all_here("api.test"), injections=[injection(here), injection(there)]
        ) as ground:
            for destination, status in ((here, 200), (there, 403)):
                host = destination.partition(":")[0]
                line = await Line.to(ground.proxy() if by_proxy else await ground.place(host, site.port))
                target = f"http://{destination}/" if by_proxy else "/"
                request = f"GET {target} HTTP/1.1\r\nHost: {destination}\r\nX-Key: {PLACEHOLDER}\r\n\r\n"
                await line.say(request.encode())
                if status == 200 or by_proxy:
                    assert (await line.answer())[0] == status
                else:
                    assert await line.rest() == b"RESET"
                await line.close()
    assert [asked.headers("x-key") for asked in site.asked] == [[VALUE]]
    assert [denial.target for denial in ground.ledger.denials] == [there]


async def test_a_server_that_cannot_prove_who_it_is_gets_nothing(authority: TestAuthority) -> None:
    async with injected(authority, server="evil.test") as (ground, site):
        status, _, body = await told(ground, get("/", f"X-Key: {PLACEHOLDER}"))
        assert status == 502
        assert b"api.test:443 is not trusted" in body
        assert (await ground.ledger.only())["outcome"] == "failed"
    assert not site.asked


async def test_an_untrusted_authority_gets_nothing(authority: TestAuthority, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    trusted = authority.client()
    async with injected(TestAuthority(stranger), injections=[injection()], upstream_tls=trusted) as (ground, site):
        assert (await told(ground, get("/", f"X-Key: {PLACEHOLDER}")))[0] == 502
    assert not site.asked


# -- keeping it from coming back -----------------------------------------------------------------


def mirror_of(header: str, **more: str) -> Respond:
    """Answer with what a header said, in the body."""

    async def mirror(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer("|".join(["before", *asked.headers(header), "after"]).encode(), **more))
        return True

    return mirror


SPELLED = {
    "as it is": VALUE,
    "in JSON": json.dumps(VALUE)[1:-1],
    "in JSON of PHP": json.dumps(VALUE)[1:-1].replace("/", r"\/"),
    "for a URL": quote(VALUE),
    "for a query": quote(VALUE, safe=""),
    "for a query, in small letters": re.sub("%..", lambda escape: escape[0].lower(), quote(VALUE, safe="")),
    "in base64": base64.b64encode(VALUE.encode()).decode(),
    "in base64 of URLs": base64.urlsafe_b64encode(VALUE.encode()).decode(),
}


@pytest.mark.parametrize("spelling", SPELLED)
async def test_an_echo_in_a_body_is_hidden_however_it_is_spelled(authority: TestAuthority, spelling: str) -> None:
    text = f"before {SPELLED[spelling]} after"

    echo = says(answer(text.encode()), goes_on=True)
    async with injected(authority, echo) as (ground, _):
        status, _, body = await told(ground, get("/", f"X-Key: {PLACEHOLDER}"))
        record = await ground.ledger.only()
    assert status == 200
    assert len(body) == len(text)
    assert SPELLED[spelling].encode() not in body
    assert body.startswith(b"before ***") and body.endswith(b"* after")
    assert record["echoes"] == 1


async def test_an_echo_of_credentials_is_hidden_but_for_known_parts(authority: TestAuthority) -> None:
    async with injected(authority, mirror_of("authorization")) as (ground, site):
        _, _, body = await told(ground, get("/", f"Authorization: {basic('user:' + PLACEHOLDER)}"))
    sent = site.asked[0].headers("authorization")[0]
    assert len(body) == len(f"before|{sent}|after")
    kept = body.removeprefix(b"before|Basic ").removesuffix(b"|after").decode()
    hidden = kept.count("*")
    assert hidden >= len(base64.b64encode(VALUE.encode())) - 4
    assert kept.startswith(base64.b64encode(b"user:").decode()[:6])


@pytest.mark.parametrize("place", ["header", "reason", "name", "cookie", "location"])
async def test_an_echo_in_the_head_is_hidden(authority: TestAuthority, place: str) -> None:
    value = "sk-0123456789abcdef"

    async def echo(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        line = {
            "header": f"200 OK\r\nX-Debug: got {value} and {value}",
            "reason": f"401 bad key {value}",
            "name": f"200 OK\r\nX-{value}: 1",
            "cookie": f"200 OK\r\nSet-Cookie: key={value}; Path=/",
            "location": f"302 Found\r\nLocation: https://evil.test/?stolen={value}",
        }[place]
        writer.write(f"HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n".encode())
        return True

    async with injected(authority, echo, injections=[injection(value=value)]) as (ground, _):
        line = await connected(ground)
        await line.say(get("/", f"X-Key: {PLACEHOLDER}"))
        head = await line.hear_until(b"\r\n\r\n")
        await line.close()
        record = await ground.ledger.only()
    assert value.encode() not in head
    assert b"*" * len(value) in head
    assert record["echoes"] == (2 if place == "header" else 1)


async def chunks_of_an_answer(ground: Ground) -> bytes:
    """Return the body of an answer to a request with the key, its chunks put together."""
    line = await connected(ground)
    await line.say(get("/", f"X-Key: {PLACEHOLDER}"))
    await line.hear_until(b"\r\n\r\n")
    heard = await line.hear_until(b"0\r\n\r\n")
    await line.close()
    return b"".join(heard.split(b"\r\n")[1::2])


@pytest.mark.parametrize("cut", range(1, len(VALUE)))
async def test_an_echo_in_two_pieces_is_hidden_wherever_it_is_cut(authority: TestAuthority, cut: int) -> None:
    async def echo(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (f"data: {VALUE[:cut]}", f"{VALUE[cut:]}\n\n"):
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece.encode()))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        return True

    async with injected(authority, echo) as (ground, _):
        text = await chunks_of_an_answer(ground)
    assert text == f"data: {STARS}\n\n".encode()


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", ""])
async def test_half_a_line_of_an_answer_arrives_after_a_moment(authority: TestAuthority, kind: str) -> None:
    is_heard = asyncio.Event()

    async def dribble(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")
        writer.write(f"Content-Type: {kind}\r\n\r\n".encode() if kind else b"\r\n")
        writer.write(b"4\r\nhalf\r\n")
        await is_heard.wait()
        writer.write(b"0\r\n\r\n")
        return True

    async with injected(authority, dribble) as (ground, _):
        line = await connected(ground)
        await line.say(get("/", f"X-Key: {PLACEHOLDER}"))
        await line.hear_until(b"half\r\n")
        is_heard.set()
        await line.hear_until(b"0\r\n\r\n")
        await line.close()


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "x-unknown", "gzip, identity"])
async def test_an_answer_that_cannot_be_searched_is_refused(authority: TestAuthority, encoding: str) -> None:
    async with injected(authority, mirror_of("x-key", content_encoding=encoding)) as (ground, _):
        status, _, body = await told(ground, get("/", f"X-Key: {PLACEHOLDER}"))
        record = await ground.ledger.only()
    assert status == 502
    assert VALUE.encode() not in body
    assert (record["outcome"], record["reason"]) == (
        "failed",
        "the answer is encoded, so that it cannot be searched for the key",
    )


async def test_an_answer_that_is_none_once_the_key_in_it_is_hidden_is_refused(authority: TestAuthority) -> None:
    echo = says(b"HTTP/1.1 200 OK\r\nContent-Length: 12345678\r\n\r\n")
    async with injected(authority, echo, injections=[injection(value="12345678")]) as (ground, _):
        assert (await told(ground, get("/", f"X-Key: {PLACEHOLDER}")))[0] == 502
        record = await ground.ledger.only()
    assert (record["outcome"], record["reason"]) == ("failed", "the answer is malformed")


async def test_a_compressed_echo_is_refused_in_any_disguise(authority: TestAuthority) -> None:
    echo = says(answer(gzip.compress(VALUE.encode()), Transfer_Encoding="gzip, chunked", content_length=""))
    async with injected(authority, echo) as (ground, _):
        assert (await told(ground, get("/", f"X-Key: {PLACEHOLDER}")))[0] == 502


async def test_a_key_cannot_be_asked_for_in_parts(authority: TestAuthority) -> None:
    async with injected(authority) as (ground, site):
        await told(ground, get("/", f"X-Key: {PLACEHOLDER}", "Range: bytes=0-10", "If-Range: x"))
        await told(ground, get("/", "Range: bytes=0-10"))
    assert [asked.headers("range") + asked.headers("if-range") for asked in site.asked] == [[], ["bytes=0-10"]]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r\n"])
@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream; charset=utf-8", "application/x-ndjson", ""])
async def test_each_event_arrives_before_the_next_is_sent(
    authority: TestAuthority, monkeypatch: pytest.MonkeyPatch, kind: str, end: bytes
) -> None:
    monkeypatch.setattr(echo_filter, "HOLD_SECONDS", 3600.0)  # nothing arrives because time has passed
    heard = asyncio.Event()

    async def stream(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")
        writer.write(f"Content-Type: {kind}\r\n\r\n".encode() if kind else b"\r\n")
        for number in range(5):
            heard.clear()
            writer.write(b"%x\r\ndata: %d%s\r\n" % (7 + len(end), number, end))
            await writer.drain()
            await heard.wait()
        writer.write(b"0\r\n\r\n")
        return True

    async with injected(authority, stream) as (ground, _):
        line = await connected(ground)
        await line.say(get("/", f"X-Key: {PLACEHOLDER}"))
        await line.hear_until(b"\r\n\r\n")
        for number in range(5):
            event = b"%x\r\ndata: %d%s\r\n" % (7 + len(end), number, end)
            assert await line.hear(len(event)) == event
            heard.set()
        await line.hear_until(b"0\r\n\r\n")
        await line.close()


@pytest.mark.parametrize("kind", ["text/event-stream", "application/x-ndjson"])
async def test_half_an_event_is_kept_until_its_end_however_long_it_takes(
    authority: TestAuthority, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(echo_filter, "HOLD_SECONDS", 0.0)
    heard = asyncio.Event()

    async def dribble(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: %s\r\n\r\n" % kind.encode())
        for piece in (*f"data: {VALUE}", "\n"):
            writer.write(b"1\r\n%s\r\n" % piece.encode())
            await writer.drain()
            await asyncio.sleep(0)
        await heard.wait()
        writer.write(b"0\r\n\r\n")
        return True

    async with injected(authority, dribble) as (ground, _):
        line = await connected(ground)
        await line.say(get("/", f"X-Key: {PLACEHOLDER}"))
        await line.hear_until(b"\r\n\r\n")
        assert await line.hear_until(b"*\n\r\n") == b"%x\r\ndata: %s\n\r\n" % (len(VALUE) + 7, STARS.encode())
        heard.set()
        await line.hear_until(b"0\r\n\r\n")
        await line.close()


async def test_an_echo_byte_by_byte_is_hidden_where_nothing_says_how_long_it_is(authority: TestAuthority) -> None:
    async def dribble(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        for piece in f"before {VALUE} after":
            writer.write(piece.encode())
            await writer.drain()  # each a TLS record of its own
        return False

    async with injected(authority, dribble) as (ground, _):
        text = await chunks_of_an_answer(ground)
    assert text == f"before {STARS} after".encode()


async def test_a_vendors_client_has_each_word_before_the_next_is_sent(
    authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openai  # here: each process that collects tests would load it, which takes a second

    monkeypatch.setattr(echo_filter, "HOLD_SECONDS", 3600.0)
    words, heard = ["a", " b", f" {VALUE}", " d"], asyncio.Event()

    async def chat(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for word in words:
            heard.clear()
            choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
            event = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            data = f"data: {json.dumps(event)}\n\n".encode()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
            await heard.wait()
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        return True

    said = []
    async with injected(authority, chat) as (ground, site):
        host, port = await ground.place("api.test", 443)
        client = openai.AsyncOpenAI(
            api_key=PLACEHOLDER,
            base_url=f"https://{host}:{port}/v1",
            default_headers={"Host": "api.test"},
            max_retries=0,
            http_client=httpx.AsyncClient(
                verify=ssl.create_default_context(cadata=ground.gate.ca_pem),
                event_hooks={"request": [as_for("api.test")]},
                trust_env=False,
            ),
        )
        with anyio.fail_after(PATIENCE):
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "go"}], stream=True
            )
            async for chunk in stream:
                said.append(chunk.choices[0].delta.content)
                heard.set()
        await client.close()
    assert site.asked[0].headers("authorization") == [f"Bearer {VALUE}"]
    assert said == ["a", " b", f" {STARS}", " d"]


def as_for(host: str) -> Any:
    """Have a client ask for a host by TLS that it reaches by an address."""

    async def say(request: httpx.Request) -> None:
        request.extensions["sni_hostname"] = host

    return say


async def test_what_a_websocket_answers_is_searched_and_may_not_be_compressed(authority: TestAuthority) -> None:
    async def upgrade(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(SWITCHED)
        writer.write(b"\x81%c%s" % (len(VALUE), asked.headers("authorization")[0].removeprefix("Bearer ").encode()))
        return False

    async with injected(authority, upgrade) as (ground, site):
        line = await connected(ground)
        headers = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Extensions: permessage-deflate")
        await line.say(get("/", f"Authorization: Bearer {PLACEHOLDER}", *headers))
        assert (await line.hear_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await line.rest() == b"\x81%c%s" % (len(VALUE), STARS.encode())
        assert (await ground.ledger.only())["echoes"] == 1
    assert site.asked[0].headers("sec-websocket-extensions") == []


async def test_a_websocket_with_unrequested_extensions_is_refused(authority: TestAuthority) -> None:
    upgrade = says(SWITCHED[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\nsquashed")
    async with injected(authority, upgrade) as (ground, _):
        status, _, body = await told(ground, get("/", "Connection: Upgrade", "Upgrade: websocket"))
        assert (status, (await ground.ledger.only())["outcome"]) == (502, "failed")
    assert b"squashed" not in body


async def test_a_websockets_half_lines_arrive_after_a_moment(authority: TestAuthority) -> None:
    heard = asyncio.Event()

    async def upgrade(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(SWITCHED + b"\x81\x01a")
        await writer.drain()
        await heard.wait()
        return False

    async with injected(authority, upgrade) as (ground, _):
        line = await connected(ground)
        await line.say(get("/", f"X-Key: {PLACEHOLDER}", "Connection: Upgrade", "Upgrade: websocket"))
        await line.hear_until(b"\r\n\r\n")
        assert await line.hear(3) == b"\x81\x01a"
        heard.set()
        assert await line.rest() == b""


async def test_the_value_is_in_nothing_that_is_told_recorded_or_logged(
    authority: TestAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    break_off = says(f"HTTP/1.1 200 OK\r\n{VALUE}\r\n\r\n".encode())
    async with injected(authority, break_off) as (ground, _):
        heard = await told(ground, get("/", f"X-Key: {PLACEHOLDER}"))
        line = await connected(ground)
        await line.say(get(f"/?{PLACEHOLDER}", f"X-Key: {PLACEHOLDER}").replace(b"Host", b"Most"))
        await line.rest()
        shown = [heard, ground.ledger.records, ground.ledger.denials, caplog.text, injection(), vars(injection)]
    assert heard[0] == 502
    assert VALUE not in repr(shown)


@each_row("value", ["short", "", "a" * 7, "line\nbreak-in-it", " leading-space", "trailing ", "k\u00e9y-of-it"])
def test_an_unusable_secret_value_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(InjectionError) as caught:
        injection(value=value)
    assert not value or value not in str(caught.value).replace("shorter", "")


# -- parts ---------------------------------------------------------------------------------------


def test_keys_are_for_their_own_destination() -> None:
    both = [injection("api.test"), injection("10.0.0.1:8080", name="SECOND")]
    for destination, count in (
        (Destination("api.test", 443), 1),
        (Destination("api.test", 8443), 0),
        (Destination("evil.test", 443), 0),
    ):
        assert bool(keys_for(destination, both)) == bool(count)


def test_a_key_whose_encoded_form_has_a_line_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.egress.injection.encoded_forms", lambda value: iter((value, f"{value}\r")))
    with pytest.raises(InjectionError, match="a line end in one of its encoded forms"):
        injection()


def test_a_key_that_comes_to_more_than_is_held_back_is_refused() -> None:
    assert injection(value="k" * WINDOW_BYTES_OF_PLAIN).value
    with pytest.raises(InjectionError, match="more than 16384 bytes when it is encoded"):
        injection(value="k" * (WINDOW_BYTES_OF_PLAIN + 1))


@given(st.from_regex(r"[\x21-\x7e]{8,60}", fullmatch=True))
def test_no_key_that_can_be_sent_has_a_line_end_in_any_form(value: str) -> None:
    assert not any("\n" in one or "\r" in one for one in injection(value=value).spelled)


PIECES = st.lists(st.sampled_from([b"secret-key", b"secret", b"-key", b"s", b"sec", b"x", b"\n", b"\r", b"key-k"]))


@settings(max_examples=examples(300), deadline=None, database=None)
@given(PIECES, st.lists(st.integers(0, 40), max_size=6))
def test_a_redactor_hides_exactly_the_secret_in_any_pieces(parts: list[bytes], cuts: list[int]) -> None:
    text = b"".join(parts)
    edges = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    pieces = [text[start:end] for start, end in pairwise(edges)]
    hiding = StreamRedactor([b"secret-key", b"key-k"])
    out = b"".join([*(hiding.feed(piece, 0.0) for piece in pieces), hiding.end()])
    whole = StreamRedactor([b"secret-key", b"key-k"]).hide(text)
    assert out == whole
    assert b"secret-key" not in out and b"key-k" not in out
    assert all(mine in (theirs, ord("*")) for mine, theirs in zip(out, text, strict=True))


STEPS = st.lists(st.tuples(st.floats(0, 2 * HOLD_SECONDS), st.integers(1, 30)), max_size=12)


@settings(max_examples=examples(300), deadline=None, database=None)
@given(PIECES, STEPS)
def test_however_slowly_it_comes_its_end_is_hidden(parts: list[bytes], steps: list[tuple[float, int]]) -> None:
    text, hiding, now, out = b"".join(parts), StreamRedactor([b"secret-key"]), 0.0, b""
    for pause, size in steps:
        now += pause
        out += hiding.aged(now)
        out += hiding.feed(text[:size], now)
        text = text[size:]
    out += hiding.feed(text, now) + hiding.end()
    assert b"secret-key" not in out


@settings(max_examples=examples(300), deadline=None, database=None)
@given(STEPS, st.data())
def test_when_and_how_much_is_passed_on_depends_on_line_ends_alone(steps: list[tuple[float, int]], data: Any) -> None:
    words = ("secret-key", "secret-kez", "s", "aaaaaaaaaa", "t" * 40)
    choices = st.binary(min_size=40, max_size=40)  # at once: to draw each word is most of what this takes
    line_ends = data.draw(st.sets(st.integers(0, 200), max_size=5))
    passed = set()
    for hidden in ([b"secret-key"], [b"aaaaaaaaa", b"secret-key-that-is-longer"], [b"tttttttt"]):
        text = bytearray("".join(words[choice % len(words)] for choice in data.draw(choices)).encode())
        for place in line_ends:
            text[place % len(text)] = ord("\n")
        hiding, now, lengths = StreamRedactor(hidden), 0.0, []
        for pause, size in steps:
            now += pause
            lengths += [len(hiding.aged(now)), len(hiding.feed(bytes(text[:size]), now)), hiding.due]
            del text[:size]
        passed.add(tuple(lengths))
    assert len(passed) == 1


@each_row("end", [b"\n", b"\r", b"\r\n"])
def test_what_is_before_a_line_end_is_passed_on_at_once(end: bytes) -> None:
    hiding = StreamRedactor([b"secret-key"])
    assert hiding.feed(b"a" + end + b"secret", 0.0) == b"a" + end
    assert hiding.feed(b"-key" + end, 0.0) == b"*" * 10 + end
    assert (hiding.due, hiding.end(), hiding.found) == (None, b"", 1)


def test_what_much_has_come_after_is_passed_on_at_once() -> None:
    hiding = StreamRedactor([b"secret-key"])
    assert hiding.feed(b"x" * WINDOW_BYTES, 0.0) == b""
    assert hiding.feed(b"secret-key", 0.0) == b"x" * 10
    assert hiding.feed(b"y" * WINDOW_BYTES, 0.0) == b"x" * (WINDOW_BYTES - 10) + b"*" * 10


def test_what_comes_of_age_is_passed_on_and_remembered() -> None:
    hiding = StreamRedactor([b"secret-key"])
    assert hiding.feed(b"secret", 1.0) == b""
    assert hiding.feed(b"-k", 1.1) == b""
    assert hiding.due == 1.0 + HOLD_SECONDS
    assert hiding.aged(1.0 + HOLD_SECONDS) == b"secret"
    assert hiding.due == 1.1 + HOLD_SECONDS
    assert hiding.feed(b"ey\n", 1.2) == b"****\n"
    assert hiding.found == 1


def test_the_authority_signs_only_for_hosts_with_keys() -> None:
    authority = CertificateAuthority([NetRule.parse("api.test"), NetRule.parse("127.0.0.1:8443")])
    certificate = x509.load_pem_x509_certificate(authority.pem.encode())
    constraints = certificate.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert authority.context_for("api.test") is authority.context_for("api.test")
    assert _trusted(authority, "api.test") and _trusted(authority, "127.0.0.1")
    assert _trusted(authority, "localhost")
    for other in ("evil.localhost.test", "evil.test", "127.0.0.2", "notapi.test", "::1"):
        assert not _trusted(authority, other)


def test_with_names_alone_no_address_is_signed_for_and_the_other_way_round() -> None:
    assert not _trusted(CertificateAuthority([NetRule.parse("api.test")]), "10.0.0.1")
    assert not _trusted(CertificateAuthority([NetRule.parse("10.0.0.1:443")]), "api.test")
    assert not _trusted(CertificateAuthority([NetRule.parse("10.0.0.1:443")]), "localhost")


def _trusted(authority: CertificateAuthority, host: str) -> bool:
    """Whether a client that trusts the authority takes its certificate for a host."""
    from paddock.plan.host_name import parse_host

    client = ssl.create_default_context(cadata=authority.pem)
    if hasattr(ssl, "VERIFY_X509_STRICT"):
        client.verify_flags |= ssl.VERIFY_X509_STRICT
    a, b = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    ours = client.wrap_bio(*a, server_hostname=host)
    theirs = authority.context_for(parse_host(host)).wrap_bio(*b, server_side=True)
    for _ in range(4):
        for side, incoming, outgoing in ((ours, b[0], a[1]), (theirs, a[0], b[1])):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
            incoming.write(outgoing.read())
    return True
