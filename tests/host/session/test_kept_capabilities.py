"""What modules offer to the application: who else may call it, by kind of caller and name."""

from __future__ import annotations

import asyncio

import pytest

from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import ASYNC

from ..rpc.scripted_worker import ScriptedWorker
from .conftest import Hosted

_KEPT = ("approval.register_provider", "session.steer", "host.anything")
_ACTORS = ("hook", "orchestrator")


def _number_of_the_capability(worker: ScriptedWorker) -> int:
    """Return the number under which a worker was shown the one object that is offered."""
    (frame,) = [frame for frame in worker.heard(Kind.MIRROR) if frame.method == MirrorSection.CAPABILITY]
    (entry,) = frame.handles
    return entry.id


@pytest.mark.parametrize("comes_later", [False, True])
@pytest.mark.parametrize("name", [*_KEPT, "approval.register_providers", "steer"])
@pytest.mark.parametrize("kind", ["tool", "hook", "provider", "context", "orchestrator"])
async def test_only_what_acts_for_the_session_calls_what_is_the_applications(
    kind: str, name: str, comes_later: bool, hosted: Hosted
) -> None:
    _, owner = await hosted.start("orchestrator", "loop-offering")
    started = None if comes_later else await hosted.start(kind, "module-caller")
    await owner.ask(0, HostMethod.REGISTER_CAPABILITY, owner.function(5, ASYNC), head=name)
    module, caller = started or await hosted.start(kind, "module-caller")
    await caller.round_trip()
    calling = caller.call_object(_number_of_the_capability(caller))
    if kind in _ACTORS or name not in _KEPT:
        request = await owner.request_from_host()
        owner.respond(request.id, "done")
        assert await caller.answer(calling) == "done"
        assert module.denials == ()
        return
    with pytest.raises(RefusedError, match=f"may not call `the capability {name}`: it is for the application"):
        await caller.answer(calling)
    assert [denial.target for denial in module.denials] == [f"the capability {name}"]
    answer = asyncio.ensure_future(hosted.coordinator.get_capability(name)())
    owner.respond((await owner.request_from_host()).id, "called by the application")
    assert await answer == "called by the application"


@pytest.mark.parametrize("permissions", [{"call": ["*"]}, {"call": ["tools", "providers", "context", "spawn"]}])
async def test_a_grant_of_every_call_covers_what_is_kept(permissions: dict[str, list[str]], hosted: Hosted) -> None:
    _, owner = await hosted.start("orchestrator", "loop-offering")
    await owner.ask(0, HostMethod.REGISTER_CAPABILITY, owner.function(5, ASYNC), head="session.steer")
    _, caller = await hosted.start("tool", "tool-caller", permissions=permissions)
    await caller.round_trip()
    calling = caller.call_object(_number_of_the_capability(caller))
    if permissions["call"] == ["*"]:
        owner.respond((await owner.request_from_host()).id)
        assert await caller.answer(calling) is None
        return
    with pytest.raises(RefusedError):
        await caller.answer(calling)


async def test_no_module_keeps_anothers_object_from_those_who_may_call_it(hosted: Hosted) -> None:
    """A tool that offers what is another's under such a name takes nothing from those who were offered it."""
    _, owner = await hosted.start("tool", "tool-owner")
    await owner.ask(0, HostMethod.REGISTER_CAPABILITY, owner.function(5, ASYNC), head="helper")
    _, caller = await hosted.start("tool", "tool-caller")
    await caller.round_trip()
    number = _number_of_the_capability(caller)
    _, taking = await hosted.start("tool", "tool-taking")
    await taking.round_trip()
    theirs = taking.foreign(_number_of_the_capability(taking))
    await taking.ask(0, HostMethod.REGISTER_CAPABILITY, theirs, head="approval.register_provider")
    calling = caller.call_object(number)
    owner.respond((await owner.request_from_host()).id, "still there")
    assert await caller.answer(calling) == "still there"
