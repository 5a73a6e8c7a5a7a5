"""Names that a rule spells in full have a real address inside, which decides on nothing but which names are meant.

The servers are real, and stand at public addresses as far as the gate knows: where it connects to one of those, it is
led to the server here. Every other address that it connects to fails.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address, IPv4Network, ip_network

import anyio
import pytest

from host.egress.certificates import TestAuthority
from host.egress.ground import (
    LOOPBACK,
    PATIENCE,
    SITE,
    Ground,
    Line,
    Names,
    World,
    answered,
    brief,
    gate_for,
    look_up,
    serving,
)
from host.egress.origin import Origin, origin
from host.egress.test_egress_gate import shout
from host.egress.test_egress_http import get
from host.egress.test_egress_tls import hello_of, spoken
from paddock.egress.injection import KeyInjection
from paddock.egress.name_table import NAMES
from paddock.egress.rules import RefusedNetwork
from paddock.plan.net_rule import NetRule
from support.rows import each_row

ELSEWHERE = "93.184.216.99"
SIX = "2606:2800:220:1:248:1893:25c8:1946"
KEY = "sk-of-the-operator"
PLACEHOLDER = "paddock-secret-KEY-00112233"
_CLIENTS_WAIT_SECONDS = 5.0  # for an answer about a name, as their resolv.conf says


def at_site(*names: str) -> Names:
    return Names({name: [[SITE]] for name in names})


def is_made(address: str | None) -> bool:
    return address is not None and IPv4Address(address) in NAMES


async def outcome(line: Line, said: bytes) -> bytes:
    """Return all that comes back upon some bytes, after which the client says no more."""
    with suppress(OSError):  # the gate may have reset it already
        line.writer.write(said)
        line.end()
    heard = await line.rest()
    return heard


# -- which names have one --------------------------------------------------------------------------


async def test_a_name_spelled_in_full_has_one_real_address_in_all_lives(world: World, authority: TestAuthority) -> None:
    names = Names({"api.test": [[SIX, SITE, ELSEWHERE], [ELSEWHERE], [SITE]]})
    async with origin(ssl=authority.server("api.test")) as site, gate_for("api.test", names=names) as ground:
        world.servers[ELSEWHERE, 443] = site.port
        assert [await ground.address_of(name) for name in ("api.test", "API.test")] == [SITE] * 2
        assert names.asked == ["api.test"]
        assert await spoken(ground, authority, ground.place_at(SITE, 443), "api.test", "api.test") == b"ok"
        record = await ground.ledger.only()
        await ground.gate.detach()
        with socket.create_server((LOOPBACK, 0)) as listener, socket.socket(type=socket.SOCK_DGRAM) as dns:
            dns.bind((LOOPBACK, 0))
            for each in (listener, dns):
                each.setblocking(False)
            ground.gate.attach([listener], dns)
            assert await asyncio.to_thread(look_up, "api.test", dns.getsockname()) == SITE
            await ground.gate.detach()
    # The host asked again for the connection, and went where that answer led.
    assert names.asked == ["api.test"] * 2
    assert (record["destination"], record["address"], record["rule"]) == ("api.test:443", ELSEWHERE, "api.test")
    assert not ground.ledger.denials


@each_row(
    ("rule", "answer"),
    [
        ("*.asked.test", [SITE]),
        ("api.asked.test", [LOOPBACK]),
        ("api.asked.test", ["198.18.0.1"]),
        ("api.asked.test", ["10.0.0.1"]),
        ("api.asked.test", ["169.254.169.254"]),
        ("api.asked.test", [SITE, "10.0.0.1"]),
        ("api.asked.test", [SITE, "fd00::1"]),
        ("api.asked.test", [SITE, "64:ff9b::7f00:1"]),
        ("api.asked.test", [SIX]),
        ("api.asked.test", []),
        ("api.asked.test", [str(address) for address in ip_network("93.184.0.0/25")]),
        ("api.asked.test", ["203.0.114.7"]),  # in a network that the operator refuses
        ("api.asked.test", [SITE, "64:ff9b::cb00:7207"]),  # which leads into that network
        ("api.asked.test", ["8.8.8.8"]),  # an address that was granted by itself
        ("api.asked.test", ["8.8.4.4"]),  # in a network that was granted
    ],
)
async def test_every_other_name_keeps_an_address_of_the_hosts(rule: str, answer: list[str]) -> None:
    refused = [RefusedNetwork(IPv4Network("203.0.114.0/24"), "a rule")]
    names = Names({"api.asked.test": [answer]})
    async with gate_for(rule, "8.8.8.8:9", "8.8.4.0/24:9", names=names, refused=refused) as ground:
        assert is_made(await ground.address_of("api.asked.test"))
    assert names.asked == ([] if rule.startswith("*") else ["api.asked.test"])


async def test_a_name_that_only_public_allows_keeps_an_address_of_the_hosts() -> None:
    names = at_site("www.example.org", "api.example.org")
    async with gate_for("public", "api.example.org", names=names) as ground:
        assert await ground.address_of("api.example.org") == SITE
        assert is_made(await ground.address_of("www.example.org"))
    assert names.asked == ["api.example.org"]


async def test_of_several_addresses_one_that_is_not_granted_itself_is_told() -> None:
    async with gate_for("api.test", f"{SITE}:9", names=Names({"api.test": [[SITE, ELSEWHERE]]})) as ground:
        assert await ground.address_of("api.test") == ELSEWHERE


# -- when it is looked up --------------------------------------------------------------------------


class Slow(Names):
    """Answers once it may, with what it has then."""

    def __init__(self, *names: str) -> None:
        super().__init__({name: [[SITE]] for name in names})
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def __call__(self, name: str) -> list[object]:  # type: ignore[override]
        self.is_asked.set()
        await self.may_answer.wait()
        return await super().__call__(name)  # type: ignore[return-value]


async def test_all_who_ask_meanwhile_wait_for_one_lookup_and_others_do_not() -> None:
    names = Slow("api.test")
    async with gate_for("api.test", "*.wild.test", names=names) as ground:
        asking = [asyncio.create_task(ground.address_of("api.test")) for _ in range(3)]
        await names.is_asked.wait()
        assert await outcome(await Line.to(ground.place_at(SITE, 443)), b"") == b"RESET"
        assert [denial.target for denial in ground.ledger.denials] == [f"{SITE}:443"]
        assert is_made(await ground.address_of("a.wild.test"))
        assert await ground.address_of("evil.test") is None
        assert not any(task.done() for task in asking)
        names.may_answer.set()
        assert await asyncio.gather(*asking) == [SITE] * 3
    assert names.asked == ["api.test"]


async def test_a_lookup_that_takes_too_long_or_fails_leaves_the_name_as_it_is() -> None:
    slow = Slow("api.test")
    async with gate_for("api.test", "gone.test", names=slow, bounds=brief()) as ground:
        with anyio.fail_after(_CLIENTS_WAIT_SECONDS):
            first = await ground.address_of("api.test")
        slow.may_answer.set()
        assert is_made(first) and await ground.address_of("api.test") == first
        assert is_made(await ground.address_of("gone.test"))
    assert slow.asked == ["gone.test"]


async def test_a_gate_that_is_closed_during_a_lookup_ends_it() -> None:
    names = Slow("api.test")
    async with gate_for("api.test", names=names, bounds=brief(real_address_seconds=2 * PATIENCE)) as ground:
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            sock.sendto(b"\0\7\1\0\0\1\0\0\0\0\0\0\3api\4test\0\0\1\0\1", (LOOPBACK, ground.dns))
            await names.is_asked.wait()
            before = asyncio.all_tasks()
            with anyio.fail_after(PATIENCE):
                await ground.gate.aclose()
                await asyncio.wait({task for task in before if task.get_coro().__name__ == "_decide_on"})  # type: ignore[union-attr]
    assert names.asked == []


# -- one name at an address ------------------------------------------------------------------------


async def test_an_address_that_nobody_asked_for_by_its_name_leads_nowhere(world: World) -> None:
    names = at_site("api.test")
    async with gate_for("api.test", "api.test:8080", names=names) as ground:
        for port in (443, 8080):
            assert await outcome(await Line.to(ground.place_at(SITE, port)), b"") == b"RESET"
        await ground.ledger.has(2)
    assert (names.asked, world.connected) == ([], [])
    assert {denial.grant for denial in ground.ledger.denials} == {
        f'permissions: {{net: ["{SITE}:{port}"]}}' for port in (443, 8080)
    }


async def test_the_name_is_dialled_with_todays_checks_not_the_address(world: World) -> None:
    names = Names({"evil.test": [[SITE], [ELSEWHERE], [LOOPBACK], ["198.18.0.1"], ["10.0.0.1"], [SIX]]})
    async with serving(shout) as port, gate_for("evil.test:8080", names=names) as ground:
        world.servers[ELSEWHERE, 8080] = world.servers[SITE, 8080] = port
        assert await ground.address_of("evil.test") == SITE
        heard = [await outcome(await Line.to(ground.place_at(SITE, 8080)), b"{}\n") for _ in range(5)]
        records = await ground.ledger.has(5)
    assert heard[1:] == [b"RESET"] * 4
    assert [record["outcome"] for record in records[1:]] == ["refused"] * 3 + ["failed"]
    assert world.connected == [(ELSEWHERE, 8080), (SIX, 8080)]
    assert {record["destination"] for record in records} == {"evil.test:8080"}


async def test_another_port_of_a_granted_name_is_told_by_its_name(world: World) -> None:
    async with gate_for("api.test", "other.test:8080", names=at_site("api.test")) as ground:
        assert await ground.heard("api.test", 8080) == b"RESET"
    (denial,) = ground.ledger.denials
    assert (denial.target, denial.reason) == ("api.test:8080", "the host was granted, port 8080 of it was not")
    assert world.connected == []


# -- several names at an address -------------------------------------------------------------------


@asynccontextmanager
async def two_sites(
    world: World, authority: TestAuthority, *rules: str
) -> AsyncIterator[tuple[Ground, Origin, Origin]]:
    """Have a gate to two names at one address, with a key for the first; and the servers at 443 and 80 there."""
    injections = [KeyInjection("KEY", PLACEHOLDER, KEY, NetRule.parse("api.test"))]
    names = Names({"api.test": [[SITE]], "evil.test": [[SITE]], "third.test": [[ELSEWHERE]]})
    async with origin(ssl=authority.server("api.test", "evil.test")) as tls, origin() as plain:
        world.servers.update({(SITE, 443): tls.port, (SITE, 80): plain.port})
        given = {"injections": injections, "upstream_tls": authority.client(), "bounds": brief(idle_seconds=5.0)}
        async with gate_for(*rules, names=names, **given) as ground:
            for name in ("evil.test", "api.test"):
                assert await ground.address_of(name) == SITE
            yield ground, tls, plain


async def in_tls(ground: Ground, authority: TestAuthority, name: str) -> bytes:
    """Return the answer to a request, with the placeholder in it, to the address under that name in TLS."""
    context = authority.client()
    context.load_verify_locations(cadata=ground.gate.ca_pem)
    _, _, body = await answered(
        ground.place_at(SITE, 443),
        get(name, "/", f"Authorization: Bearer {PLACEHOLDER}"),
        ssl=context,
        server_hostname=name,
    )
    return body


async def test_of_two_names_with_other_ports_each_keeps_its_own_and_its_key(
    world: World, authority: TestAuthority
) -> None:
    async with two_sites(world, authority, "api.test", "evil.test:80") as (ground, tls, plain):
        assert await in_tls(ground, authority, "api.test") == b"ok"
        with pytest.raises(ssl.SSLError):
            await in_tls(ground, authority, "evil.test")
        line = await Line.to(ground.place_at(SITE, 80))
        request = get("evil.test", "/", f"Authorization: Bearer {PLACEHOLDER}", "Connection: close")
        assert (await outcome(line, request)).startswith(b"HTTP/1.1 200")
        assert await outcome(await Line.to(ground.place_at(SITE, 80)), get("api.test")) == b"RESET"
        await ground.ledger.has(4)
    assert [asked.headers("authorization") for asked in tls.asked] == [[f"Bearer {KEY}"]]
    assert [asked.headers("authorization") for asked in plain.asked] == [[f"Bearer {PLACEHOLDER}"]]
    assert [denial.target for denial in ground.ledger.denials] == ["evil.test:443", "api.test:80"]


async def test_at_one_port_each_connection_goes_to_the_name_that_it_says(
    world: World, authority: TestAuthority
) -> None:
    rules = ("api.test", "evil.test", "evil.test:80", "api.test:80")
    async with two_sites(world, authority, *rules) as (ground, tls, plain):
        for name in ("api.test", "evil.test", "api.test"):
            assert await in_tls(ground, authority, name) == b"ok"
        line = await Line.to(ground.place_at(SITE, 80))
        assert (await line.ask(get("evil.test", "/1")))[0] == 200
        await line.say(get("api.test", "/2"))  # to the other, on a connection to this one
        assert (await line.answer())[0] == 403
        await line.close()
        records = await ground.ledger.has(4)
    assert [asked.headers("authorization") for asked in tls.asked] == [
        [f"Bearer {value}"] for value in (KEY, PLACEHOLDER, KEY)
    ]
    assert plain.lines == ["GET /1 HTTP/1.1"]
    assert sorted(record["destination"] for record in records) == sorted(
        ["api.test:443", "evil.test:443", "api.test:443", "evil.test:80"]
    )


UNNAMED = [
    (443, hello_of(None)),
    (443, hello_of("other.test")),
    (443, hello_of("third.test")),
    (443, hello_of("wwwapi.test")),
    (443, hello_of("api.test")[:-1]),
    (443, b"\x16\x03\x01\x00\x05hello"),
    (443, b"{raw}\n"),
    (443, get("api.test")),
    (80, get("other.test")),
    (80, get("third.test")),
    (80, get(SITE)),
    (80, b"GET / HTTP/1.0\r\n\r\n"),
    (80, b"GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\n\r\n"),
    (80, b"GET http://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n"),
    (80, b"GET / HTTP/1.1\r\nHost: api.test\r\n"),
    (80, b"GET / HTTP/1.1\r\nX: " + b"x" * 20000),
    (80, b"SSH-2.0-x\r\n"),
    (80, hello_of("api.test")),
    (80, b""),
    (443, b""),
]


@each_row(("port", "said"), UNNAMED)
async def test_a_connection_that_names_none_of_them_goes_nowhere(
    world: World, authority: TestAuthority, port: int, said: bytes
) -> None:
    rules = ("api.test", "evil.test", "evil.test:80", "api.test:80", "third.test", "third.test:80")
    async with two_sites(world, authority, *rules) as (ground, tls, plain):
        assert await ground.address_of("third.test") == ELSEWHERE
        world.servers.update({(ELSEWHERE, 443): tls.port, (ELSEWHERE, 80): plain.port})
        await outcome(await Line.to(ground.place_at(SITE, port)), said)
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert not tls.asked and not plain.asked
    assert len(ground.ledger.denials) == 1


async def test_a_name_spoken_to_at_other_ports_shares_its_address_with_nobody(world: World) -> None:
    """At such a port anything may be spoken, so nothing says which name is meant."""
    for first, second in (("db.test", "api.test"), ("api.test", "db.test")):
        async with gate_for("db.test:5432", "api.test", names=at_site("db.test", "api.test")) as ground:
            assert await ground.address_of(first) == SITE
            assert is_made(await ground.address_of(second))
            assert await ground.heard("api.test", 5432) == b"RESET"
        assert [denial.target for denial in ground.ledger.denials] == ["api.test:5432"]
    assert world.connected == []


async def test_an_address_granted_by_itself_is_that_grant(world: World, authority: TestAuthority) -> None:
    injections = [KeyInjection("KEY", PLACEHOLDER, KEY, NetRule.parse("api.test"))]
    given = {"injections": injections, "upstream_tls": authority.client()}
    async with origin(ssl=authority.server("api.test")) as site:
        world.servers[SITE, 443] = site.port
        rules = ("api.test", f"{SITE}:443")
        async with gate_for(*rules, names=at_site("api.test"), **given) as ground:
            assert is_made(await ground.address_of("api.test"))
            assert (
                await answered(
                    ground.place_at(SITE, 443),
                    get("api.test", "/", f"Authorization: Bearer {PLACEHOLDER}"),
                    ssl=authority.client(),
                    server_hostname="api.test",
                )
            )[0] == 200
            record = await ground.ledger.only()
    assert (record["destination"], record["rule"], record["protocol"]) == (f"{SITE}:443", f"{SITE}:443", "tls")
    assert site.asked[0].headers("authorization") == [f"Bearer {PLACEHOLDER}"]


@each_row(
    "answers",
    [
        [[SITE]],  # the address of another granted name
        [[ELSEWHERE]],  # which was granted by itself
        [["198.18.0.1"]],
        [[LOOPBACK]],
        [[f"8.8.8.{number}"] for number in range(1, 9)],  # a new one each time
    ],
)
async def test_whatever_a_name_resolves_to_others_are_reached_as_before(
    world: World, authority: TestAuthority, answers: Sequence[Sequence[str]]
) -> None:
    """The owner of one granted name, whom the person trusts with nothing else, answers as he likes."""
    names = Names({"evil.test": answers, "api.test": [[SITE]]})
    async with origin(ssl=authority.server("api.test")) as site, serving(shout) as port:
        world.servers.update({(SITE, 443): site.port, (ELSEWHERE, 443): port})
        async with gate_for("evil.test:8080", "api.test", f"{ELSEWHERE}:443", names=names) as ground:
            evil, api = [await ground.address_of(name) for name in ("evil.test", "api.test")]
            assert evil is not None and api is not None and evil != api
            assert await ground.address_of("evil.test") == evil
            assert await spoken(ground, authority, ground.place_at(api, 443), "api.test", "api.test") == b"ok"
            assert await outcome(await Line.to(ground.place_at(ELSEWHERE, 443)), b"{a}\n") == b"{A}\n"
            assert await outcome(await Line.to(ground.place_at(evil, 443)), b"") == b"RESET"
            records = await ground.ledger.has(3)
    assert {(record["destination"], record["address"]) for record in records} == {
        ("api.test:443", SITE),
        (f"{ELSEWHERE}:443", ELSEWHERE),
        ("", ""),  # the refused one
    }
