"""Orchestrators of the community, unmodified: what they store, what they are told meanwhile, what they stream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from integration.community import community, contents, listen, script, until
from integration.conftest import OpenSession

_OUTPUT = {"stdout": "hi", "rc": 0}
_STORED = {
    "loop-plain": "{'stdout': 'hi', 'rc': 0}",
    "loop-brisk": '{"error": null, "output": {"rc": 0, "stdout": "hi"}, "success": true}',
    "loop-herald": '{"stdout": "hi", "rc": 0}',
}


@pytest.mark.exhaustive("herald", "brisk")
@pytest.mark.parametrize("loop", _STORED)
async def test_each_loop_stores_a_tools_result_as_in_one_process(open_session: OpenSession, loop: str) -> None:
    calls = [{"answer": {"output": _OUTPUT}}], [{"answer": {"fail": "no luck"}}]
    async with open_session(
        orchestrator=community(loop), providers=script(*calls, "done", *calls), tools=[community("tool-answers")]
    ) as session:
        assert await session.execute("go") == "done"
        heard = listen(session, "tool:post")
        assert await session.execute("go") == "done"
        first, failed, second, failed_again = await contents(session, "tool")
    assert first == second == _STORED[loop]
    assert "no luck" in failed and "no luck" in failed_again
    assert len(heard) == 2


@pytest.mark.exhaustive("from the loop")
@pytest.mark.parametrize("from_a_thread", [False, True], ids=["from the loop", "from a thread"])
async def test_an_orchestrator_is_steered_by_the_application_while_it_runs(
    open_session: OpenSession, from_a_thread: bool
) -> None:
    async with open_session(orchestrator=community("loop-brisk"), providers=script("{messages}")) as session:
        steer = session.coordinator.get_capability("session.steer")
        waiting = listen(session, "orchestrator:waiting")
        injected = listen(session, "orchestrator:steering_injected")
        turn = asyncio.create_task(session.execute("wait to be steered"))
        await until(waiting)
        if from_a_thread:
            await anyio.to_thread.run_sync(steer, "turn left")
        else:
            steer("turn left")
        answer = await turn
        announced = await session.coordinator.collect_contributions("observability.events")
    assert answer == "wait to be steered | turn left"
    assert injected[0].data["message"] == "turn left"
    assert ["orchestrator:steering_injected", "orchestrator:goal_progress"] in announced


async def test_a_loop_and_a_hook_share_a_goal_in_session_state(
    open_session: OpenSession,
) -> None:
    steps = [{"answer": {}}], [{"answer": {}}], "reached"
    async with open_session(
        orchestrator=community("loop-brisk"),
        providers=script(*steps),
        tools=[community("tool-answers")],
        hooks=[community("hooks-progress")],
    ) as session:
        session.coordinator.session_state["goal"] = {"turns_used": 0, "log": [], "name": "shore"}
        progress = listen(session, "orchestrator:goal_progress")
        seen = listen(session, "progress:seen")
        assert await session.execute("go") == "reached"
        goal = session.coordinator.session_state["goal"]
    assert goal == {"turns_used": 3, "log": [{"turn": 0}, {"turn": 1}, {"turn": 2}], "name": "shore", "seen": 3}
    assert [event.data["seen"] for event in progress] == [0, 1, 2]
    assert [(event.data["turns_used"], len(event.data["log"])) for event in seen] == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.exhaustive
async def test_a_stream_is_shown_word_by_word_and_may_be_left_early(open_session: OpenSession) -> None:
    brook = community("provider-brook", config={"words": ["over", "the", "stones"]})
    endless = community("provider-brook", config={"words": ["on"] * 5000})
    async with open_session(orchestrator=community("loop-brisk"), providers=[brook]) as session:
        deltas = listen(session, "content_block:delta")
        assert await session.execute("go") == "over the stones"
        provider = session.coordinator.get("providers", "brook")
        assert provider.last_model == "brook-1"
    assert [(event.data["index"], event.data["delta"]) for event in deltas] == [
        (0, "over "),
        (1, "the "),
        (2, "stones "),
    ]
    async with open_session(
        orchestrator=community("loop-brisk", config={"stop_after": 2}), providers=[endless]
    ) as session:
        deltas = listen(session, "content_block:delta")
        assert await session.execute("go") == "on on"
        provider = session.coordinator.get("providers", "brook")
        with anyio.fail_after(60):
            while provider.streams_closed == 0:  # its owner sees the end as an early close
                await provider.list_models()
    assert len(deltas) == 2


@pytest.mark.exhaustive("False")
@pytest.mark.parametrize("silent", [False, True])
async def test_a_loop_that_takes_any_stream_for_its_own_has_shipped_answers(
    open_session: OpenSession, silent: bool
) -> None:
    responses = [{"text": "Next.", "tool_calls": [{"name": "answer", "arguments": {"output": "x"}}]}, "over the stones"]
    async with open_session(
        orchestrator=community("loop-current", config={"silent": silent}),
        providers=[{"module": "provider-mock", "config": {"responses": responses, "deltas": True}}],
        tools=[community("tool-answers")],
    ) as session:
        pieces = listen(session, "llm:stream_block_delta")
        assert await session.execute("go") == "over the stones"
        assert await contents(session, "tool") == ["x"]
    assert [event.data["text"] for event in pieces] == ["Next.", "over", " the", " stones"]


@pytest.mark.exhaustive
async def test_tools_handed_to_a_stream_show_what_is_said_on_their_class(open_session: OpenSession) -> None:
    async with open_session(
        orchestrator=community("loop-brisk", config={"offer": True}),
        providers=[community("provider-brook", config={"words": []})],
        tools=[community("tool-answers")],
    ) as session:
        assert await session.execute("go") == "answer apply_patch"


@pytest.mark.exhaustive
async def test_calls_that_only_their_provider_can_read_out_of_a_response_are_run(open_session: OpenSession) -> None:
    brook = community("provider-brook", config={"words": ["!answer", "yes"]})
    async with open_session(
        orchestrator=community("loop-brisk", config={"max_iterations": 1}),
        providers=[brook],
        tools=[community("tool-answers")],
    ) as session:
        await session.execute("go")
        assert await contents(session, "tool") == ['{"error": null, "output": "yes", "success": true}']


@dataclass
class Choice:
    """A model that suits a role."""

    provider: str
    model: str
    config: dict[str, Any] = field(default_factory=dict)


@pytest.mark.exhaustive
async def test_a_loop_has_a_role_resolved_by_an_object_of_the_application(open_session: OpenSession) -> None:
    class Matrix:
        name = "matrix"
        known_roles = ("fast",)

        async def resolve(self, role: str) -> list[Choice]:
            return [Choice("absent", "m"), Choice("brook", f"brook-{role}")]

    async with open_session(
        orchestrator=community("loop-brisk", config={"role": "fast"}),
        providers=[*script("terse"), community("provider-brook")],
    ) as session:
        session.coordinator.register_capability("model_role_resolver", Matrix())
        assert await session.execute("go") == "over the stones"
        assert session.coordinator.get("providers", "brook").last_model == "brook-fast"


@pytest.mark.exhaustive
async def test_an_older_loop_opens_and_closes_the_session_itself(
    open_session: OpenSession,
) -> None:
    diary = community("context-diary", config={"compact_at": 2})
    async with open_session(
        orchestrator=community("loop-herald"),
        providers=script([{"patch": {"output": "text"}}], "{messages}"),
        tools=[community("tool-answers")],
        context=diary,
    ) as session:
        events = listen(session, "session:start", "session:end", "tool:selecting", "tool:selected")
        answer = await session.execute("go")
    assert answer == " | text"  # the diary kept the last two
    assert [(event.event, "prompt" in event.data) for event in events] == [
        ("session:start", False),
        ("session:start", True),
        ("tool:selecting", False),
        ("tool:selected", False),
        ("session:end", True),
        ("session:end", False),
    ]
    assert events[2].data["available"] == ["answer", "patch"]


@pytest.mark.exhaustive
async def test_an_older_loop_fails_on_contexts_that_cannot_compact(open_session: OpenSession) -> None:
    async with open_session(
        orchestrator=community("loop-herald"),
        providers=script([{"answer": {}}]),
        tools=[community("tool-answers")],
        context=community("context-briefing"),
    ) as session:
        failed = listen(session, "error:tool")
        with pytest.raises(AttributeError, match="should_compact"):
            await session.execute("go")
    assert failed[0].data["type"] == "AttributeError"


@pytest.mark.exhaustive
async def test_a_loop_sees_a_cancellation_between_tools(open_session: OpenSession) -> None:
    called: list[str] = []
    async with open_session(
        orchestrator=community("loop-plain"),
        providers=script([{"answer": {}}], [{"answer": {}}]),
        tools=[community("tool-answers")],
    ) as session:
        running: list[list[str]] = []

        async def cancel(event: str, data: dict[str, Any]) -> None:
            running.append(session.coordinator.cancellation.running_tool_names)
            session.cancel()

        session.coordinator.hooks.register("tool:pre", cancel)
        session.coordinator.cancellation.on_cancel(lambda: called.append("called"))
        events = listen(session, "cancel:requested", "cancel:completed", "orchestrator:complete")
        await session.execute("go")
        said = await contents(session, "tool")
    assert len(said) == 1 and called == ["called"]
    assert [event.event for event in events][:3] == ["cancel:requested", "cancel:completed", "orchestrator:complete"]
    assert events[0].data["state"] == "graceful"
    assert events[2].data["status"] == "cancelled"
