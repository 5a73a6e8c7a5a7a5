"""What modules compute of themselves is asked for anew when it may have changed, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.rpc import object_limits
from paddock.session.module import HostedModule
from paddock.session.state import mirrors
from paddock.session.state.mirrors import describe_anew
from paddock_sdk.protocol import Flag, Frame, HandleEntry, HandleSide, Kind
from paddock_sdk.protocol.description import Description, Member, encode_description
from paddock_sdk.protocol.methods import HostMethod, MirrorSection, WorkerMethod
from support.scripted_end import ASYNC, SYNC, Lent

from ..rpc.scripted_worker import ScriptedWorker
from .conftest import Hosted, Mount, changes, mounts, tool


def _described(worker: ScriptedWorker, said: str) -> bytes:
    members = (Member("execute", ASYNC), Member("tell", SYNC))
    attributes = {"name": "agents", "description": said}
    return encode_description(
        Description("Tool", members, attributes, properties=frozenset({"description"})), worker.codec
    )


def _computing(id: int = 5) -> Mount:
    return mounts(
        "tools",
        "agents",
        lambda worker: Lent(HandleEntry(HandleSide.SENDER, id, _described(worker, "before"))),
    )


async def _asked(worker: ScriptedWorker) -> Frame:
    request = await worker.request_from_host()
    assert (request.target, request.method) == (0, WorkerMethod.DESCRIBE_ANEW)
    return request


async def test_a_provider_request_follows_the_tools_new_descriptions(hosted: Hosted) -> None:
    _, agents = await hosted.start("tool", "tool-agents", _computing())
    _, loop = await hosted.start("orchestrator", "loop-first")
    heard: list[Any] = []
    hosted.coordinator.hooks.register("provider:request", lambda event, data: heard.append(data["iteration"]))
    hosted.coordinator.config["agents"] = {"writer": {}}  # as the application does, and tells nobody
    loop.frames.clear()
    emitted = loop.request(0, HostMethod.EMIT, ["provider:request", {"iteration": 1}])
    request = await _asked(agents)
    assert changes(agents, MirrorSection.SESSION)[-1]["config"]["agents"] == {"writer": {}}
    assert heard == []
    agents.notify(HostMethod.DESCRIBE, [5, _described(agents, "writer")])
    agents.respond(request.id)
    await loop.answer(emitted)
    assert heard == [1]
    assert changes(loop, MirrorSection.DATA) == [[{"description": "writer"}, []]]
    assert hosted.coordinator.get("tools", "agents").description == "writer"
    await loop.ask(0, HostMethod.EMIT, ["provider:request", {"iteration": 2}])
    assert not agents.heard(Kind.REQUEST), "nothing has changed since"


@pytest.mark.parametrize("change", ["state", "attribute", "capability", "own state"])
async def test_any_change_that_could_matter_counts_also_the_modules_own(change: str, hosted: Hosted) -> None:
    _, agents = await hosted.start("tool", "tool-agents", _computing())
    _, other = await hosted.start("tool", "tool-other", tool("other"))
    who = agents if change == "own state" else other
    if change == "attribute":
        who.notify(HostMethod.SET_ATTRIBUTE, 1, head="note")
    elif change == "capability":
        await who.ask(0, HostMethod.REGISTER_CAPABILITY, 1, head="note")
    else:
        who.notify(HostMethod.PATCH_STATE, [[["goal"], [1]]])
    await who.round_trip()
    asking = asyncio.ensure_future(describe_anew(hosted.host_calls, hosted.mirrors))
    agents.respond((await _asked(agents)).id)
    await asking
    assert not other.heard(Kind.REQUEST), "what has no properties is not asked"


async def test_a_worker_that_does_not_answer_delays_no_other(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "_DESCRIPTION_SECONDS", 0.05)
    module, agents = await hosted.start("tool", "tool-agents", _computing())

    async def change_and_ask() -> None:
        hosted.coordinator.session_state["n"] = hosted.coordinator.session_state.get("n", 0) + 1
        hosted.coordinator.tell_state_changes()
        await describe_anew(hosted.host_calls, hosted.mirrors)

    await change_and_ask()
    assert (await agents.take(Kind.CANCEL)).id == (await _asked(agents)).id

    done = asyncio.Event()
    hosted.coordinator.register_contributor("slow", "application", done.wait)
    standing = agents.request(0, HostMethod.COLLECT_CONTRIBUTIONS, ["slow"], flags=Flag.BLOCKED)
    await agents.round_trip()
    await change_and_ask()
    assert not agents.heard(Kind.REQUEST), "it stands still, and is asked when it does not"
    done.set()
    await agents.answer(standing)
    asking = asyncio.ensure_future(describe_anew(hosted.host_calls, hosted.mirrors))
    request = await _asked(agents)
    agents.fail(request.id, RuntimeError("not today"))
    await asking

    _end(module)
    await change_and_ask()


def _end(module: HostedModule) -> None:
    module.supervisor.die()  # type: ignore[attr-defined]


async def test_too_large_objects_are_not_described_anew_and_end_no_module(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others write into a module's objects may be what makes them large."""
    monkeypatch.setattr(object_limits, "_MAX_DESCRIBED", 10_000)
    module, worker = await hosted.start("tool", "tool-growing", _computing())
    worker.notify(HostMethod.DESCRIBE, [5, _described(worker, "x" * 20_000)])
    await worker.tell(HostMethod.DESCRIBE, [5, _described(worker, "small")])
    assert hosted.coordinator.get("tools", "agents").description == "small"
    assert [(denial.operation, denial.target) for denial in module.denials] == [("describe", "objects")]
    assert not module.reports
