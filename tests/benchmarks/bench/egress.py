"""What the way out costs: bytes that are carried as they are, requests that are judged, and keys put into them."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from bench.affinity import every_core
from bench.child import Child
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.yardstick import Yardstick, plain_call
from paddock.egress.gate import EgressGate
from paddock.egress.injection import KeyInjection
from paddock.egress.limits import EgressLimits
from paddock.egress.rules import NetRules
from paddock.plan.net_rule import NetRule

_ROUNDS: Final = 12
_REQUESTS: Final = 200  # in one block
_PIECES: Final = 2000  # of 256 KiB each, in one block: enough to last some tenths of a second
_HOST: Final = "127.0.0.1"


class _Unrecorded:
    def record(self, event: str, /, **facts: object) -> None:
        """Keep nothing."""


def _child(part: str) -> AbstractAsyncContextManager[Child]:
    return Child.running([sys.executable, Path(__file__).with_name("egress_child.py"), part])


@asynccontextmanager
async def _gate(ports: dict[str, int], certificate: str) -> AsyncIterator[tuple[EgressGate, dict[str, int]]]:
    """Have a gate, and for each of the server's ports one that leads there through it."""
    listeners, destinations = {}, {}
    for name, port in ports.items():
        listeners[name] = socket.create_server((_HOST, 0), backlog=128)
        listeners[name].setblocking(False)
        destinations[listeners[name].getsockname()[1]] = (_HOST, port)
    dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    dns.setblocking(False)
    in_tls = [NetRule.parse(f"{_HOST}:{ports[name]}") for name in ("answer in tls", "events in tls")]
    gate = EgressGate(
        "bench",
        NetRules([NetRule.parse(f"{_HOST}:{port}") for port in ports.values()]),
        audit=_Unrecorded(),
        on_denial=lambda denial: None,
        injections=[KeyInjection("KEY", "placeholder-of-a-key", "sk-0123456789abcdef", rule) for rule in in_tls],
        # What is measured is how long one takes, not how many there may be.
        bounds=EgressLimits(accepts_per_second=100_000, requests_per_second=100_000),
        upstream_tls=ssl.create_default_context(cadata=certificate),
        destination_of=lambda accepted: destinations[accepted.getsockname()[1]],
    )
    through = {name: listener.getsockname()[1] for name, listener in listeners.items()}
    gate.attach(list(listeners.values()), dns)
    try:
        yield gate, through
    finally:
        await gate.aclose()


async def measure_egress(effort: Effort) -> list[Row]:
    """Measure each beside the same without a gate between."""
    with every_core():
        # Three processes take part, of which two have to do with a direct connection.
        async with _ends() as (client, direct, through, _, _):
            carried = await interleave(
                {
                    "direct": lambda: client.tell(act="pour", port=direct["swallow"], count=_PIECES),
                    "gate": lambda: client.tell(act="pour", port=through["swallow"], count=_PIECES),
                },
                effort.of(_ROUNDS),
            )
    async with _ends() as (client, direct, through, ours, theirs):
        plain = {"act": "ask", "count": _REQUESTS, "host": f"{_HOST}:{direct['answer']}"}
        in_tls = {"act": "ask", "count": _REQUESTS, "host": f"{_HOST}:{direct['answer in tls']}"}
        asked = await interleave(
            {
                "direct": lambda: client.tell(port=direct["answer"], **plain),
                "gate": lambda: client.tell(port=through["answer"], **plain),
                "direct, each": lambda: client.tell(port=direct["answer"], **{**plain, "act": "connect and ask"}),
                "gate, each": lambda: client.tell(port=through["answer"], **{**plain, "act": "connect and ask"}),
                "direct, tls": lambda: client.tell(port=direct["answer in tls"], certificate=theirs, **in_tls),
                "gate, key": lambda: client.tell(port=through["answer in tls"], certificate=ours, **in_tls),
            },
            effort.of(_ROUNDS),
        )
        events = {"act": "follow", "count": _REQUESTS, "host": f"{_HOST}:{direct['events in tls']}"}
        followed = await interleave(
            {
                "direct": lambda: client.tell(port=direct["events in tls"], certificate=theirs, **events),
                "gate": lambda: client.tell(port=through["events in tls"], certificate=ours, **events),
            },
            _ROUNDS,
        )
    yardstick = await plain_call(effort)
    return [
        Row.compared(
            "bytes through the gate",
            "How fast bytes that nobody reads pass through the gate, beside a direct connection.",
            "MB/s",
            carried,
            ("gate", "direct"),
            Target(0.5, at_least=True),
        ),
        *_added(
            yardstick,
            "request through the gate",
            "An HTTP request on a connection that is kept, judged and written anew, beside a direct one.",
            asked,
            ("gate", "direct"),
            1.0,
        ),
        *_added(
            yardstick,
            "connection and request through the gate",
            "The same on a connection of its own.",
            asked,
            ("gate, each", "direct, each"),
            1.0,
        ),
        *_added(
            yardstick,
            "request with a key put in",
            "A request over TLS that the gate ends, to put a key in and search the answer for it, beside a direct one.",
            asked,
            ("gate, key", "direct, tls"),
            1.5,
        ),
        *_added(
            yardstick,
            "event of an answer searched for a key",
            "From a server's sending of an event to its arrival, over TLS that the gate ends, beside a direct one.",
            followed,
            ("gate", "direct"),
            1.0,
        ),
    ]


def _added(
    yardstick: Yardstick, what: str, measures: str, samples: Samples, cases: tuple[str, str], bound: float
) -> list[Row]:
    more = samples.p50(cases[0]) - samples.p50(cases[1])
    return [
        Row.compared(what, measures, "ms", samples, cases),
        yardstick.row(f"  {what}, more than without", "How much longer that takes.", "ms", more, bound),
    ]


@asynccontextmanager
async def _ends() -> AsyncIterator[tuple[Child, dict[str, int], dict[str, int], str, str]]:
    """Have a client, the ports of a server, those that lead there through a gate, and the certificates of both."""
    async with _child("serve") as server, _child("ask") as client:
        told = await server.tell()
        async with _gate(told["ports"], told["certificate"]) as (gate, through):
            yield client, told["ports"], through, gate.ca_pem, told["certificate"]
