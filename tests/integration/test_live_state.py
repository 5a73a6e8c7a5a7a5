"""Live objects in `session_state`: one module leaves them, others call them if the plan lets them."""

from __future__ import annotations

from typing import Any

from integration.conftest import OpenSession
from integration.probe import entry_of, probe, probed

_HOLDER = """
    class Finder:
        def __init__(self, coordinator):
            self.coordinator = coordinator
            self.modes = ["plan"]

        def find(self, name):
            return {"name": name, "is_there": name in self.modes}

        async def add(self, name):
            self.modes.append(name)
            return len(self.modes)

        async def turn(self, kind):
            state = self.coordinator.session_state
            if kind == "gone":
                del state["finder"]
            else:
                state["finder"] = Finder(self.coordinator) if kind == "new" else {"plain": 1}

    async def mount(coordinator, config):
        coordinator.session_state["finder"] = Finder(coordinator)
        coordinator.session_state["_own"] = Finder(coordinator)
        coordinator.session_state["mode"] = "plan"
"""

_USES = """
state = coordinator.session_state
finder = state["finder"]
found = [finder.find("plan"), finder.find("x"), await finder.add("x"), finder.find("x")]
own = "_own" in state
await finder.turn("new")
later = state["finder"].find("x")
await state["finder"].turn("plain")
plain = state["finder"]
return ToolResult(output={"found": found, "later": later, "plain": plain, "mode": state["mode"], "own": own})
"""

_ATTACKS = """
state = coordinator.session_state
told = []
for name in ("finder", "theirs"):
    try:
        told.append(state[name].find("plan"))
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}")
state["finder"] = {"mine": 1}
coordinator.register_capability("looked", 1)  # a request, whose answer comes after what the host says of the change
state["finder"] = Probe(coordinator)
coordinator.register_capability("looked", 2)
del state["finder"]
coordinator.register_capability("looked", 3)
return ToolResult(output=[*told, type(state["finder"]).__name__])
"""


async def test_a_module_calls_what_another_left_if_the_plan_lets_it(open_session: OpenSession) -> None:
    holder = entry_of("tool-holder", _HOLDER)
    user = probe(_USES, permissions={"call": ["state:finder"]})
    attacker = probe(_ATTACKS, name="attacker")
    async with open_session(tools=[holder, user, attacker]) as session:
        session.coordinator.session_state["theirs"] = _Theirs()
        refused, of_the_application, kind = await probed(session, "attacker")
        denials = [one for module in session.modules for one in module.denials]
        assert "may not call `state:finder`" in refused
        assert of_the_application == "KeyError: 'theirs'" and kind == "Finder"
        assert [(one["operation"], one["target"]) for one in denials] == [
            ("call", "state:finder"),
            ("change", "session_state['finder']"),
        ]
        assert 'call: ["state:finder"]}' in denials[0]["grant"] and denials[1]["grant"] == 'replaces: ["finder"]'
        found = await probed(session)
        assert [one["is_there"] for one in found.pop("found") if isinstance(one, dict)] == [True, False, True]
        later = {"name": "x", "is_there": False}
        assert found == {"later": later, "plain": {"plain": 1}, "mode": "plan", "own": False}


class _Theirs:
    def find(self, name: str) -> Any:
        raise AssertionError("only the application calls it")
