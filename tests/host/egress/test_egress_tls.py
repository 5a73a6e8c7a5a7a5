"""TLS that is carried as it is has to name the server that was granted."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from host.egress.certificates import TestAuthority
from host.egress.ground import LOOPBACK, Ground, Line, Names, answered, brief, gate_for
from host.egress.origin import granted, origin
from host.egress.test_egress_http import get


def hello_of(name: str | None, *, alpn: list[str] | None = None) -> bytes:
    """Return the first bytes of a client that wants to speak to a server of this name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


async def spoken(ground: Ground, authority: TestAuthority, where: tuple[str, int], name: str, host: str) -> bytes:
    """Return the body of an answer that a client gets in TLS."""
    _, _, body = await answered(where, get(host), ssl=authority.client(), server_hostname=name)
    return body


async def test_tls_that_names_the_granted_server_is_carried_untouched(authority: TestAuthority) -> None:
    async with granted(443, tls=authority.server("api.test")) as (ground, _):
        place = await ground.place("api.test", 443)
        # What is inside is between the two of them, for any host.
        assert await spoken(ground, authority, place, "API.test", "anything.test") == b"ok"
        record = await ground.ledger.only()
    assert (record["protocol"], record["destination"], record["outcome"]) == ("tls", "api.test:443", "ended")
    assert record["up"] > 200 and record["down"] > 500
    assert not ground.ledger.denials


@pytest.mark.parametrize(
    ("name", "target", "grant"),
    [
        ("evil.test", "evil.test:443", 'permissions: {net: ["evil.test:443"]}'),
        ("other.test", "other.test:443", ""),  # granted, and not what was connected to
        ("api.test.evil.test", "api.test.evil.test:443", 'permissions: {net: ["api.test.evil.test:443"]}'),
        (None, "api.test:443", ""),
        ("127.0.0.1", "api.test:443", ""),  # a client sends no name for an address
    ],
)
async def test_tls_that_names_another_server_or_none_is_refused(name: str | None, target: str, grant: str) -> None:
    async with granted(443, names=("api.test", "other.test")) as (ground, _):
        line = await ground.connect("api.test", 443)
        await line.say(hello_of(name))
        # An alert, which clients tell people of: `unrecognized name`.
        assert await line.rest() == b"\x15\x03\x03\x00\x02\x02\x70"
        record = await ground.ledger.only()
    assert (record["outcome"], record["up"]) == ("refused", 0)
    assert [(denial.target, denial.grant) for denial in ground.ledger.denials] == [(target, grant)]


async def test_a_hello_in_many_small_pieces_is_put_together(authority: TestAuthority) -> None:
    async with granted(443, tls=authority.server("api.test")) as (ground, _):
        line = await ground.connect("api.test", 443)
        hello = hello_of("api.test")
        for at in range(0, len(hello), 7):
            await line.say(hello[at : at + 7])
            await asyncio.sleep(0)
        assert (await line.hear(3))[0] == 22  # the server's own hello
        await line.close()


@pytest.mark.parametrize("cut", [1, 3, 20, 100])
async def test_a_hello_that_never_ends_is_refused(cut: int) -> None:
    async with granted(443, bounds=brief(idle_seconds=5.0)) as (ground, _):
        await ground.heard("api.test", 443, hello_of("api.test")[:cut])
        assert (await ground.ledger.only())["outcome"] == "refused"


async def test_at_a_granted_address_any_name_will_do(authority: TestAuthority) -> None:
    async with origin(ssl=authority.server("whatever.test", LOOPBACK)) as site:
        async with gate_for(f"{LOOPBACK}:{site.port}") as ground:
            place = await ground.place(LOOPBACK, site.port)
            for name in ("whatever.test", LOOPBACK):
                assert await spoken(ground, authority, place, name, "x.test") == b"ok"
        assert [record["protocol"] for record in ground.ledger.records] == ["tls", "tls"]


async def test_other_ports_carry_tls_under_the_same_rule(authority: TestAuthority) -> None:
    async with origin(ssl=authority.server("api.test")) as site:
        names = Names.all_here("api.test")
        async with gate_for(f"api.test:{site.port}", f"{LOOPBACK}:{site.port}", names=names) as ground:
            place = await ground.place("api.test", site.port)
            assert await spoken(ground, authority, place, "api.test", "x.test") == b"ok"
            line = await Line.to(place)
            await line.say(hello_of("evil.test"))
            assert await line.rest() == b"\x15\x03\x03\x00\x02\x02\x70"
