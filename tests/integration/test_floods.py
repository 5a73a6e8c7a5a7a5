"""Whatever one module has the host do, and however much of it at once: everything else gets its turn, and it is ended.

The module here says on its own socket what no runtime would, and reads what the host says itself.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from integration.conftest import OpenSession, WriteModule
from integration.raw_wire import RAW_WIRE
from paddock import Session
from paddock.kernel import module as hosted_module
from paddock.kernel.rates import Rates
from paddock.rpc import channel, gathering
from paddock.rpc.budget import Budget

_FLOODER = (
    RAW_WIRE
    + """
    REQUEST, NOTIFY = 3, 6
    LIST_HANDLERS, EMIT, PATCH_STATE = 4, 5, 13

    def frame(kind, method, body, id=0):
        return HEADER.pack(HEADER.size - 4 + len(body), kind, 0, method, id, 0, 0, 0, 0) + body

    def patches(times, size):
        yield frame(NOTIFY, PATCH_STATE, msgpack.packb([[["key"], [{"count": 0, "much": [1] * size}]]]))
        for number in range(1, times + 1):
            yield frame(NOTIFY, PATCH_STATE, msgpack.packb([[["key", "count"], [number]]]))

    def lists(times, size):
        for number in range(times):
            yield frame(REQUEST, LIST_HANDLERS, msgpack.packb([None]), 1_000_000 + number)

    def events(times, size):
        for number in range(times):
            yield frame(REQUEST, EMIT, msgpack.packb(["news", {"much": [1] * size}]), 1_000_000 + number)

    def drain(connection, is_over):
        while not is_over.is_set() and connection.recv(1 << 16):
            pass

    class Flooder:
        name = "flooder"
        description = "has the host do much, or an ordinary amount of the same"

        def __init__(self, coordinator):
            self._coordinator = coordinator

        async def execute(self, input):
            hooks, state = self._coordinator.hooks, self._coordinator.session_state
            if "act" not in input:
                state["ordinary"] = {"count": 0, "much": [1] * 500}
                for number in range(20):
                    state["ordinary"]["count"] = number
                    listed = hooks.list_handlers()
                    await hooks.emit("news", {"much": [1] * 500})
                return ToolResult(output=[state["ordinary"]["count"], "news" in listed])
            connection, is_over = wire(), threading.Event()
            if input["act"] != "patches":
                threading.Thread(target=drain, args=(connection, is_over), daemon=True).start()
            acts = {f.__name__: f for f in (patches, lists, events)}
            connection.sendall(b"".join(acts[input["act"]](input["times"], input["size"])))
            if input["stays"]:
                is_over.wait()  # nothing of the runtime's own runs meanwhile: it would mind the answers
            return ToolResult(output="done")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Flooder(coordinator))
"""
)


def _order(**input: Any) -> str:
    return json.dumps({"tool": "flooder", "input": input})


async def test_everything_else_gets_its_turn_while_a_module_says_much_at_once(
    open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_STRETCH", 0.0)
    source = write_module("tool-flooder", _FLOODER)
    async with open_session(tools=[{"module": "tool-flooder", "source": source}]) as session:
        state = session.coordinator.session_state
        flood = asyncio.ensure_future(session.execute(_order(act="patches", times=5000, size=1, stays=False)))
        seen = set()
        while state.get("key", {}).get("count") != 5000:
            seen.add(state.get("key", {}).get("count"))
            await asyncio.sleep(0)
        assert json.loads(await flood)["success"]
        assert len(seen) > 1000
        assert not any(module.exit_reports for module in session.modules)


class _Impatient(Rates):
    """The host's patience, cut short so that the test is: a fortieth of it, and no more as time goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Budget(per_second=0, at_once=50_000)


