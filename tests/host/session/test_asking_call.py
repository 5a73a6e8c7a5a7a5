"""The application's call in whose service a module asks a person, as an approval system reads it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import paddock
from paddock.rpc.asking_call import AskingCall, asking_call
from paddock_sdk.protocol.methods import HostMethod

from .conftest import Hosted, mounts, tool

_client: ContextVar[str] = ContextVar("client")
_QUESTION = ["Go on?", ["Allow", "Deny"], 5.0, "deny"]


class Person:
    """An approval system that keeps the call behind each question, and says yes."""

    def __init__(self) -> None:
        self.asked: list[AskingCall | None] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.asked.append(paddock.asking_call())
        return "Allow"

    def told(self) -> list[tuple[str, str, str] | None]:
        return [None if one is None else (one.session_id, one.name, one.context[_client]) for one in self.asked]


async def test_two_calls_of_a_tool_are_told_apart_by_their_contexts(hosted: Hosted) -> None:
    person = hosted.coordinator.approval_system = Person()
    _, worker = await hosted.start("tool", "tool-x", tool("look"))
    stand_in = hosted.coordinator.get("tools", "look")

    async def call(client: str) -> Any:
        _client.set(client)
        return await stand_in.execute({})

    calls = [asyncio.ensure_future(call(client)) for client in ("ada", "bob")]
    requests = [await worker.request_from_host() for _ in calls]
    for request in reversed(requests):
        assert await worker.ask(0, HostMethod.REQUEST_APPROVAL, _QUESTION, parent=request.id) == "Allow"
        worker.respond(request.id, None)
    await asyncio.gather(*calls)
    assert person.told() == [("the-session", "look", "bob"), ("the-session", "look", "ada")]
    assert len({one.id for one in person.asked if one}) == 2
    assert asking_call() is None


async def test_a_hook_of_a_turn_asks_in_the_service_of_that_turn(hosted: Hosted) -> None:
    person = hosted.coordinator.approval_system = Person()
    _client.set("ada")
    run = mounts("orchestrator", None, lambda worker: worker.own(5, {"execute": 0}))
    _, loop = await hosted.start("orchestrator", "loop-x", run)
    _, hook = await hosted.start("hook", "hooks-x")
    await hook.ask(0, HostMethod.REGISTER, ["tool:pre", 0, "guard", hook.function(5)])
    turn = asyncio.ensure_future(hosted.coordinator.get("orchestrator").execute("go"))
    request = await loop.request_from_host()
    emitted = loop.request(0, HostMethod.EMIT, ["tool:pre", {}], parent=request.id)
    event = await hook.request_from_host()
    assert await hook.ask(0, HostMethod.REQUEST_APPROVAL, _QUESTION, parent=event.id) == "Allow"
    hook.respond(event.id, None)
    await loop.answer(emitted)
    loop.respond(request.id, "done")
    await turn
    assert person.told() == [("the-session", "execute", "ada")]


async def test_a_hook_that_the_application_asks_names_the_event(hosted: Hosted) -> None:
    person = hosted.coordinator.approval_system = Person()
    _client.set("ada")
    _, hook = await hosted.start("hook", "hooks-x")
    await hook.ask(0, HostMethod.REGISTER, ["tool:pre", 0, "guard", hook.function(5)])
    emitted = asyncio.ensure_future(hosted.coordinator.hooks.emit("tool:pre", {"tool_name": "look"}))
    event = await hook.request_from_host()
    await hook.ask(0, HostMethod.REQUEST_APPROVAL, _QUESTION, parent=event.id)
    hook.respond(event.id, None)
    await emitted
    assert person.told() == [("the-session", "hook tool:pre", "ada")]


async def test_a_module_that_asks_of_its_own_accord_serves_no_call(hosted: Hosted) -> None:
    person = hosted.coordinator.approval_system = Person()
    _, hook = await hosted.start("hook", "hooks-x")
    await hook.ask(0, HostMethod.REQUEST_APPROVAL, _QUESTION)
    assert person.told() == [None]


async def test_an_event_says_which_call_it_belongs_to(hosted: Hosted) -> None:
    heard: list[Any] = []
    hosted.coordinator.hooks.register("tool:progress", lambda event, data: heard.append(asking_call()))
    _client.set("ada")
    _, worker = await hosted.start("tool", "tool-x", tool("look"), permissions={"emit": ["tool:progress"]})
    call = asyncio.ensure_future(hosted.coordinator.get("tools", "look").execute({}))
    request = await worker.request_from_host()
    await worker.ask(0, HostMethod.EMIT, ["tool:progress", {}], parent=request.id)
    worker.respond(request.id, None)
    await call
    (asking,) = heard
    assert (asking.name, asking.context[_client]) == ("look", "ada")
