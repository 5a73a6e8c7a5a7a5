"""A child that a tool forks has no part in the tool's answers: it ends where it comes back, and says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.conftest import OpenSession, WriteModule
from paddock_sandbox.profile import IsolationLevel

_FORKER = """
    import asyncio
    import os

    from amplifier_core import ToolResult

    def forked(act):
        child = os.fork()
        return act() if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def fail():
        raise LookupError("of the child")

    class Forker:
        name = "fork"
        description = "forks a child that does something"
        input_schema = {"type": "object"}

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            match input["child"]:
                case "returns":
                    status = forked(lambda: "of the child")
                case "raises":
                    status = forked(fail)
                case "returns in a thread":
                    status = await asyncio.to_thread(forked, lambda: "of the child")
                case "awaits":
                    status = forked(lambda: None)
                    await asyncio.sleep(0 if status is None else 0.01)
                case "calls the host":
                    reading, writing = os.pipe()
                    child = os.fork()
                    if child == 0:
                        try:
                            await self.coordinator.collect_contributions("forker")
                        except Exception as error:
                            os.write(writing, f"{type(error).__name__}: {error}".encode())
                        os._exit(0)
                    os.close(writing)
                    with open(reading) as told:
                        return ToolResult(output=told.read())
                case "ends":
                    status = forked(lambda: os._exit(3))
            return ToolResult(output=status)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Forker(coordinator))
"""


async def _outputs(open_session: OpenSession, level: IsolationLevel, source: str, *acts: str) -> tuple[list[Any], str]:
    """Return what the tool answered to each call, in one life of its module, and what that printed."""
    printed: list[str] = []
    async with open_session(
        tools=[{"module": "tool-forker", "source": source}],
        isolation=level,
        on_output=lambda name, line: printed.append(line.text),
    ) as session:
        answers = [
            json.loads(await session.execute(json.dumps({"tool": "fork", "input": {"child": act}}))) for act in acts
        ]
    assert [answer["error"] for answer in answers] == [None] * len(acts)
    return [answer["output"] for answer in answers], "\n".join(printed)


@pytest.mark.exhaustive("awaits", "raises")
@pytest.mark.parametrize("act", ["returns", "raises", "returns in a thread", "awaits"])
async def test_a_forked_child_that_comes_back_ends_and_says_so(
    act: str, open_session: OpenSession, write_module: WriteModule, a_level: IsolationLevel
) -> None:
    statuses, printed = await _outputs(open_session, a_level, write_module("tool-forker", _FORKER), act, act)
    assert statuses == [1, 1]
    assert printed.count("which this module forked, came back") == 2
    assert ("LookupError: of the child" in printed) is (act == "raises")


async def test_a_forked_child_cannot_call_the_host_and_may_end_itself(
    open_session: OpenSession, write_module: WriteModule, a_level: IsolationLevel
) -> None:
    source = write_module("tool-forker", _FORKER)
    outputs, printed = await _outputs(open_session, a_level, source, "calls the host", "ends")
    assert outputs == ["ModuleGoneError: this process was forked by the module; only its parent can call the host", 3]
    assert "came back" not in printed
