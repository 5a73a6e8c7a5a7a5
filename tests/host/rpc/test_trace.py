"""Which process served which call, in whose service and for how long, as a file for a viewer of traces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paddock.rpc import trace as tracing
from paddock.rpc.calls import RoutedCall
from paddock.rpc.trace import Trace
from paddock_sdk.protocol import Kind
from support.scripted_end import ASYNC

from .conftest import Network
from .scripted_worker import ScriptedWorker, until

_BIDI = "\u202e"


async def _traced(network: Network, trace: Trace) -> tuple[list[ScriptedWorker], list[int]]:
    """Return three workers whose calls are traced; the first may call the second, by a number, and that the third."""
    connected = [await network.connect(name) for name in ("asker", "between", "last")]
    for pid, (peer, _) in enumerate(connected, start=1000):
        trace.follow(peer, pid, f"{peer.name} s3cret{_BIDI}", network.router.method_name)
    workers = [worker for _, worker in connected]
    targets = [
        await network.lend(owner, owner.own(5, {"work": ASYNC}), peer)
        for (peer, _), owner in zip(connected, workers[1:], strict=False)
    ]
    return workers, targets


def _events(trace: Trace) -> list[dict[str, Any]]:
    written = json.loads(trace.as_json(lambda text: text.replace("s3cret", "***")))
    events: list[dict[str, Any]] = written["traceEvents"]
    return events


async def test_a_chain_of_calls_is_slices_of_its_processes_with_arrows_between(network: Network) -> None:
    trace = Trace()
    (asking, between, last), (middle, end) = await _traced(network, trace)
    asking.call_object(middle)
    served = await between.request_from_host()
    between.call_object(end, parent=served.id)
    request = await last.request_from_host()
    last.write(last.connection.send_response(request.id, b"\xc0"))
    await between.take(Kind.RESPONSE)
    between.write(between.connection.send_response(served.id, b"\xc0"))
    await asking.take(Kind.RESPONSE)
    events = _events(trace)
    names = {one["pid"]: one["args"]["name"] for one in events if one["ph"] == "M"}
    outer, inner = (one for one in events if one["ph"] == "X")
    assert [names[one["pid"]] for one in (outer, inner)] == ["between ***\\u202e", "last ***\\u202e"]
    assert [one["name"] for one in (outer, inner)] == ["between.work", "last.work"]
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 0.2
    begins, ends = (next(one for one in events if one["ph"] == phase) for phase in "sf")
    assert (begins["pid"], ends["pid"], begins["id"]) == (outer["pid"], inner["pid"], ends["id"])
    assert outer["ts"] <= begins["ts"] == inner["ts"] == ends["ts"]


async def test_calls_at_the_same_time_have_lanes_and_each_end_is_named(network: Network) -> None:
    trace = Trace()
    (asking, between, _), (middle, _) = await _traced(network, trace)
    calls = [asking.call_object(middle) for _ in range(3)]
    served = [await between.request_from_host() for _ in calls]
    asking.write(asking.connection.send_cancel(calls[0]))
    await between.take(Kind.CANCEL)
    between.write(between.connection.send_response(served[1].id, b"\xc0"))
    await asking.take(Kind.RESPONSE)
    assert [one["args"]["outcome"] for one in _events(trace) if one["ph"] == "X"] == ["given up", "ended", "open"]
    between.close()
    await until(lambda: "between" in network.failure_policy.lost)
    slices = [one for one in _events(trace) if one["ph"] == "X"]
    assert [one["args"]["outcome"] for one in slices] == ["given up", "ended", "lost"]
    assert len({one["tid"] for one in slices}) == 3


async def test_a_trace_is_bounded_and_keeps_no_part_of_a_long_name(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_MOST", 2)
    trace = Trace()
    peer, worker = await network.connect("named")
    asker, asking = await network.connect("asker")

    def name_of(call: RoutedCall) -> str:
        return "s3cret" * 100

    trace.follow(peer, 7, "named", name_of)
    target = await network.lend(worker, worker.own(5, {"work": ASYNC}), asker)
    for _ in range(3):
        asking.call_object(target)
        request = await worker.request_from_host()
        worker.write(worker.connection.send_response(request.id, b"\xc0"))
        await asking.take(Kind.RESPONSE)
    assert [one["name"] for one in _events(trace) if one["ph"] == "X"] == ["(a name too long to be kept)"] * 2
    assert json.loads(trace.as_json(str))["otherData"] == {"calls_left_out": 1}
