"""What is small on the wire and large in memory stays small: one module cannot fill the host's, nor another's worker.

Each module here says on its own socket what no runtime would, or has the runtime say more than any module needs to.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.probe import called, entry_of
from integration.raw_wire import RAW_WIRE

_AMPLIFIER = (
    RAW_WIRE
    + """
    NOTIFY, SET_ATTRIBUTE, PATCH_STATE, DESCRIBE = 6, 11, 13, 25

    def notice(method, body, rows=b"", count=0):
        rest = rows + body
        return HEADER.pack(HEADER.size - 4 + len(rest), NOTIFY, 0, method, 0, 0, 0, 0, count) + rest

    def lists(many):
        return b"\\xdd" + many.to_bytes(4, "big") + b"\\x90" * many

    def described(data, of_class, members=()):
        own, whose = (b"\\x80", data) if of_class else (data, b"\\x80")
        return b"\\x96" + msgpack.packb("Thing") + b"\\xc2" + msgpack.packb(members) + own + whose + b"\\x90"

    def class_data(times, many):
        for k in range(times):
            data = described(b"\\x81" + msgpack.packb(f"data{k}") + lists(many), True)
            row = struct.pack(">BII", 0, 1_000_000 + k, len(data)) + data
            handle = msgpack.packb(msgpack.ExtType(1, bytes(4)))
            yield notice(SET_ATTRIBUTE, msgpack.packb(f"note{k}") + handle, row, 1)

    def attributes(times, many):
        for k in range(times):
            yield notice(SET_ATTRIBUTE, msgpack.packb(f"note{k}") + lists(many))

    def state(times, many):
        for k in range(times):
            yield notice(PATCH_STATE, b"\\x91\\x92\\x91" + msgpack.packb(f"key{k}") + b"\\x91" + lists(many))

    def nested_state(times, many):
        yield notice(PATCH_STATE, msgpack.packb([[["key"], [{}]]]))
        for k in range(times):
            path = msgpack.packb(["key", f"part{k}"])
            yield notice(PATCH_STATE, b"\\x91\\x92" + path + b"\\x91" + lists(many))

    def redescribed(times, many):
        for k in range(times):
            data = described(b"\\x82" + msgpack.packb("name") + msgpack.packb("amplifier")
                             + msgpack.packb(f"data{k}") + lists(many), False, [["execute", 0]])
            yield notice(DESCRIBE, msgpack.packb([1, data]))

    ACTS = {f.__name__: f for f in (class_data, attributes, state, nested_state, redescribed)}

    class Amplifier:
        name = "amplifier"
        description = "says much in few bytes"

        def __init__(self, coordinator):
            self._coordinator = coordinator

        async def execute(self, input):
            act, times, size = input.get("act"), input.get("times", 0), input.get("size", 0)
            if act in ACTS:
                connection = wire()
                for frame in ACTS[act](times, size):
                    connection.sendall(frame)
            elif act == "write":
                state = self._coordinator.session_state
                for k in range(times):
                    state[f"written{k}"] = [[]] * size
                    self._coordinator.hooks.list_handlers()
                return ToolResult(output={key: len(state[key]) for key in state if key.startswith("written")})
            elif act == "contributors":
                for k in range(times):
                    self._coordinator.register_contributor(f"channel{k}", "x" * size, None)
            elif act == "same contributor":
                for k in range(times):
                    self._coordinator.register_contributor("channel", "name", None)
            elif act == "running":
                for k in range(times):
                    self._coordinator.cancellation.register_tool_start(f"{k}-" + "x" * size, "tool")
            self._coordinator.get_capability("nothing")
            return ToolResult(output="done")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Amplifier(coordinator))
"""
)

_QUARTER_MIB = 250_000


async def _told(open_session: OpenSession, *orders: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return what came of each call of the tool, and the session's modules at its end."""
    async with open_session(tools=[entry_of("tool-amplifier", _AMPLIFIER)]) as session:
        return [await called(session, "amplifier", **order) for order in orders], session.modules


