"""How sub-sessions end: cancelled, left, killed or failed, and what is left of them."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from integration.agents import OpenAgentSession, audited, mark_entry, until, workers
from integration.conftest import WriteModule
from integration.session_internals import call_after_goodbye
from paddock import PaddockError
from paddock.session import shutdown as ending
from paddock.session import spawning as sub_sessions
from paddock.session.hosted_session import HostedSession
from paddock_sdk.contract.models import HookResult
from support.examples import repeating

_STUBBORN = """
    import asyncio

    async def never():
        while True:
            try:
                await asyncio.sleep(1000)
            except BaseException:
                pass

    class Stubborn:
        name = "stubborn"
        description = "does not end by itself, nor when it is asked to"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            await self.coordinator.hooks.emit("stubborn:here", {})
            await never()

    async def mount(coordinator, config):
        if coordinator.parent_id:
            coordinator.register_cleanup(never)
        await coordinator.mount("tools", Stubborn(coordinator))
"""

_SLOW = """
    import asyncio

    class Slow:
        \"\"\"Announces that it is read, and does not answer if that is denied.\"\"\"

        def __init__(self, hooks):
            self.messages = []
            self.hooks = hooks

        async def add_message(self, message):
            self.messages.append(message)

        async def get_messages(self):
            if (await self.hooks.emit("slow:read", {})).action == "deny":
                await asyncio.Event().wait()
            return list(self.messages)

        get_messages_for_request = get_messages

        async def set_messages(self, messages):
            self.messages = list(messages)

        async def clear(self):
            self.messages = []

    async def mount(coordinator, config):
        await coordinator.mount("context", Slow(coordinator.hooks))
