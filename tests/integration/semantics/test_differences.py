"""Where the boundary makes a difference, each with its reason; everything else is the same in both places."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from integration.semantics.places import COMPANION, PLAIN, SESSION_ID, OpenPlace, Place, plan_of
from paddock.errors import ModuleLoadError, PlanError


class Difference(NamedTuple):
    """A scenario that comes out differently, and why it has to."""

    scenario: str
    given: dict[str, Any]
    plain: Any
    across: Any
    reason: str


DIFFERENCES = {
    "a contributor that raises CancelledError": Difference(
        "members.cancelled_collection",
        {},
        [1],
        [1, 3],
        "what a module raises must not look like the host's own cancellation, so it is a failure like any other, "
        "and the others are asked",
    ),
    "the tools that another module runs": Difference(
        "cancellation.running_tools_elsewhere",
        {},
        [["1"], ["bash"]],
        [[], []],
        "who runs tools knows them, and so does the application; a notice would wake each module at each call",
    ),
    "another's handler is unregistered by its name": Difference(
        "ownership.unregistered", {}, [], ["guard"], "no module takes away another's guard"
    ),
    "another's tool is unmounted": Difference(
        "ownership.unmounted",
        {},
        [False, []],
        [True, ["shell"]],
        "names are owned, and what is there is shown as being there",
    ),
    "another's context is replaced": Difference(
        "ownership.replaced", {}, "replaced", ["RefusedError", True], "a conversation is its context module's"
    ),
    "who emitted an event": Difference(
        "ownership.emitter",
        {},
        [{"own": 1, "session_id": SESSION_ID, "parent_id": None}, None],
        [{"own": 1, "session_id": SESSION_ID, "parent_id": None}, "loop-scenarios"],
        "handlers may have to know it, and ask with `event_emitter()`; the event's data is what the emitter made it",
    ),
    "a capability that is changed in place": Difference(
        "ownership.changed_in_place",
        {},
        ["offered", "added in place"],
        ["offered"],
        "what is offered is what was registered; those that share a list register it again, as all known modules do",
    ),
    "another's object is offered anew, and taken away": Difference(
        "ownership.offered",
        {},
        ["offered", "offered", False],
        ["ValueError", "ValueError", True],
        "calls of an object are for its owner; `replaces` allows it",
    ),
    "another's object is attached anew": Difference(
        "ownership.attached", {}, True, False, "as with a capability; there is no line to raise at"
    ),
    "None is mounted, by the orchestrator": Difference(
        "mounts.nothing", {}, True, "TypeError", "only a module's own objects can be called where they are"
    ),
    "the session is cleaned up, by the orchestrator": Difference(
        "members.cleaned_up", {}, ["its own"], [], "the host runs every cleanup once, when the session ends"
    ),
    "the count of a turn's injections": Difference(
        "ownership.counter", {}, 100, 0, "the host counts for all modules, and it alone acts on the count"
    ),
}

A_TOOLS_PLACE = {
    # What a tool's module does in a plain process, and what a host makes of it without a grant.
    "set default fields": ("done", "RefusedError", "every module's events would carry them"),
    "reset the token": ("done", "RefusedError", "a tool could undo that the person wants it to stop"),
    "register a handler": ("done", "RefusedError", "a tool would read what others say; a `hooks` grant allows it"),
    "act on a hook's result": ("done", "RefusedError", "a tool could ask the person in a hook's name"),
    "emit another kind's event": ("unheard", "unheard", "it is dropped, and answered as if no handler objected"),
    "take another's tool name": ("done", "ValueError", "names are owned; `replaces` allows it"),
    "mount a resolver": ("done", "RefusedError", "a resolver decides which code is trusted"),
    "become the model": ("done", "RefusedError", "it sees every message; a `mount` grant allows it"),
    "mount plain data": ("done", "TypeError", "only a module's own objects can be called where they are"),
    "offer a capability of the session": ("done", "RefusedError", "names that begin with `session.` are the host's"),
    "take another's capability": ("done", "ValueError", "what is said to it is its owner's; `replaces` allows it"),
    "change what the application wrote": ("changed", "kept", "guards go by it; `replaces` allows it"),
    "cancel the turn": ("done", "RefusedError", "that is for the person, the orchestrator and hooks"),
    "trigger the callbacks of a cancellation": ("done", "RefusedError", "nothing was cancelled"),
    "read the context": ("done", "RefusedError", "a conversation belongs to no tool; a `call` grant allows it"),
    "clean the session up": ("done", "done", "the host runs every cleanup once, when the session ends"),
}


@pytest.mark.parametrize("case", DIFFERENCES)
async def test_the_boundary_makes_this_difference(place: Place, case: str) -> None:
    difference = DIFFERENCES[case]
    outcome = await place.run(difference.scenario, **difference.given)
    assert outcome == (difference.plain if place.name == PLAIN else difference.across), difference.reason


@pytest.mark.difference("a hook that does not load stops the start")
async def test_a_hook_that_does_not_load_is_left_out_in_a_plain_process_alone(
    place: Place, open_place: OpenPlace
) -> None:
    """It may be what guards the session; `on_failure: continue` says that it is not."""
    deaf = {"module": "hooks-scripted", "config": {"label": "hooks", "fails": "deaf"}}
    if place.name == PLAIN:
        async with open_place(plan_of(hooks=[COMPANION, deaf])):
            return
    with pytest.raises(ModuleLoadError, match="deaf") as failed:
        async with open_place(plan_of(hooks=[COMPANION, deaf])):
            pass
    assert any("on_failure: continue" in hint for hint in failed.value.hints)


@pytest.mark.difference("two modules of a plan that mount one name stop the start")
async def test_two_modules_that_mount_one_name_start_in_a_plain_process_alone(
    place: Place, open_place: OpenPlace
) -> None:
    """The plan does not say which of the two others mean; `replaces` says that it is the second."""
    tools = [
        {"module": f"tool-{name}", "config": {"label": name, "mounts": ["same"]}} for name in ("scripted", "second")
    ]
    if place.name == PLAIN:
        async with open_place(plan_of(tools=tools)):
            return
    with pytest.raises(PlanError, match=r"tool-second.*tool-scripted"):
        async with open_place(plan_of(tools=tools)):
            pass


@pytest.fixture(scope="module")
async def place_with_a_tool(open_place: OpenPlace, anyio_backend: str) -> AsyncIterator[Place]:
    plan = plan_of(tools=[{"module": "tool-companion"}])
    async with open_place(plan) as place:
        await place.coordinator.get_capability("companion").mount_tool("shell", "another's")
        place.coordinator.session_state["guarded"] = "kept"
        yield place


@pytest.mark.parametrize("act", A_TOOLS_PLACE)
async def test_a_tool_keeps_to_its_place_where_a_host_can_see_to_it(place_with_a_tool: Place, act: str) -> None:
    plain, across, reason = A_TOOLS_PLACE[act]
    outcome = await place_with_a_tool.run("authority.as_a_tool", act=act)
    assert outcome == (plain if place_with_a_tool.name == PLAIN else across), reason


@pytest.mark.difference("what a module cancelled is over with its turn")
async def test_a_turn_that_a_module_cancelled_is_the_only_one(place: Place) -> None:
    """A plain process leaves it to the application to reset the token, which has to know that a module asked."""
    found = [await place.run("ownership.cancelled") for _ in range(2)]
    place.coordinator.cancellation.reset()
    assert found == ["none", "graceful" if place.name == PLAIN else "none"]
    place.coordinator.cancellation.request_graceful()
    found = [await place.run("ownership.cancelled") for _ in range(2)]
    place.coordinator.cancellation.reset()
    assert found == ["graceful", "graceful"], "the application's own wish, everywhere"
