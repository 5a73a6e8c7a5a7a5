"""Where a worker's connections go: where it was granted, at addresses that were checked, and nowhere else."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address

import anyio
import pytest

from host.egress.ground import LOOPBACK, PATIENCE, Ledger, Line, Names, brief, gate_for, look_up, serving
from host.egress.test_egress_addresses import NOT_PUBLIC
from paddock.audit import AuditLog
from paddock.egress.gate import PROXY_PORT, EgressGate
from paddock.egress.limits import EgressLimits
from paddock.egress.rules import NetRules
from paddock.isolation.denials.log import DenialLog
from paddock.plan.net_rule import NetRule
from paddock_sandbox.network import GATEWAY
from support.rows import each_row


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each line in capitals."""
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()


async def test_a_granted_address_is_reached_and_recorded() -> None:
    async with serving(shout) as port, gate_for(f"{LOOPBACK}:{port}") as ground:
        line = await ground.connect(LOOPBACK, port)
        await line.say(b"{hello}\n")
        assert await line.hear(8) == b"{HELLO}\n"
        assert ground.gate.used["net"] == {f"{LOOPBACK}:{port}"}  # as long as it is open as well
        line.end()
        assert await line.rest() == b""
        record = await ground.ledger.only()
    assert record.pop("seconds") < PATIENCE
    assert record == {
        "module": "tool-x",
        "destination": f"{LOOPBACK}:{port}",
        "address": LOOPBACK,
        "rule": f"{LOOPBACK}:{port}",
        "way": "direct",
        "protocol": "raw",
        "up": 8,
        "down": 8,
        "outcome": "ended",
    }
    assert not ground.ledger.denials


async def test_what_was_not_granted_is_reset_told_and_recorded() -> None:
    async with serving(shout) as port, gate_for("127.0.0.1:1") as ground:
        assert await ground.heard(LOOPBACK, port) == b"RESET"
        record = await ground.ledger.only()
    (denial,) = ground.ledger.denials
    assert (denial.operation, denial.target, denial.caller, denial.layer) == (
        "connect to",
        f"{LOOPBACK}:{port}",
        "tool-x",
        "egress",
    )
    assert denial.grant == f'permissions: {{net: ["{LOOPBACK}:{port}"]}}'
    assert (record["outcome"], record["up"], record["down"], record["address"]) == ("refused", 0, 0, "")


# Granted: api.test:443, *.wild.test:443, 10.1.0.0/16:8080 and 127.0.0.1:8080.
REFUSED = [
    ("127.0.0.1", 443),
    ("127.0.0.1", 8081),
    ("127.0.0.2", 8080),
    ("10.2.0.1", 8080),
    ("10.1.0.1", 443),
    ("169.254.169.254", 80),
    ("169.254.169.254", 443),
    ("0.0.0.0", 8080),
    ("192.168.0.1", 443),
    ("8.8.8.8", 53),
    ("8.8.8.8", 443),
    ("198.18.0.1", 443),  # the gateway itself has a proxy, and nothing else
    ("198.18.0.77", 443),  # of the names' addresses, told to nobody
    ("198.19.255.254", 443),
]