"""


async def test_cancelling_the_session_reaches_its_sub_sessions(open_family: OpenAgentSession) -> None:
    async with open_family() as family:

        async def cancel(event: str, data: dict[str, Any]) -> None:
            family.session.cancel()

        family.session.coordinator.hooks.register("orders:waiting", cancel)
        result = await family.spawn("helper", "wait")
        assert (result["output"], result["status"]) == ("stopped", "cancelled")


async def test_a_caller_that_waits_no_longer_or_dies_ends_the_sub_session(
    open_family: OpenAgentSession, tmp_path: Path
) -> None:
    mark = tmp_path / "waiting"
    async with open_family() as family:

        async def note(event: str, data: dict[str, Any]) -> None:
            mark.touch()

        family.session.coordinator.hooks.register("orders:waiting", note)
        await family.spawn()
        before = workers()
        assert await family.refused("helper", "wait", until=str(mark)) == "no longer waited for"
        await until(lambda: workers() == before)
        mark.unlink()
        answer = await family.call("doomed", until=str(mark))
        assert answer["error"]["type"] == "ModuleDiedError"
        await until(lambda: workers() < before)  # those of the sub-session, and of the tool
        assert (await family.spawn())["status"] == "success"


async def test_leaving_the_session_ends_what_runs_below_it(open_family: OpenAgentSession) -> None:
    outcome: list[str] = []
    others = set(psutil.Process().children(recursive=True))
    with anyio.fail_after(60):
        async with open_family() as family, anyio.create_task_group() as turns:
            waiting = anyio.Event()

            async def note(event: str, data: dict[str, Any]) -> None:
                waiting.set()

            async def turn() -> None:
                try:
                    outcome.append(await family.refused("helper", "wait"))
                except (PaddockError, RuntimeError) as error:  # the side that ends first raises it
                    outcome.append(str(error))

            family.session.coordinator.hooks.register("orders:waiting", note)
            turns.start_soon(turn)
            await waiting.wait()
            await family.session.cleanup()
    assert len(outcome) == 1
    assert not set(psutil.Process().children(recursive=True)) - others


@pytest.mark.exhaustive
async def test_a_turn_cancelled_while_its_messages_are_read_can_be_resumed(
    open_family: OpenAgentSession, write_module: WriteModule
) -> None:
    slow = {"session": {"context": {"module": "context-slow", "source": write_module("context-slow", _SLOW)}}}
    async with open_family({"slow": slow}) as family:
        session = family.session
        turns: list[asyncio.Task[Any]] = []

        async def give_up(event: str, data: dict[str, Any]) -> HookResult:
            if not turns:
                return HookResult()
            turns.pop().cancel()
            return HookResult(action="deny")

        session.coordinator.hooks.register("slow:read", give_up)
        spawn, resume = map(session.coordinator.get_capability, ("session.spawn", "session.resume"))
        for instruction in ("one", "fail"):
            turn = asyncio.ensure_future(spawn("slow", instruction, sub_session_id=instruction))
            turns.append(turn)
            with pytest.raises(asyncio.CancelledError):
                await turn
            again = await resume(instruction, "see")
            assert json.loads(again["output"])["messages"] == [instruction, "see"]


@pytest.mark.parametrize("stage", ("ending", *repeating("announced")))
async def test_a_turn_that_is_cancelled_when_it_is_over_still_ends_in_order(
    stage: str, open_family: OpenAgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    async with open_family() as family:
        session = family.session

        async def give_up() -> None:
            asked.cancel()
            for _ in range(20):  # turns of the loop, in which it reaches the sub-session
                await asyncio.sleep(0)

        async def hear_first(event: str, data: dict[str, Any]) -> None:
            heard.append("first")
            if stage == "announced" and not asked.cancelling():
                await give_up()

        async def hear_last(event: str, data: dict[str, Any]) -> None:
            heard.append("last")

        async def give_up_then(module: str) -> None:
            if stage == "ending" and module == "loop-orders" and not asked.cancelling():
                await give_up()

        spawn = session.coordinator.get_capability("session.spawn")
        await spawn("helper", "one")
        session.coordinator.hooks.register("session:end", hear_first, priority=-1)
        session.coordinator.hooks.register("session:end", hear_last, priority=1000)
        before = workers()
        call_after_goodbye(monkeypatch, give_up_then)
        asked = asyncio.ensure_future(spawn("helper", "one"))
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert heard == ["first", "last"]
        assert workers() == before


async def test_stubborn_sub_sessions_share_one_deadline(
    open_family: OpenAgentSession, write_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sub_sessions, "_ENDING_SECONDS", 0.5)
    monkeypatch.setattr(ending, "_HURRIED", 100.0)
    started, bye = tmp_path / "started", tmp_path / "bye"
    stubborn = {"module": "tool-stubborn", "source": write_module("tool-stubborn", _STUBBORN)}
    mark = mark_entry(write_module, log=str(started), bye=str(bye))
    orders = json.dumps({"tool": "stubborn", "input": {}})
    for _ in range(2):
        orders = json.dumps({"tool": "task", "input": {"agent_name": "self", "instruction": orders}})
    async with open_family(tools=[stubborn, mark]) as family, anyio.create_task_group() as turns:

        async def turn() -> None:
            with suppress(PaddockError, RuntimeError):  # the side that ends first raises it
                await family.session.execute(orders)

        async def note(event: str, data: dict[str, Any]) -> None:
            deepest.set()

        deepest = anyio.Event()
        family.session.coordinator.hooks.register("stubborn:here", note)
        turns.start_soon(turn)
        await deepest.wait()
        with anyio.fail_after(60):  # each of the two takes more than that by itself
            await family.session.cleanup()
    assert len(bye.read_text().splitlines()) == 3
    assert sorted(bye.read_text().splitlines()) == sorted(started.read_text().splitlines())


async def test_a_failed_sub_session_is_an_error_and_can_be_resumed(open_family: OpenAgentSession) -> None:
    async with open_family() as family:
        for instruction, said in (("die", "loop-orders"), ("fail", "no such thing")):
            assert said in await family.refused("helper", instruction, sub_session_id=instruction)
            answer = await family.resume(instruction, "see")
            assert json.loads(answer["output"]["output"])["messages"] == ["be kind", instruction, "see"]


async def test_a_sub_session_leaves_only_its_words_and_audit_lines(
    open_family: OpenAgentSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    made: list[weakref.ref[HostedSession]] = []
    make = HostedSession.__init__

    def note(self: HostedSession, *args: Any, **options: Any) -> None:
        made.append(weakref.ref(self))
        make(self, *args, **options)

    monkeypatch.setattr(HostedSession, "__init__", note)
    async with open_family() as family:
        result = await family.spawn()
        gc.collect()
        assert [one() is None for one in made] == [False, True]  # of it only what was said is left in memory
        id = family.session.session_id
    ours = [
        line for line in audited(tmp_path) if line["session"] == id and line.get("sub_session") == result["session_id"]
    ]
    events = [line["event"] for line in ours]
    assert events[0] == "sub_session.started" and events[-1] == "sub_session.ended"
    assert {line["module"] for line in ours if line["event"] == "module.started"} == {
        "loop-orders",
        "context-simple",
        "tool-task",
    }
    assert ours[0]["agent"] == "helper" and ours[0]["parent"] == id
