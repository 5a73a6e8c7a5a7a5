"""Whatever one module has the host do, and however much of it at once: everything else gets its turn, and it waits.

The module here says on its own socket what no runtime would, and reads what the host says itself.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.probe import Code, called, entry_of
from integration.raw_wire import RAW_WIRE
from integration.session_internals import runtime_of
from paddock import Session
from paddock.plan.model import Kind
from paddock.rpc import channel
from paddock.rpc import fan_in as gathering
from paddock.session import module as hosted_module
from paddock.session.quota import ModuleRateLimits
from paddock.token_bucket import TokenBucket

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
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_STRETCH", 0.0)
    async with open_session(tools=[entry_of("tool-flooder", _FLOODER)]) as session:
        state = session.coordinator.session_state
        flood = asyncio.ensure_future(session.execute(_order(act="patches", times=5000, size=1, stays=False)))
        seen = set()
        while state.get("key", {}).get("count") != 5000:
            seen.add(state.get("key", {}).get("count"))
            await asyncio.sleep(0)
        assert json.loads(await flood)["success"]
        assert len(seen) > 1000
        assert not any(module.exit_reports for module in session.modules)


class _Impatient(ModuleRateLimits):
    """The host's patience, cut short so that the test is: a fortieth of it at once, and a tenth as time goes by."""

    per_second = 25_000

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.work = TokenBucket(per_second=self.per_second, at_once=50_000)
        self.answers = TokenBucket(per_second=self.per_second, at_once=50_000)


class _LessPatient(_Impatient):
    """Less patience as time goes by: otherwise a host that a busy machine makes slow does no more than it has."""

    per_second = 1_000


# What one module does more and more of, how often, and how much each time.
_EVER_MORE = {"patches": (2000, 2000), "lists": (2000, 0), "events": (20, 10_000)}


@pytest.mark.slow
async def test_a_module_that_has_the_host_do_ever_more_waits_for_it(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_module, "ModuleRateLimits", _LessPatient)
    flooders = [
        {
            "module": f"tool-{act}",
            "source": Code(_FLOODER.replace('"flooder"', f'"{act}"')),
            "limits": {"runtime_max": "6s"},  # waited out, and enough for a flood to begin on a busy machine
        }
        for act in _EVER_MORE
    ]
    heard: list[Any] = []
    async with open_session(tools=[*flooders, *_neighbours("honest")]) as session:
        session.coordinator.hooks.register("news", lambda event, data: heard.append(data["much"]))
        for number in range(50):
            session.coordinator.hooks.register(f"event {number}", lambda event, data: None)
        tools = session.coordinator.get("tools")
        for act in _EVER_MORE:
            assert (await tools[act].execute({})).output == [19, True]
            assert heard == [[1] * 500] * 20
            heard.clear()
        floods = [
            asyncio.ensure_future(tools[act].execute({"act": act, "times": times, "size": size, "stays": True}))
            for act, (times, size) in _EVER_MORE.items()
        ]
        names = {f"tool-{act}" for act in _EVER_MORE}
        behind: set[str] = set()
        async with asyncio.timeout(100):
            while not names <= behind and not all(flood.done() for flood in floods):
                behind |= _behind(session)
                await asyncio.sleep(0.01)
        assert behind == names
        assert (await tools["honest"].execute({"act": "count", "times": 5})).output == 5
        assert not any(end.success for end in await asyncio.gather(*floods))
        # Not for what they had the host do: the time that takes is their own, and that of their calls was over.
        assert _ended(session) == dict.fromkeys(names, "runtime_max")


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


def _neighbours(*names: str) -> list[dict[str, Any]]:
    return [entry_of(f"tool-{name}", _NEIGHBOUR.replace("NAME", name)) for name in names]


def _ended(session: Session) -> dict[str, str]:
    """Return which modules were ended, and by which limit."""
    return {m.module: r.limit.name if r.limit else r.reason.value for m in session.modules for r in m.exit_reports}


def _behind(session: Session) -> set[str]:
    """Return the modules whose requests are put off now."""
    return {module.name for module in runtime_of(session).modules.all if module.peer.admission.is_behind}


async def test_after_a_contributor_without_room_its_module_is_notcalled(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_OF_ONE", 600_000)
    async with open_session(tools=_neighbours("honest", "hostile")) as session:
        await called(session, "honest", act="offer")
        await called(session, "hostile", act="contribute another's", whose="honest.listing", times=200)
        await called(session, "honest", act="contribute", times=1, size=2000)
        answered = (await called(session, "honest", act="collect", times=1))["output"]
        asked = (await called(session, "honest", act="asked"))["output"]
        assert 2 <= asked < 20
        assert answered == [2000] * asked  # the last of which is the honest one's own: it has a share of its own
        assert _ended(session) == {}


async def test_who_answers_does_not_pay_and_who_asks_waits(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_module, "ModuleRateLimits", _Impatient)
    others = ("one", "two", "three", "four")
    async with open_session(tools=_neighbours("asking", *others)) as session:
        for name in others:
            await called(session, name, act="contribute", times=1, size=8000)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert (await called(session, "asking", act="collect", times=4))["output"] == [8000] * 4
        assert loop.time() - begun > 2.0, "128 000 values at 25 000 a second, but for the first 50 000"
        assert (await called(session, "one", act="collect", times=1))["output"] == [8000] * 4
        assert _behind(session) == set()
        assert _ended(session) == {}


async def test_handlers_that_answer_with_much_pay_nothing_and_are_not_ended(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted_module, "ModuleRateLimits", _Impatient)
    hooks = [entry_of("hooks-redactor", _REDACTOR)]
    async with open_session(tools=_neighbours("one", "two"), hooks=hooks) as session:
        for name in ("one", "two"):
            assert (await called(session, name, act="emit", times=1, size=10_000))["success"]
        assert _behind(session) == set()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        assert (await called(session, "one", act="emit", times=10, size=10_000))["success"]  # who sends it waits
        assert loop.time() - begun > 1.5, "as above"
        assert (await called(session, "two", act="emit", times=1, size=10, add=30_000))["success"]
        assert _behind(session) <= {"tool-one"}
        assert _ended(session) == {}
