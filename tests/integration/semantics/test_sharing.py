"""What the application and modules hand to each other: providers, sessions, factories, and standard output."""

from __future__ import annotations

import inspect
from typing import Any

from integration.semantics.places import COMPANION, OpenPlace, Place, plan_of
from paddock_sdk.contract.interfaces import ApprovalRequest, ApprovalResponse


class Person:
    """An approval provider of the application."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        self.asked.append(request)
        return ApprovalResponse(approved=False, reason="not today")


async def test_the_hook_that_got_an_approval_provider_asks_it(
    open_place: OpenPlace,
) -> None:
    person = Person()
    async with open_place(plan_of(hooks=[COMPANION, {"module": "hooks-gate"}])) as place:
        place.coordinator.session_state["require_approval_tools"] = {"shell"}
        assert await place.run("sharing.guarded") == ["continue", None]
        # A plain function of a module is one that has to be awaited, where the module is elsewhere.
        returned: Any = place.coordinator.get_capability("approval.register_provider")(person)
        assert (await returned if inspect.isawaitable(returned) else returned) is None
        assert await place.run("sharing.guarded") == ["deny", "not today"]
    [request] = person.asked
    assert type(request) is ApprovalRequest
    assert (request.tool_name, request.risk_level, request.timeout) == ("shell", "high", None)


async def test_a_session_that_is_handed_back_to_the_application_is_the_session(open_place: OpenPlace) -> None:
    spawned: list[dict[str, Any]] = []

    async def spawn(**given: Any) -> dict[str, Any]:
        spawned.append(given)
        return {"output": f"helped {given['parent_session'].session_id}", "session_id": given["sub_session_id"]}

    async with open_place() as place:
        place.coordinator.register_capability("session.spawn", spawn)
        assert await place.run("sharing.delegated") == {
            "output": "helped semantics",
            "session_id": "semantics-0123456789abcdef_helper",
        }
        assert spawned[0]["parent_session"] is place.coordinator.session
        assert spawned[0]["agent_configs"] == {"helper": {"tools": []}}


async def test_a_context_asks_the_applications_factory_for_each_request(open_place: OpenPlace) -> None:
    asked: list[int] = []

    async def factory() -> str:
        asked.append(len(asked))
        return f"You are asked for the {len(asked)}. time."

    async with open_place() as place:
        await place.coordinator.get("context").set_system_prompt_factory(factory)
        assert await place.run("sharing.prompted", turns=3) == [f"You are asked for the {n}. time." for n in (1, 2, 3)]


async def test_what_handlers_print_disturbs_no_module(place: Place) -> None:
    assert await place.run("sharing.printed") == [True, ["printer"]]
