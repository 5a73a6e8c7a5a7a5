"""Modules that stall, flood or overload the host pay for it themselves; the calls of a bystander go on."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from integration.conftest import OpenSession
from integration.probe import entry_of, probe, tool_code
from paddock import Session

_BYSTANDER = tool_code(
    "bystander",
    """
    state = coordinator.session_state
    for number in range(input.get("writes", 0)):
        state["notes"] = {"number": number, "much": "x" * input["size"]}
        await coordinator.hooks.emit("artifact:write", {"number": number})
    return ToolResult(output=input.get("writes", 0))
    """,
)

_BLOCKER = """
    import time
    if "path" in input:
        open(input["path"] + ".begun", "w").close()
        while not os.path.exists(input["path"]):
            time.sleep(0.01)
    state = coordinator.session_state
    while "path" in input and state.get("notes", {}).get("number") != input["last"]:
        await asyncio.sleep(0.01)
    return ToolResult(output=state.get("notes", {}).get("number"))
"""

_SLOW_HOOK = """
    import time
    from amplifier_core.models import HookResult

    async def mount(coordinator, config):
        heard = []

        async def hear(event, data):
            time.sleep(config["seconds"])
            heard.append(data["number"])
            return HookResult()

        coordinator.hooks.register("artifact:write", hear)
"""


_PRINTER = tool_code(
    "printer",
    """
    import sys
    line = "x" * 79 + "\\n"
    block = line * 4096
    for _ in range(input["mebibytes"] * (1 << 20) // len(block)):
        sys.stderr.write(block)
    sys.stderr.write("the last line\\n")
    sys.stderr.flush()
    return ToolResult(output="printed")
    """,
)


async def _asked(session: Session, tool: str, **input: Any) -> Any:
    return (await session.coordinator.get("tools")[tool].execute(input)).output


def _ended(session: Session) -> dict[str, list[str]]:
    return {m.module: [r.describe() for r in m.exit_reports] for m in session.modules if m.exit_reports}


async def test_a_blocked_module_gets_the_last_state_and_delays_no_writer(
    open_session: OpenSession, tmp_path: Any
) -> None:
    tools = [entry_of("tool-bystander", _BYSTANDER), probe(_BLOCKER, "blocker")]
    gate = tmp_path / "gate"
    async with open_session(tools=tools) as session:
        blocked = asyncio.ensure_future(_asked(session, "blocker", path=str(gate), last=19))
        while not (tmp_path / "gate.begun").exists():
            await asyncio.sleep(0.01)
        for _ in range(8):
            assert await _asked(session, "bystander", writes=20, size=1 << 20) == 20
        gate.touch()
        assert await blocked == 19
        assert _ended(session) == {}


async def test_a_hook_that_takes_long_over_each_of_many_events_is_not_ended(open_session: OpenSession) -> None:
    hook = entry_of("hooks-slow", _SLOW_HOOK, config={"seconds": 0.005}, limits={"runtime_max": "1s"})
    tools = [entry_of("tool-bystander", _BYSTANDER)]
    async with open_session(hooks=[hook], tools=tools) as session:
        hooks = session.coordinator.hooks
        events = [hooks.emit("artifact:write", {"number": number}) for number in range(600)]
        results = asyncio.gather(*events)
        assert await _asked(session, "bystander", writes=3, size=1) == 3
        assert not results.done(), "the bystander had its turn before all of the others"
        assert {result.action for result in await results} == {"continue"}
        assert _ended(session) == {}


async def test_what_is_printed_beyond_a_rate_is_dropped_and_counted(open_session: OpenSession) -> None:
    lines: list[str] = []
    tools = [entry_of("tool-printer", _PRINTER), entry_of("tool-bystander", _BYSTANDER)]
    begun = time.monotonic()
    async with open_session(tools=tools, on_output=lambda module, line: lines.append(line.text)) as session:
        printing = asyncio.ensure_future(_asked(session, "printer", mebibytes=64))
        assert await _asked(session, "bystander") == 0
        assert await printing == "printed"
        assert _ended(session) == {}
    seconds = time.monotonic() - begun
    assert sum(len(line) + 1 for line in lines) < (16 + seconds) * (1 << 20), (
        "what may be printed at once and over time"
    )
    assert any("left out" in line for line in lines), "how much was dropped is said"
