"""The proxy: what is asked of it is judged request by request, and at `landlock` only the module may ask."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from host.egress.certificates import TestAuthority
from host.egress.ground import LOOPBACK, Ground, Line, Names, asking, brief, gate_for
from host.egress.origin import granted, origin
from host.egress.test_egress_gate import serving, shout
from host.egress.test_egress_tls import hello_of
from support.rows import each_row


def token_of(ground: Ground) -> str:
    parts = urlsplit(ground.gate.proxy_url)
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()


async def test_requests_with_their_destination_are_passed_on_without_it() -> None:
    async with origin() as site, gate_for(f"{LOOPBACK}:{site.port}") as ground:
        line = await Line.to(ground.proxy())
        for number in range(2):
            request = asking(f"http://localhost:{site.port}/{number}?a=b", "Proxy-Connection: keep-alive")
            assert (await line.ask(request))[::2] == (200, b"ok")
        await line.close()
        record = await ground.ledger.only()
    assert site.lines == ["GET /0?a=b HTTP/1.1", "GET /1?a=b HTTP/1.1"]
    assert site.connections == 1
    assert (record["way"], record["protocol"], record["requests"]) == ("proxy", "http", 2)


async def test_each_host_of_one_proxy_connection_is_judged_by_itself() -> None:
    async with origin() as first, origin() as second, origin() as third:
        async with gate_for(f"{LOOPBACK}:{first.port}", f"{LOOPBACK}:{second.port}") as ground:
            line = await Line.to(ground.proxy())
            for port in (first.port, second.port, first.port):
                assert (await line.ask(asking(f"http://{LOOPBACK}:{port}/")))[0] == 200
            status, _, body = await line.ask(asking(f"http://{LOOPBACK}:{third.port}/"))
            assert status == 403
            assert f'permissions: {{net: ["{LOOPBACK}:{third.port}"]}}'.encode() in body
            assert await line.rest() == b""
            records = await ground.ledger.has(4)
    assert sorted(record["outcome"] for record in records) == ["ended", "ended", "ended", "refused"]
    assert (len(first.asked), len(second.asked), len(third.asked)) == (2, 1, 0)
    assert [denial.target for denial in ground.ledger.denials] == [f"{LOOPBACK}:{third.port}"]


async def test_a_tunnel_is_opened_to_what_was_granted(authority: TestAuthority) -> None:
    async with granted(443, tls=authority.server("api.test")) as (ground, _):
        line = await Line.to(ground.proxy())
        await line.say(asking("api.test:443", method="CONNECT"))
        assert await line.hear_until(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        await line.writer.start_tls(authority.client(), server_hostname="api.test")
        assert (await line.ask(asking("/", host="api.test")))[::2] == (200, b"ok")
        await line.close()
        record = await ground.ledger.only()
    assert (record["way"], record["protocol"], record["destination"]) == ("proxy", "tls", "api.test:443")


async def test_in_a_tunnel_the_same_is_expected_as_without_one() -> None:
    for port, said, heard in (
        (443, hello_of("evil.test"), b"\x15\x03\x03\x00\x02\x02\x70"),
        (443, b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", b"RESET"),
        (80, b"SSH-2.0-x\r\n", b"RESET"),
        (80, asking("/", host="evil.test"), b"HTTP/1.1 403 Forbidden"),
    ):
        async with granted(443, 80) as (ground, _):
            line = await Line.to(ground.proxy())
            # The first bytes are sent along with the wish, before it is answered.
            await line.say(asking(f"api.test:{port}", method="CONNECT") + said)
            await line.hear_until(b"established\r\n\r\n")
            assert (await line.rest()).startswith(heard)
            assert (await ground.ledger.only())["outcome"] == "refused"
        assert len(ground.ledger.denials) == 1


async def test_other_protocols_go_through_tunnels_to_other_ports() -> None:
    async with serving(shout) as port, gate_for(f"{LOOPBACK}:{port}") as ground:
        line = await Line.to(ground.proxy())
        await line.say(asking(f"{LOOPBACK}:{port}", method="CONNECT"))
        await line.hear_until(b"\r\n\r\n")
        await line.say(b"{hi}\n")
        assert await line.hear(5) == b"{HI}\n"
        line.end()
        assert await line.rest() == b""


# Granted: api.test:443, allowed.test:443 and 127.0.0.1:8080.
NOT_GRANTED = [
    "evil.test:443",
    "api.test:80",
    "api.test:8443",
    "allowed.test.evil:443",
    "api.test.:444",
    "127.0.0.2:8080",
    "127.0.0.1:443",
    "[::1]:8080",
    "[::ffff:127.0.0.1]:443",
    "169.254.169.254:443",
    "198.18.0.1:3128",
    "localhost:443",
]
NOT_A_HOST = [
    "api.test",
    "api.test:",
    "api.test:0",
    "api.test:65536",
    "api.test:443:443",
    "api.test:+443",
    "evil.test#api.test:443",
    "user@api.test:443",
    "api.test:443@evil.test:443",
    "api.test:443/path",
    "http://api.test:443",
    "0x7f.1:8080",
    "127.1:8080",
    "2130706433:8080",
    "0177.0.0.1:8080",
    "127.0.0.1%00.test:8080",
    "[fe80::1%25eth0]:8080",
    "::1:8080",
    "api..test:443",
    ".api.test:443",
    "*.test:443",
    "\u0430pi.test:443",  # a letter that looks like another
    "api.test%2eevil.test:443",
]


@each_row("target", NOT_GRANTED)
async def test_a_tunnel_to_anything_else_is_refused_with_what_to_add(target: str) -> None:
    async with gate_for("api.test", "allowed.test", f"{LOOPBACK}:8080") as ground:
        line = await Line.to(ground.proxy())
        status, _, body = await line.ask(asking(target, method="CONNECT"))
        assert status == 403
        assert b"permissions: {net: [" in body
        assert await line.rest() == b""
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert len(ground.ledger.denials) == 1


@each_row("target", NOT_A_HOST)
async def test_a_tunnel_to_what_is_no_plain_host_and_port_is_refused(target: str) -> None:
    async with gate_for("api.test", f"{LOOPBACK}:8080") as ground:
        line = await Line.to(ground.proxy())
        await line.say(f"CONNECT {target} HTTP/1.1\r\nHost: api.test\r\n\r\n".encode())
        assert (await line.answer())[0] == 400
        await line.close()
    assert len(ground.ledger.denials) == 1


@each_row(
    ("request_bytes", "status"),
    [
        (asking("/"), 400),
        (asking("*", method="OPTIONS"), 400),
        (asking("https://api.test/"), 400),
        (asking("ftp://api.test/"), 400),
        (asking("http://api.test:443/", host="evil.test"), 400),
        (asking("http:///", host="api.test"), 400),
        (asking("http://user:pass@api.test/", host="api.test"), 400),
        (b"\x16\x03\x01\x00\x05hello\r\n\r\n", 400),
        (b"\x05\x01\x00\r\n\r\n", 400),  # SOCKS
        (asking("http://evil.test/"), 403),
        (asking("http://api.test/"), 403),  # port 443 was granted
    ],
)
async def test_what_a_proxy_is_not_asked_is_refused(request_bytes: bytes, status: int) -> None:
    async with gate_for("api.test", bounds=brief()) as ground:
        line = await Line.to(ground.proxy())
        assert (await line.ask(request_bytes))[0] == status
        assert await line.rest() == b""
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert len(ground.ledger.denials) == 1


async def test_a_destination_that_cannot_be_reached_is_told_of() -> None:
    names = Names({"private.test": [["10.0.0.1"]]})
    async with gate_for("gone.test", "gone.test:80", "private.test", names=names) as ground:
        for request, status in (
            (asking("gone.test:443", method="CONNECT"), 502),
            (asking("http://gone.test/"), 502),
            (asking("private.test:443", method="CONNECT"), 403),
        ):
            line = await Line.to(ground.proxy())
            told, _, body = await line.ask(request)
            assert told == status
            # One line, without its end: clients show it within sentences of their own.
            assert status == 403 or re.fullmatch(rb"[^\n]+\. gone\.test:\d+ is granted; [^\n]+\.", body), body
            await line.close()
        await ground.ledger.has(3)
    *unreached, denial = ground.ledger.denials
    assert [one.layer for one in unreached] == ["destination"] * 2
    assert denial.grant == 'permissions: {net: ["private.test:443", "10.0.0.1:443"]}'


# -- with a token --------------------------------------------------------------------------------


@asynccontextmanager
async def by_token(*rules: str) -> AsyncIterator[tuple[Ground, tuple[str, int]]]:
    async with gate_for(*rules, bounds=brief()) as ground:
        yield ground, (LOOPBACK, ground.gate.listen())


async def test_a_client_with_the_token_is_served() -> None:
    async with origin() as site, by_token(f"{LOOPBACK}:{site.port}") as (ground, proxy):
        line = await Line.to(proxy)
        for _ in range(2):
            assert (await line.ask(asking(f"http://{LOOPBACK}:{site.port}/", token_of(ground))))[0] == 200
        await line.say(asking(f"{LOOPBACK}:{site.port}", token_of(ground), method="CONNECT"))
        await line.hear_until(b"\r\n\r\n")
        assert (await line.ask(asking("/", host=f"{LOOPBACK}:{site.port}")))[0] == 200
        await line.close()
    assert all("proxy-authorization" not in asked.head.lower().decode() for asked in site.asked)


WRONG = {
    "none": (),
    "empty": ("Proxy-Authorization: ",),
    "another": ("Proxy-Authorization: Basic " + base64.b64encode(b"paddock:x").decode(),),
    "another user": ("Proxy-Authorization: Basic " + base64.b64encode(b"x:").decode(),),
    "no base64": ("Proxy-Authorization: Basic !!!",),
    "not ASCII": ("Proxy-Authorization: Basic \xff",),
    "another scheme": ("Proxy-Authorization: Bearer x",),
    "for the server": ("Authorization: Basic {token}",),
}


@each_row("case", WRONG)
@each_row("method", ["GET", "CONNECT"])
async def test_a_client_without_the_token_is_not_served(case: str, method: str) -> None:
    async with origin() as site, by_token(f"{LOOPBACK}:{site.port}") as (ground, proxy):
        token = token_of(ground).rpartition(" ")[2]
        headers = [header.format(token=token) for header in WRONG[case]]
        line = await Line.to(proxy)
        target = f"{LOOPBACK}:{site.port}"
        status, told, _ = await line.ask(
            asking(target if method == "CONNECT" else f"http://{target}/", *headers, method=method)
        )
        assert (status, told["proxy-authenticate"]) == (407, 'Basic realm="paddock"')
        assert await line.rest() == b""
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert not site.asked


async def test_a_silent_client_does_not_stay() -> None:
    async with by_token("api.test") as (ground, proxy):
        silent = [await Line.to(proxy) for _ in range(brief().connections)]
        for line in silent:
            assert await line.rest() == b"RESET"
    assert not ground.ledger.denials


async def test_every_request_has_to_carry_it() -> None:
    async with origin() as site, by_token(f"{LOOPBACK}:{site.port}") as (ground, proxy):
        line = await Line.to(proxy)
        assert (await line.ask(asking(f"http://{LOOPBACK}:{site.port}/", token_of(ground))))[0] == 200
        assert (await line.ask(asking(f"http://{LOOPBACK}:{site.port}/")))[0] == 407
        await line.close()
    assert len(site.asked) == 1


async def test_two_modules_have_different_tokens() -> None:
    async with by_token("api.test") as (first, _), by_token("api.test") as (second, _):
        assert token_of(first) != token_of(second)


async def test_the_proxy_of_its_own_lasts_over_lives_and_its_connections_do_not() -> None:
    async with serving(shout) as port, by_token(f"{LOOPBACK}:{port}") as (ground, proxy):
        for _ in range(2):
            line = await Line.to(proxy)
            await line.say(asking(f"{LOOPBACK}:{port}", token_of(ground), method="CONNECT"))
            await line.hear_until(b"\r\n\r\n")
            await ground.gate.detach()
            assert await line.rest() == b"RESET"