@pytest.mark.parametrize(
    ("act", "times", "size"), [("patches", 2000, 2000), ("lists", 2000, 0), ("events", 20, 10_000)]
)
async def test_a_module_that_has_the_host_do_ever_more_is_ended_and_nobody_else(
    act: str,
    times: int,
    size: int,
    open_session: OpenSession,
    write_module: WriteModule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosted_module, "Rates", _Impatient)
    source = write_module("tool-flooder", _FLOODER)
    heard: list[Any] = []
    async with open_session(tools=[{"module": "tool-flooder", "source": source}]) as session:
        session.coordinator.hooks.register("news", lambda event, data: heard.append(data["much"]))
        for number in range(50):
            session.coordinator.hooks.register(f"event {number}", lambda event, data: None)
        ordinary = json.loads(await session.execute(_order()))
        assert ordinary["output"] == [19, True]
        assert heard == [[1] * 500] * 20
        assert not any(module.exit_reports for module in session.modules)
        ended = json.loads(await session.execute(_order(act=act, times=times, size=size, stays=True)))
        assert not ended["success"]
        reports = {module.module: module.exit_reports for module in session.modules}
    (report,) = reports.pop("tool-flooder")
    assert report.reason.value == "protocol"
    assert report.limit is not None and report.limit.name == "work_max"
    assert not any(reports.values()), "another worker died of it"


_NEIGHBOUR = """
    from amplifier_core.models import ToolResult

    class Neighbour:
        name = "NAME"
        description = "does with what is everyone's what it is asked to"

        def __init__(self, coordinator):
            self._coordinator = coordinator
            self.asked = 0

        async def listing(self):
            self.asked += 1
            return [1] * 2000

        async def execute(self, input):
            coordinator = self._coordinator
            match input["act"]:
                case "fill":
                    coordinator.session_state.setdefault("notes", {})["much"] = [1] * input["size"]
                case "count":
                    notes = coordinator.session_state.setdefault("notes", {})
                    for _ in range(input["times"]):
                        notes["count"] = notes.get("count", 0) + 1
                        coordinator.hooks.list_handlers("news")
                    return ToolResult(output=notes["count"])
                case "offer":
                    coordinator.register_capability("NAME.listing", self.listing)
                case "contribute":
                    for k in range(input["times"]):
                        coordinator.register_contributor("channel", f"NAME{k}", lambda: [1] * input["size"])
                case "contribute another's":
                    function = coordinator.get_capability(input["whose"])
                    for k in range(input["times"]):
                        coordinator.register_contributor("channel", f"NAME{k}", function)
                case "collect":
                    for _ in range(input["times"]):
                        given = await coordinator.collect_contributions("channel")
                    return ToolResult(output=[len(one) for one in given])
                case "emit":
                    data = {"much": [1] * input["size"], "add": input.get("add", 0)}
                    for _ in range(input["times"]):
                        await coordinator.hooks.emit("artifact:write", data)
                case "asked":
                    return ToolResult(output=self.asked)
            return ToolResult(output="done")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Neighbour(coordinator))
"""

_REDACTOR = """
    from amplifier_core.models import HookResult

    async def mount(coordinator, config):
        async def redact(event, data):
            return HookResult(action="modify", data={**data, "more": [1] * data["add"]})

        coordinator.hooks.register("artifact:write", redact)
"""


def _neighbours(write_module: WriteModule, *names: str) -> list[dict[str, Any]]:
    return [
        {"module": f"tool-{name}", "source": write_module(f"tool-{name}", _NEIGHBOUR.replace("NAME", name))}
        for name in names
    ]


async def _asked(session: Session, tool: str, **input: Any) -> Any:
    return json.loads(await session.execute(json.dumps({"tool": tool, "input": input})))


def _ended(session: Session) -> dict[str, str]:
    """Return which modules were ended, and by which limit."""
    return {m.module: r.limit.name if r.limit else r.reason.value for m in session.modules for r in m.exit_reports}