@pytest.mark.exhaustive("ordinary2", "ordinary0")
@pytest.mark.parametrize(
    ("act", "ordinary", "too_much", "said"),
    [
        ("class_data", (3, 3000), (8, _QUARTER_MIB), "4096 values"),
        ("class_data", (3, 3000), (100, 4000), "descriptions take more than"),
        ("redescribed", (10, 3000), (2, _QUARTER_MIB), "4096 values"),
    ],
)
async def test_a_module_that_leaves_too_much_memory_ends_alone(
    open_session: OpenSession, act: str, ordinary: tuple[int, int], too_much: tuple[int, int], said: str
) -> None:
    orders = [*({"act": act, "times": times, "size": size} for times, size in (ordinary, too_much)), {}]
    came, modules = await _told(open_session, *orders)
    # The flood goes out before its sender hears of anything: it may have been answered for before it was read.
    assert came[0]["success"] and came[2]["success"], came
    reports = {
        module.module: [(report.reason.value, report.detail) for report in module.exit_reports] for module in modules
    }
    ((reason, detail),) = reports.pop("tool-amplifier")
    assert reason == "protocol" and said in detail
    assert not any(reports.values()), "another worker died of it"


@pytest.mark.exhaustive("order1")
@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"act": "contributors", "times": 2, "size": 201}, "a name of at most 200 characters"),
        ({"act": "same contributor", "times": 5000, "size": 0}, "more left with the host"),
    ],
)
async def test_contributors_are_counted_and_their_names_bounded(
    open_session: OpenSession, order: dict[str, Any], said: str
) -> None:
    ordinary = {**order, "times": 300, "size": min(order["size"], 200)}
    (fine, refused, after), modules = await _told(open_session, ordinary, order, {})
    assert fine["success"] and after["success"]
    assert not refused["success"] and said in json.dumps(refused), refused
    assert not any(module.exit_reports for module in modules)


@pytest.mark.exhaustive("state-ordinary1", "attributes-", "write-")
@pytest.mark.parametrize(
    ("act", "ordinary", "too_much", "kept"),
    [
        ("attributes", (5, 10_000), (2, _QUARTER_MIB), "the attribute note"),
        ("state", (5, 10_000), (2, _QUARTER_MIB), "session_state['key"),
        ("nested_state", (5, 10_000), (2, 140_000), "session_state['key']"),
        ("write", (5, 10_000), (2, _QUARTER_MIB), "session_state['written"),
    ],
)
async def test_what_is_too_much_to_leave_is_refused_and_ends_no_module(
    open_session: OpenSession, act: str, ordinary: tuple[int, int], too_much: tuple[int, int], kept: str
) -> None:
    orders = [*({"act": act, "times": times, "size": size} for times, size in (ordinary, too_much)), {}]
    came, modules = await _told(open_session, *orders)
    assert all(one["success"] for one in came), came
    assert not any(module.exit_reports for module in modules)
    denials = [denial for module in modules for denial in module.denials]
    assert denials and all(denial["operation"] == "leave" for denial in denials)
    assert all(denial["target"].startswith(kept) for denial in denials)
    assert all("more left with the host" in denial["reason"] for denial in denials)
    if act == "write":  # the writer itself reads the true state
        assert len(denials) == too_much[0]
        assert came[0]["output"] == came[1]["output"] == {f"written{k}": ordinary[1] for k in range(ordinary[0])}


async def test_tools_that_run_are_bounded_in_number_and_the_length_of_their_ids(open_session: OpenSession) -> None:
    async with open_session(tools=[entry_of("tool-amplifier", _AMPLIFIER)]) as session:
        for order, running, denied in [
            ({"act": "running", "times": 50, "size": 10}, 50, []),
            ({"act": "running", "times": 2000, "size": 10_000}, 256, [("run", "tools")]),
        ]:
            await called(session, "amplifier", **order)
            ids = session.coordinator.cancellation.running_tools
            assert len(ids) == running and max(map(len, ids)) <= 200
            told = [denial for module in session.modules for denial in module.denials]
            assert [(denial["operation"], denial["target"]) for denial in told] == denied
