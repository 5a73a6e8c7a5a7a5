"""Where the boundary makes a difference, each with its reason; everything else is the same in both places."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from amplifier_core import HookResult

from integration.semantics.places import COMPANION, PLAIN, SESSION_ID, OpenPlace, Place, plan_of
from paddock.errors import ModuleLoadError, PlanError
from support.rows import each_row


class Difference(NamedTuple):
    """A scenario that comes out differently, and why it has to."""

    scenario: str
    given: dict[str, Any]
    plain: Any
    across: Any
    in_the_published: str
    under_paddock: str
    reason: str


DIFFERENCES = {
    # By what a module does.
    "raises CancelledError in a contributor": Difference(
        "members.cancelled_collection",
        {},
        [1],
        [1, 3],
        "the collection ends with what it has",
        "it fails like any contributor that raises, and the others are asked",
        "what a module raises must not look like a cancellation by the host",
    ),
    "reads which tools another module runs, from the cancellation token": Difference(
        "cancellation.running_tools_elsewhere",
        {},
        [["1"], ["bash"]],
        [[], []],
        "the token lists them",
        "the token lists the module's own tools only",
        "that module and the application know them; to inform all modules would wake each one at each call",
    ),
    "unregisters another module's handler by its name": Difference(
        "ownership.unregistered",
        {},
        [],
        ["guard"],
        "the handler is gone",
        "the handler stays",
        "no module takes away another's guard",
    ),
    "unmounts another module's tool": Difference(
        "ownership.unmounted",
        {},
        [False, []],
        [True, ["shell"]],
        "the tool is gone",
        "the tool stays",
        "a name belongs to the module that mounted it",
    ),
    "mounts a context in the place of another module's": Difference(
        "ownership.replaced",
        {},
        "replaced",
        ["RefusedError", True],
        "it replaces that context",
        "`mount` raises RefusedError",
        "a conversation belongs to its context module",
    ),
    "asks in a handler which module emitted the event": Difference(
        "ownership.emitter",
        {},
        [{"own": 1, "session_id": SESSION_ID, "parent_id": None}, None],
        [{"own": 1, "session_id": SESSION_ID, "parent_id": None}, "loop-scenarios"],
        "nothing says it",
        "`event_emitter()` says it",
        "a handler may have to know it; the event's data stays as the emitter made it",
    ),
    "changes a list in place that it registered as a capability": Difference(
        "ownership.changed_in_place",
        {},
        ["offered", "added in place"],
        ["offered"],
        "others see the change",
        "others see the list as it was registered",
        "data is copied when it is registered; known modules that share a list register it again after each change, so"
        " they work",
    ),
    "puts an object into `session_state`": Difference(
        "ownership.put_into_state",
        {},
        [True, True, "list"],
        [True, True, "RefusedError"],
        "the others call the object",
        "others call it where their entry has `call: [state:KEY]`; plain data, sets and bytes are shared",
        "a call of an object runs with its owner's grants, so the plan says who may make it",
    ),
    "registers an object or None as a capability where another module's object is": Difference(
        "ownership.offered",
        {},
        ["offered", "offered", False],
        ["ValueError", "ValueError", True],
        "it replaces that object",
        "`register_capability` raises ValueError",
        "calls of an object are for its owner; `replaces` allows it",
    ),
    "sets an attribute of the coordinator where another module's object is": Difference(
        "ownership.attached",
        {},
        True,
        False,
        "it replaces that object",
        "that object stays, and a denial says so",
        "calls of an object are for its owner; an assignment is not answered, so it cannot raise",
    ),
    "is the orchestrator, and mounts None at `tools`": Difference(
        "mounts.nothing",
        {},
        True,
        "TypeError",
        "None is mounted",
        "`mount` raises TypeError",
        "what is mounted is called in its own module, and None cannot be called",
    ),
    "is the orchestrator, and calls `cleanup()`": Difference(
        "members.cleaned_up",
        {},
        ["its own"],
        [],
        "the cleanup functions run",
        "none runs yet",
        "the host runs each of them once, when the session ends",
    ),
    "reads how much hooks injected in the turn": Difference(
        "ownership.counter",
        {},
        100,
        0,
        "the count goes up",
        "the count stays 0",
        "the host counts for all modules, and it alone acts on the count",
    ),
}

A_TOOLS_PLACE = {
    # By what a tool's module tries: the outcome in a plain process, that under a host without a grant, the reason.
    "set default fields": ("done", "RefusedError", "every module's events would carry them"),
    "reset the cancellation token": ("done", "RefusedError", "a tool could undo that the person wants it to stop"),
    "register a handler": ("done", "RefusedError", "a tool would read what others say; a `hooks` grant allows it"),
    "have the session carry out a `HookResult` of its own": (
        "done",
        "RefusedError",
        "a tool could ask the person in a hook's name",
    ),
    "emit another kind's event": ("heard", "unheard", "a tool could speak as another kind; an `emit` grant allows it"),
    "mount a tool under another's name": (
        "done",
        "ValueError",
        "a name belongs to the module that mounted it; `replaces` allows it",
    ),
    "mount a resolver": ("done", "RefusedError", "a resolver decides which code is trusted"),
    "mount a provider": ("done", "RefusedError", "a provider sees every message; a `mount` grant allows it"),
    "mount plain data": ("done", "TypeError", "what is mounted is called in its own module, and data cannot be called"),
    "register a capability named `session.…`": (
        "done",
        "RefusedError",
        "names that begin with `session.` are the host's",
    ),
    "register another's capability": ("done", "ValueError", "calls of it are for its owner; `replaces` allows it"),
    "change what the application wrote": ("changed", "kept", "guards go by it; `replaces` allows it"),
    "cancel the turn": ("done", "RefusedError", "that is for the person, the orchestrator and hooks"),
    "trigger the callbacks of a cancellation": (
        "done",
        "RefusedError",
        "they belong to a cancellation, which a tool may not request",
    ),
    "read the context": ("done", "RefusedError", "a conversation belongs to no tool; a `call` grant allows it"),
    "clean the session up": ("done", "left", "the host runs each cleanup function once, when the session ends"),
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


async def _mark_as_heard(event: str, data: dict[str, Any]) -> HookResult:
    return HookResult(action="modify", data={**data, "heard": "heard"})


@pytest.fixture(scope="module")
async def place_with_a_tool(open_place: OpenPlace, anyio_backend: str) -> AsyncIterator[Place]:
    plan = plan_of(tools=[{"module": "tool-companion"}])
    async with open_place(plan) as place:
        await place.coordinator.get_capability("companion").mount_tool("shell", "another's")
        place.coordinator.session_state["guarded"] = "kept"
        place.coordinator.hooks.register("plan:end", _mark_as_heard)
        yield place


@each_row("act", A_TOOLS_PLACE)
async def test_a_tool_keeps_to_its_place_where_a_host_can_see_to_it(place_with_a_tool: Place, act: str) -> None:
    plain, across, reason = A_TOOLS_PLACE[act]
    outcome = await place_with_a_tool.run("authority.as_a_tool", act=act)
    assert outcome == (plain if place_with_a_tool.name == PLAIN else across), reason


@pytest.mark.difference("a cancellation by a module ends with the turn")
async def test_a_turn_that_a_module_cancelled_is_the_only_one(place: Place) -> None:
    """A plain process leaves it to the application to reset the token, which has to know that a module asked."""
    found = [await place.run("ownership.cancelled") for _ in range(2)]
    place.coordinator.cancellation.reset()
    assert found == ["none", "graceful" if place.name == PLAIN else "none"]
    place.coordinator.cancellation.request_graceful()
    found = [await place.run("ownership.cancelled") for _ in range(2)]
    place.coordinator.cancellation.reset()
    assert found == ["graceful", "graceful"], "the application's own wish, everywhere"
