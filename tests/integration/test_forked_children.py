"""A child that a tool forks has no part in the tool's answers: it ends where it comes back, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.probe import entry_of, probed, tool_code
from paddock_sandbox.profile import IsolationLevel

_FORKER = tool_code(
    "fork",
    """
    def forked(act):
        child = os.fork()
        return act() if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def fail():
        raise LookupError("of the child")

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
                    await coordinator.collect_contributions("forker")
                except Exception as error:
                    os.write(writing, f"{type(error).__name__}: {error}".encode())
                os._exit(0)
            os.close(writing)
            with open(reading) as told:
                return ToolResult(output=told.read())
        case "ends":
            status = forked(lambda: os._exit(3))
    return ToolResult(output=status)
    """,
)


async def _outputs(open_session: OpenSession, level: IsolationLevel, *acts: str) -> tuple[list[Any], str]:
    """Return what the tool answered to each call, in one life of its module, and what that printed."""
    printed: list[str] = []
    async with open_session(
        tools=[entry_of("tool-forker", _FORKER)],
        isolation=level,
        on_output=lambda name, line: printed.append(line.text),
    ) as session:
        outputs = [await probed(session, "fork", child=act) for act in acts]
    return outputs, "\n".join(printed)


@pytest.mark.exhaustive("awaits", "raises")
@pytest.mark.parametrize("act", ["returns", "raises", "returns in a thread", "awaits"])
async def test_a_forked_child_that_comes_back_ends_and_says_so(
    act: str, open_session: OpenSession, a_level: IsolationLevel
) -> None:
    statuses, printed = await _outputs(open_session, a_level, act, act)
    assert statuses == [1, 1]
    assert printed.count("which this module forked, came back") == 2
    assert ("LookupError: of the child" in printed) is (act == "raises")


async def test_a_forked_child_cannot_call_the_host_and_may_end_itself(
    open_session: OpenSession, a_level: IsolationLevel
) -> None:
    outputs, printed = await _outputs(open_session, a_level, "calls the host", "ends")
    assert outputs == ["ModuleGoneError: this process was forked by the module; only its parent can call the host", 3]
    assert "came back" not in printed