@pytest.mark.parametrize(("host", "port"), REFUSED)
async def test_any_other_address_or_port_is_refused_without_an_attempt(
    host: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names.all_here("api.test")
    async with gate_for("api.test", "*.wild.test", "10.1.0.0/16:8080", "127.0.0.1:8080", names=names) as ground:

        async def connect(*_: object) -> socket.socket:
            raise AssertionError("nothing is to be connected")

        monkeypatch.setattr("paddock.egress.dialer._connect", connect)
        line = await Line.to(ground.place_at(host, port))
        assert await line.rest() == b"RESET"
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert [denial.target for denial in ground.ledger.denials] == [f"{host}:{port}"]
    assert names.asked == []


async def test_a_granted_name_is_looked_up_and_reached_at_that_address() -> None:
    names = Names.all_here("api.test")
    async with serving(shout) as port, gate_for(f"api.test:{port}", f"{LOOPBACK}:{port}", names=names) as ground:
        line = await ground.connect("api.test", port)
        await line.say(b"{}\n")
        assert await line.hear(3) == b"{}\n"
        line.end()
        await line.rest()
        record = await ground.ledger.only()
    assert (record["destination"], record["address"], record["rule"]) == (
        f"api.test:{port}",
        LOOPBACK,
        f"api.test:{port}",
    )
    assert names.asked == ["api.test"] * 2  # for the address that the worker is told, and for the connection


async def test_names_that_were_not_granted_do_not_exist_and_are_told() -> None:
    async with gate_for("api.test", "*.wild.test:8443") as ground:
        assert await ground.address_of("api.test") is not None
        assert await ground.address_of("any.wild.test") is not None
        for name in ("wild.test", "evil.test", "api.test.evil.test", "notapi.test"):
            assert await ground.address_of(name) is None
    assert [(denial.operation, denial.target, denial.grant) for denial in ground.ledger.denials] == [
        ("look up", name, f'permissions: {{net: ["{name}:443"]}}')
        for name in ("wild.test", "evil.test", "api.test.evil.test", "notapi.test")
    ]


@each_row(("address", "what"), NOT_PUBLIC)
async def test_a_name_that_leads_to_what_is_not_public_is_refused(address: str, what: str) -> None:
    async with gate_for("api.test", names=Names({"api.test": [[address]]})) as ground:
        assert await ground.heard("api.test", 443) == b"RESET"
        record = await ground.ledger.only()
    (denial,) = ground.ledger.denials
    assert denial.target == "api.test:443"
    assert "it leads to" in denial.reason and what in denial.reason
    assert (record["outcome"], record["address"]) == ("refused", "")
    assert not ground.gate.used["net"]


async def test_a_name_that_leads_elsewhere_the_second_time_is_refused_then() -> None:
    """DNS rebinding: the first answer is what may be reached, the second is not."""
    async with serving(shout) as port:
        names = Names({"api.test": [[LOOPBACK], [LOOPBACK], ["127.0.0.53"]]})
        async with gate_for(f"api.test:{port}", f"{LOOPBACK}:{port}", names=names) as ground:
            place = await ground.place("api.test", port)
            first = await Line.to(place)
            await first.say(b"{}\n")
            assert await first.hear(3) == b"{}\n"
            second = await Line.to(place)
            assert await second.rest() == b"RESET"
            for line in (first, second):
                await line.close()
            await ground.ledger.has(1)
        assert [denial.target for denial in ground.ledger.denials] == [f"api.test:{port}"]


async def test_only_allowed_addresses_are_tried_in_turn() -> None:
    with socket.create_server((LOOPBACK, 0)) as closed:
        unused = closed.getsockname()[1]
    async with serving(shout) as port:
        names = Names({"api.test": [["10.255.255.1", "127.0.0.9", LOOPBACK]]})
        rules = (f"api.test:{port}", f"127.0.0.9:{port}", f"{LOOPBACK}:{port}")
        async with gate_for(*rules, f"{LOOPBACK}:{unused}", names=names) as ground:
            line = await ground.connect("api.test", port)
            await line.say(b"{}\n")
            assert await line.hear(3) == b"{}\n"
            await line.close()
            assert (await ground.ledger.has(1))[0]["address"] == LOOPBACK
            assert await ground.heard(LOOPBACK, unused) == b"RESET"
            record = (await ground.ledger.has(2))[1]
    assert (record["outcome"], record["reason"]) == ("failed", f"no connection to {LOOPBACK}: Connection refused")
    assert [one.layer for one in ground.ledger.denials] == ["destination"]


async def test_a_name_that_does_not_exist_fails_and_is_no_refusal() -> None:
    async with gate_for("gone.test") as ground:
        assert await ground.heard("gone.test", 443) == b"RESET"
        record = await ground.ledger.only()
    assert (record["outcome"], record["reason"]) == (
        "failed",
        "no address of gone.test was found (DNS): Name or service not known",
    )
    (told,) = ground.ledger.denials
    assert told.describe().endswith(f"cannot connect to `gone.test:443`: {record['reason']}")
    assert told.hint.startswith("its grant covers it") and not told.grant


async def test_a_name_that_did_not_exist_hides_no_refusal_of_it() -> None:
    class Turning(Names):
        async def __call__(self, name: str) -> list[IPv4Address | IPv6Address]:
            found = await super().__call__(name)
            if len(self.asked) < 3:  # for the address that the worker is told, and for the first connection
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return found

    kept = DenialLog("tool", "tool-x", AuditLog.silent(), lambda: 0.0)
    async with gate_for("turning.test", names=Turning({"turning.test": [["169.254.169.254"]]})) as ground:
        for _ in range(3):
            assert await ground.heard("turning.test", 443) == b"RESET"
        for denial in ground.ledger.denials:
            kept.note(denial, 0.0)
    assert [(one.layer, one.times) for one in kept.all] == [("destination", 1), ("egress", 2)]
    assert "169.254.169.254" in kept.all[1].reason and "refused nothing" not in kept.all[1].hint


async def test_a_lookup_that_takes_too_long_is_given_up() -> None:
    class Silent(Names):
        async def __call__(self, name: str) -> list[object]:  # type: ignore[override]
            await asyncio.Event().wait()
            raise AssertionError

    async with gate_for("slow.test", names=Silent(), bounds=brief()) as ground:
        assert await ground.heard("slow.test", 443) == b"RESET"
        record = await ground.ledger.only()
    assert (record["outcome"], record["reason"]) == ("failed", "no connection to slow.test:443 within 1 s")


async def test_the_server_may_speak_first() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 welcome\r\n")
        await shout(reader, writer)

    async with serving(greet) as port, gate_for(f"{LOOPBACK}:{port}") as ground:
        line = await ground.connect(LOOPBACK, port)
        assert await line.hear(13) == b"220 welcome\r\n"
        await line.say(b"EHLO me\r\n")
        assert await line.hear(9) == b"EHLO ME\r\n"
        await line.close()


async def test_a_client_that_only_listens_is_served_too() -> None:
    async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"the time is now")

    async with serving(tell) as port, gate_for(f"{LOOPBACK}:{port}") as ground:
        line = await ground.connect(LOOPBACK, port)
        line.end()
        assert await line.rest() == b"the time is now"
        assert (await ground.ledger.only())["outcome"] == "ended"