async def _all_ended(session: Session, *names: str) -> None:
    """Wait until these modules were ended for what they had the host do, and find that no other was."""
    async with asyncio.timeout(10):
        while not {*names} <= {*_ended(session)}:
            await asyncio.sleep(0.01)
    assert _ended(session) == dict.fromkeys(names, "work_max")


async def test_a_module_does_not_pay_for_what_another_left_under_a_key_that_both_change(
    open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_module, "Rates", _Impatient)
    async with open_session(tools=_neighbours(write_module, "hostile", "honest")) as session:
        assert (await _asked(session, "honest", act="count", times=20))["output"] == 20
        assert (await _asked(session, "hostile", act="fill", size=10_000))["success"]
        assert (await _asked(session, "honest", act="count", times=40))["output"] == 60
        assert _ended(session) == {}
        await _asked(session, "hostile", act="count", times=40)  # a little of what it filled itself
        await _all_ended(session, "tool-hostile")
        assert (await _asked(session, "honest", act="count", times=1))["success"]


async def test_answers_of_a_contributor_are_charged_to_who_registered_it_and_not_to_whose_function_it_is(
    open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_module, "Rates", _Impatient)
    async with open_session(tools=_neighbours(write_module, "honest", "hostile")) as session:
        await _asked(session, "honest", act="offer")
        few = {"act": "contribute another's", "whose": "honest.listing", "times": 2}
        assert (await _asked(session, "hostile", **few))["success"]
        assert (await _asked(session, "honest", act="collect", times=1))["output"] == [2000, 2000]
        assert _ended(session) == {}
        await _asked(session, "hostile", **{**few, "times": 100})
        await _asked(session, "hostile", act="collect", times=1)
        await _all_ended(session, "tool-hostile")
        assert (await _asked(session, "honest", act="asked"))["output"] >= 20  # in the same life


async def test_a_contributor_that_had_no_room_is_not_followed_by_others_of_the_same_module(
    open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_OF_ONE", 600_000)
    async with open_session(tools=_neighbours(write_module, "honest", "hostile")) as session:
        await _asked(session, "honest", act="offer")
        await _asked(session, "hostile", act="contribute another's", whose="honest.listing", times=200)
        await _asked(session, "honest", act="contribute", times=1, size=2000)
        answered = (await _asked(session, "honest", act="collect", times=1))["output"]
        asked = (await _asked(session, "honest", act="asked"))["output"]
        assert 2 <= asked < 20
        assert answered == [2000] * asked  # the last of which is the honest one's own: it has a share of its own
        assert _ended(session) == {}


async def test_who_collects_does_not_pay_for_what_others_contribute(
    open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_module, "Rates", _Impatient)
    hostile = ("one", "two", "three", "four")
    async with open_session(tools=_neighbours(write_module, "honest", *hostile)) as session:
        for name in hostile:
            await _asked(session, name, act="contribute", times=1, size=8000)
        assert (await _asked(session, "honest", act="collect", times=3))["output"] == [8000] * 4
        assert _ended(session) == {}
        await _asked(session, "honest", act="collect", times=5)
        await _all_ended(session, *(f"tool-{name}" for name in hostile))
        assert (await _asked(session, "honest", act="collect", times=1))["success"]


async def test_a_handler_that_answers_with_what_it_heard_pays_only_for_what_it_adds(
    open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_module, "Rates", _Impatient)
    hooks = [{"module": "hooks-redactor", "source": write_module("hooks-redactor", _REDACTOR)}]
    async with open_session(tools=_neighbours(write_module, "one", "two"), hooks=hooks) as session:
        for name in ("one", "two"):
            assert (await _asked(session, name, act="emit", times=4, size=10_000))["success"]
        assert _ended(session) == {}
        await _asked(session, "one", act="emit", times=4, size=10_000)  # who sends it pays for it
        await _all_ended(session, "tool-one")
        await _asked(session, "two", act="emit", times=1, size=10, add=60_000)
        await _all_ended(session, "tool-one", "hooks-redactor")  # and who adds to it, for that
