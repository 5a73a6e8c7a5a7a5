"""Orchestrators of the community, unmodified: what they store, what they are told meanwhile, what they stream."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from integration.community import community, contents, listen, script, until
from integration.conftest import OpenSession

_OUTPUT = {"stdout": "hi", "rc": 0}
_STORED = {
    "loop-plain": "{'stdout': 'hi', 'rc': 0}",
    "loop-brisk": '{"error": null, "output": {"rc": 0, "stdout": "hi"}, "success": true}',
}


@pytest.mark.exhaustive("brisk")
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
    assert ["orchestrator:steering_injected"] in announced


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
