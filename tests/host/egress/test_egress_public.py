"""The grant `public`: any public host by its name, at 443 and 80, and nothing else, however it is asked for.

The servers are real, and stand at public addresses as far as the gate knows: where it connects to one of those, it is
led to the server here. Every other address that it connects to fails the test.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_network
from typing import Any

import pytest

from host.egress.certificates import TestAuthority
from host.egress.ground import SITE, Line, Names, World, answered, asking, brief, gate_for, serving
from host.egress.origin import answer, origin, says
from host.egress.test_egress_addresses import NOT_PUBLIC
from host.egress.test_egress_hello import ENCRYPTED_CLIENT_HELLO, extension, hello, server_names
from host.egress.test_egress_http import get
from host.egress.test_egress_tls import hello_of, spoken
from paddock.egress.dialer import Address
from paddock.egress.rules import RefusedNetwork
from support.rows import each_row

OTHER = "2606:2800:220:1:248:1893:25c8:1946"


class Nowhere:
    """A neighbourhood with some addresses in it."""

    def __init__(self, near: Mapping[str, str] | None = None) -> None:
        self.near = dict(near or {})

    def __call__(self, address: Address) -> str | None:
        return self.near.get(str(address))


def gate(names: Names | None = None, *more: str, **given: Any) -> Any:
    return gate_for("public", *more, names=names, **{"neighbours": Nowhere(), **given})


def at(name: str, *answers: list[str]) -> Names:
    return Names({name: answers})


@pytest.mark.parametrize("way", ["direct", "proxy"])
async def test_any_public_host_is_reached_in_tls_and_recorded(world: World, authority: TestAuthority, way: str) -> None:
    async with origin(ssl=authority.server("news.example.org")) as site:
        world.servers[SITE, 443] = site.port
        async with gate(at("news.example.org", [SITE])) as ground:
            if way == "direct":
                where = await ground.place("news.example.org", 443)
                assert await spoken(ground, authority, where, "news.example.org", "news.example.org") == b"ok"
            else:
                line = await Line.to(ground.proxy())
                await line.say(asking("news.example.org:443", method="CONNECT"))
                assert b" 200 " in await line.hear_until(b"\r\n\r\n")
                await line.say(hello_of("news.example.org"))
                assert (await line.hear(1)) == b"\x16"
                await line.close()
            record = await ground.ledger.only()
    assert (record["rule"], record["destination"], record["address"], record["protocol"], record["way"]) == (
        "public",
        "news.example.org:443",
        SITE,
        "tls",
        way,
    )
    assert record["up"] > 200 and record["down"] > 200
    assert not ground.ledger.denials


@pytest.mark.parametrize("way", ["direct", "proxy"])
async def test_plain_http_is_carried_request_by_request(world: World, way: str) -> None:
    async with origin() as site:
        world.servers[OTHER, 80] = site.port
        async with gate(at("news.example.org", [OTHER])) as ground:
            target = "/a" if way == "direct" else "http://news.example.org/a"
            where = await ground.place("news.example.org", 80) if way == "direct" else ground.proxy()
            line = await Line.to(where)
            assert (await line.ask(f"GET {target} HTTP/1.1\r\nHost: news.example.org\r\n\r\n".encode()))[0] == 200
            status, _, body = await line.ask(asking("http://169.254.169.254/"))
            await line.close()
    assert (status, site.lines) == (403, ["GET /a HTTP/1.1"])
    assert b'net: ["public", "169.254.169.254:80"]' in body.replace(b"\\", b"") or b"169.254.169.254:80" in body
    assert world.connected == [(OTHER, 80)]


@each_row("address", [address for address, _ in NOT_PUBLIC])
async def test_a_name_that_leads_to_what_is_not_public_is_refused(world: World, address: str) -> None:
    async with gate(at("rebound.example.org", [address])) as ground:
        for port in (80, 443):
            assert await ground.heard("rebound.example.org", port) == b"RESET"
        assert (await ground.proxied("http://rebound.example.org/latest"))[0] == 403
        records = await ground.ledger.has(3)
    assert [record["outcome"] for record in records] == ["refused"] * 3
    assert world.connected == []


async def test_a_name_that_leads_inside_at_the_second_look_is_refused_then(world: World) -> None:
    async with origin() as site:
        world.servers[SITE, 80] = site.port
        names = at("rebound.example.org", [SITE], ["127.0.0.1"], [SITE, "10.0.0.1"])
        async with gate(names) as ground:
            outcomes = []
            for _ in range(3):
                line = await ground.connect("rebound.example.org", 80)
                with suppress(ConnectionError):
                    await line.say(b"GET / HTTP/1.1\r\nHost: rebound.example.org\r\nConnection: close\r\n\r\n")
                outcomes.append((await line.rest())[:12])
    assert outcomes == [b"HTTP/1.1 200", b"RESET", b"HTTP/1.1 200"]
    assert names.asked == ["rebound.example.org."] * 3  # once for each connection, and what was checked is connected to
    assert world.connected == [(SITE, 80)] * 2


async def test_what_a_redirect_leads_to_is_judged_like_anything_else(world: World) -> None:
    redirect = says(answer(b"", status="302 Found", location="http://127.0.0.1:8080/admin"), goes_on=True)
    async with origin(redirect) as site:
        world.servers[SITE, 80] = site.port
        async with gate(at("news.example.org", [SITE])) as ground:
            line = await Line.to(ground.proxy())
            status, headers, _ = await line.ask(asking("http://news.example.org/"))
            followed, _, _ = await line.ask(asking(headers["location"]))
            await line.close()
    assert (status, followed) == (302, 403)
    assert world.connected == [(SITE, 80)]
    assert [denial.grant for denial in ground.ledger.denials] == ['permissions: {net: ["127.0.0.1:8080"]}']


async def test_public_addresses_of_this_machines_networks_are_refused(world: World) -> None:
    neighbours = Nowhere({SITE: "an address of this machine", OTHER: "on 2606:2800::/32, a network of this machine"})
    async with origin() as site:
        world.servers[SITE, 80] = site.port
        names = Names({"own.example.org": [[SITE, OTHER]], "named.example.net": [[SITE]]})
        async with gate(names, "named.example.net:80", neighbours=neighbours) as ground:
            assert await ground.heard("own.example.org", 80) == b"RESET"
            neighbours.near.clear()  # an interface lost it: looked at anew each time
            for name in ("own.example.org", "named.example.net"):
                neighbours.near = {} if name == "own.example.org" else {SITE: "an address of this machine"}
                status, _, _ = await answered(await ground.place(name, 80), get(name))
                assert status == 200  # a person named the second one
    (denial,) = ground.ledger.denials
    assert denial.reason == f"it leads to {SITE}, which is an address of this machine; `public` does not lead there"
    assert world.connected == [(SITE, 80)] * 2


async def test_where_the_machine_is_cannot_be_found_out_nothing_is_reached(world: World) -> None:
    class Unknown:
        def __call__(self, address: Address) -> str | None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

    async with gate(at("news.example.org", [SITE]), neighbours=Unknown()) as ground:
        status, _, body = await ground.proxied("http://news.example.org/")
    assert status == 403
    assert b"cannot be found out" in body
    assert [(denial.layer, denial.target) for denial in ground.ledger.denials] == [("egress", "news.example.org:80")]
    assert world.connected == []


@each_row("host", ["127.0.0.1", "93.184.216.34", "[::1]", "[2606:2800:220:1::1]", "[::ffff:7f00:1]"])
@each_row("port", [80, 443])
async def test_addresses_are_refused_in_any_spelling(world: World, host: str, port: int) -> None:
    async with gate() as ground:
        assert (await ground.proxied(f"{host}:{port}", method="CONNECT"))[0] == 403
    assert world.connected == []


@each_row("host", ["a.localhost", "127.1", "2130706433", "0x7f.0.0.1", "router", "nas.local"])
async def test_names_that_cannot_be_public_are_refused_and_not_asked_for(world: World, host: str) -> None:
    names = Names()
    async with gate(names) as ground:
        assert (await ground.proxied(f"http://{host}/"))[0] in (400, 403)
        address = None if host[-1].isdigit() or "localhost" in host else await ground.address_of(host)
    assert (address, names.asked, world.connected) == (None, [], [])


@pytest.mark.parametrize("port", [22, 25, 8080, 8443])
async def test_other_ports_are_refused(world: World, port: int) -> None:
    async with gate(at("news.example.org", [SITE])) as ground:
        assert await ground.heard("news.example.org", port) == b"RESET"
    assert world.connected == []
    assert [denial.grant for denial in ground.ledger.denials] == [f'permissions: {{net: ["news.example.org:{port}"]}}']


UNREADABLE = {
    "no name": hello_of(None),
    "another name": hello_of("elsewhere.example.org"),
    "a hidden name": hello(server_names(b"news.example.org"), extension(ENCRYPTED_CLIENT_HELLO, b"\0secret")),
    "no TLS": b"\0\0\0\x08secrets.",
    "plain HTTP": b"GET /secrets HTTP/1.1\r\nHost: news.example.org\r\n\r\n",
    "nothing": b"",
}


@each_row("what", UNREADABLE)
async def test_at_443_only_tls_whose_server_can_be_read_goes_anywhere(world: World, what: str) -> None:
    heard = bytearray()

    async def speak_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 a service that speaks first\r\n")
        while data := await reader.read(1 << 16):
            heard.extend(data)

    async with serving(speak_first) as port:
        world.servers[SITE, 443] = port
        async with gate(at("news.example.org", [SITE]), bounds=brief()) as ground:
            line = await ground.connect("news.example.org", 443)
            await line.say(UNREADABLE[what])
            if what == "nothing":
                line.end()
            said = await line.rest()
            record = await ground.ledger.only()
    assert b"220" not in said
    assert (bytes(heard), record["outcome"], record["up"], record["down"]) == (b"", "refused", 0, 0)


async def test_at_80_only_http_for_that_host_goes_anywhere(world: World) -> None:
    async with origin() as site:
        world.servers[SITE, 80] = site.port
        async with gate(at("news.example.org", [SITE])) as ground:
            for said in (hello_of("news.example.org"), b"\0secrets", get("elsewhere.example.org")):
                await ground.heard("news.example.org", 80, said)
            records = await ground.ledger.has(3)
    assert [record["outcome"] for record in records] == ["refused"] * 3
    assert site.asked == []


async def test_the_proxy_speaks_no_plain_http_to_the_port_of_tls(world: World) -> None:
    async with gate(at("news.example.org", [SITE])) as ground:
        assert (await ground.proxied("http://news.example.org:443/"))[0] == 403
    assert world.connected == []


async def test_a_network_that_the_operator_closed_is_reached_by_no_grant(world: World) -> None:
    closed = RefusedNetwork(ip_network("93.184.216.0/24"), "policy.toml:3: refused_networks")
    names = Names({"news.example.org": [[SITE]], "named.example.net": [[SITE]]})
    async with gate(names, "named.example.net", f"{SITE}:443", refused=[closed]) as ground:
        for host in ("news.example.org", "named.example.net", SITE):
            assert await ground.heard(host, 443) == b"RESET"
    assert world.connected == []
    assert {denial.grant for denial in ground.ledger.denials} == {""}
    assert all("policy.toml:3: refused_networks refuses" in denial.reason for denial in ground.ledger.denials)


@pytest.mark.parametrize("address", ["64:ff9b::93.184.216.9", "2002:5db8:d809::1", "::ffff:93.184.216.9"])
async def test_what_an_address_carries_is_judged_as_well(world: World, address: str) -> None:
    closed = RefusedNetwork(ip_network("93.184.216.0/24"), "policy.toml:3: refused_networks")
    near = Nowhere({"93.184.216.9": "on 93.184.216.0/24, a network that this machine is in"})
    for given in ({"refused": [closed]}, {"neighbours": near}):
        async with gate(at("news.example.org", [address]), **given) as ground:
            assert await ground.heard("news.example.org", 443) == b"RESET"
        (denial,) = ground.ledger.denials
        assert "it leads to 93.184.216.9, which is " in denial.reason
    assert world.connected == []


@pytest.mark.parametrize("port", [80, 443])
async def test_what_goes_beyond_the_budget_of_bytes_waits(
    world: World, authority: TestAuthority, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 4 << 20
    tls: dict[str, Any] = {"ssl": authority.server("news.example.org")} if port == 443 else {}

    async def send_much(asked: Any, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer(b"x" * size))
        await writer.drain()
        return True

    slow = brief(idle_seconds=1.0, public_down_at_once=1000.0, public_down_per_second=1e-6)
    async with origin(send_much, **tls) as site:
        world.servers[SITE, port] = site.port
        async with gate(at("news.example.org", [SITE]), bounds=slow) as ground:
            client: dict[str, Any] = {}
            if port == 443:
                client = {"ssl": authority.client(), "server_hostname": "news.example.org"}
            try:
                line = await Line.to(await ground.place("news.example.org", port), **client)
                await line.say(get("news.example.org"))
                got = await line.rest()
            except (OSError, asyncio.IncompleteReadError):
                got = b""
            record = await ground.ledger.only()
    assert len(got) < 1 << 20
    assert (record["outcome"], record["down"] < 1 << 20) == ("idle", True)


async def test_connections_beyond_their_rate_wait(world: World) -> None:
    async with origin() as site:
        world.servers[SITE, 80] = site.port
        slow = brief(idle_seconds=60.0, public_connections_at_once=2.0, public_connections_per_second=1e-6)
        async with gate(at("news.example.org", [SITE]), "named.example.net:80", bounds=slow) as ground:
            lines = [await ground.connect("news.example.org", 80) for _ in range(4)]
            for line in lines[:2]:
                assert (await line.ask(get("news.example.org")))[0] == 200
            assert len(world.connected) == 2
            for line in lines:
                await line.close()