async def test_nothing_of_the_client_goes_up_before_it_is_known_what_it_speaks() -> None:
    heard = bytearray()
    came = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.extend(data)
            came.set()

    async with serving(listen) as port, gate_for(f"{LOOPBACK}:{port}", bounds=brief()) as ground:
        assert await ground.heard(LOOPBACK, port, b"GE") == b"RESET"
        assert (await ground.ledger.only())["outcome"] == "refused"
    assert bytes(heard) == b""
    assert not came.is_set()


async def test_a_connection_on_which_nothing_happens_is_ended() -> None:
    async with serving(shout) as port, gate_for(f"{LOOPBACK}:{port}", bounds=brief()) as ground:
        line = await ground.connect(LOOPBACK, port)
        for _ in range(3):
            await asyncio.sleep(0.3)  # half of what it may be idle for
            await line.say(b"{}\n")
            assert await line.hear(3) == b"{}\n"
        assert await line.rest() == b"RESET"
        assert (await ground.ledger.only())["outcome"] == "idle"


async def test_detaching_ends_the_connections_of_one_life() -> None:
    async with serving(shout) as port, gate_for(f"{LOOPBACK}:{port}", "api.test") as ground:
        line = await ground.connect(LOOPBACK, port)
        await line.say(b"{}\n")
        await line.hear(3)
        before = await ground.address_of("api.test")
        with anyio.fail_after(PATIENCE):
            await ground.gate.detach()
        assert await line.rest() == b"RESET"
        assert (await ground.ledger.only())["outcome"] == "cut"
        with pytest.raises(OSError):
            await ground.connect(LOOPBACK, port)
        with socket.create_server((LOOPBACK, 0)) as listener, socket.socket(type=socket.SOCK_DGRAM) as dns:
            dns.bind((LOOPBACK, 0))
            for each in (listener, dns):
                each.setblocking(False)
            ground.gate.attach([listener], dns)
            # A name keeps its address: clients remember.
            assert await asyncio.to_thread(look_up, "api.test", dns.getsockname()) == before
            await ground.gate.detach()


@each_row("moment", ["connecting", "unclear", "relaying"])
async def test_a_gate_that_is_closed_at_any_moment_leaves_nothing_open(moment: str) -> None:
    asked = asyncio.Event()

    class Silent(Names):
        async def __call__(self, name: str) -> list[object]:  # type: ignore[override]
            if self.asked:  # for the address that the worker is told
                asked.set()
            self.asked.append(name)
            await asyncio.Event().wait()
            raise AssertionError

    given = {"names": Silent(), "bounds": EgressLimits(real_address_seconds=0.1)}
    async with serving(shout) as port, gate_for(f"{LOOPBACK}:{port}", "slow.test", **given) as ground:
        line = await (ground.connect("slow.test", 443) if moment == "connecting" else ground.connect(LOOPBACK, port))
        if moment == "connecting":
            await asked.wait()
        elif moment == "relaying":
            await line.say(b"{}\n")
            await line.hear(3)
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            scope.cancel()
            await ground.gate.aclose()
        await ground.gate.aclose()
        assert await line.rest() == b"RESET"


async def test_a_second_life_cannot_begin_before_the_first_has_ended() -> None:
    async with gate_for("api.test") as ground:
        with pytest.raises(RuntimeError), socket.socket(type=socket.SOCK_DGRAM) as dns:
            ground.gate.attach([], dns)


async def test_it_tells_what_a_worker_needs_to_know() -> None:
    ledger = Ledger()
    rules = NetRules([NetRule.parse("api.test"), NetRule.parse("10.0.0.1:80")])
    gate = EgressGate("tool-x", rules, audit=ledger, on_denial=ledger.deny)
    assert gate.ports == (80, 443, PROXY_PORT)
    assert gate.proxy_url == f"http://{GATEWAY}:{PROXY_PORT}"
    assert gate.ca_pem == ""
    port = gate.listen()
    assert gate.listen() == port
    assert gate.proxy_url.endswith(f"@127.0.0.1:{port}")
    await gate.aclose()
