"""A single tool call through the API: what its outcome tells, and that nothing is left when it is cancelled."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from integration.conftest import WriteModule
from integration.probe import tool_code
from paddock.session.tool_call import ToolCallOutcome, ToolCallSession

_STAGES = """
    import asyncio, sys

    from amplifier_core.models import ToolResult

    async def reach(stage, config):
        print(stage, flush=True)
        if config.get("stay_at") == stage:
            await asyncio.sleep(3600)

    class Stages:
        name = "stages"
        description = "tells how far it got"

        def __init__(self, coordinator, config):
            self.coordinator, self.config = coordinator, config

        async def execute(self, input):
            await reach("execute", self.config)
            c = self.coordinator
            return ToolResult(output=[c.session_id, c.parent_id, c.get_capability("session.working_dir"), c.config])

    async def mount(coordinator, config):
        await reach("mount", config)
        await coordinator.mount("tools", Stages(coordinator, config))
        return lambda: print("cleaned up", flush=True)

    async def on_session_ready(coordinator):
        print("ready", flush=True)
        raise ValueError("not that ready")
"""


@pytest.fixture
def stages(write_module: WriteModule) -> str:
    return write_module("tool-stages", _STAGES)


async def _called(source: str, folder: Path) -> tuple[ToolCallOutcome, list[str]]:
    """Return the outcome of a call of the tool, and what its module printed."""
    said: list[str] = []
    call = ToolCallSession(
        source, "stages", {}, working_dir=folder, on_output=lambda name, line: said.append(line.text)
    )
    return await call.run(), said


async def test_a_called_tool_lives_as_in_a_session(stages: str, tmp_path: Path) -> None:
    outcome, said = await _called(stages, tmp_path)
    session_id, *rest = outcome.result.output or []
    assert isinstance(session_id, str) and rest == [None, str(tmp_path), {"session": {}}]
    assert said == ["mount", "ready", "execute", "cleaned up"]
    assert (outcome.level, outcome.exit_reports, outcome.error) == ("ns", (), None)


async def test_a_plain_on_session_ready_is_not_called_and_the_module_log_says_so(
    write_module: WriteModule, tmp_path: Path
) -> None:
    code = _STAGES.replace("async def on_session_ready", "def on_session_ready")
    outcome, said = await _called(write_module("tool-stages", code), tmp_path)
    assert outcome.result.success and "ready" not in said
    (warning,) = [line for line in said if line.startswith("WARNING")]
    assert warning.endswith(
        "on_session_ready in amplifier_module_tool_stages is not asynchronous and will not be called"
    )


_TALKER = tool_code(
    "talk",
    """
    for _ in range(3000):
        print("x" * 1000)
    print("the end", end="", flush=True)
    return ToolResult(output="said")
    """,
)


async def test_an_output_callback_that_raises_breaks_no_module(
    write_module: WriteModule, caplog: pytest.LogCaptureFixture
) -> None:
    lines = 0

    def fail(name: str, line: object) -> None:
        nonlocal lines
        lines += 1
        raise RuntimeError("this screen is full")

    with anyio.fail_after(120):
        outcome = await ToolCallSession(write_module("tool-talk", _TALKER), "talk", {}, on_output=fail).run()
    assert (outcome.result.output, outcome.exit_reports, outcome.error) == ("said", (), None)
    assert lines > 2
    (logged,) = [one for one in caplog.records if "on_output" in one.message]
    assert "tool-talk" in logged.message and "this screen is full" in str(logged.exc_info)


async def test_a_tool_that_is_not_there_is_told_with_those_that_are(stages: str) -> None:
    outcome = await ToolCallSession(stages, "stage", {}).run()
    assert outcome.error.code == "ToolMissingError"
    assert outcome.error.detail == ("it mounted: stages",)
    assert not outcome.result.success


@pytest.mark.parametrize("stage", ["mount", "execute"])
async def test_a_call_that_is_cancelled_leaves_nothing(stages: str, stage: str) -> None:
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        call = ToolCallSession(
            stages,
            "stages",
            {},
            config={"stay_at": stage},
            on_output=lambda name, line: scope.cancel() if line.text == stage else None,
        )
        await call.run()
    assert scope.cancelled_caught


async def test_an_input_that_cannot_be_sent_fails_the_call(stages: str) -> None:
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    outcome = await ToolCallSession(stages, "stages", {"deep": deep}).run()
    assert not outcome.result.success
    assert "cannot be sent" in (outcome.result.error or {})["message"]


@pytest.mark.parametrize(
    ("folder", "entry_points", "module"),
    [
        ("amplifier-module-tool-one", {}, "tool-one"),
        ("any name", {"tool-two": "amplifier_module_tool_one:mount"}, "tool-two"),
        ("tool-three", {"hooks-x": "x:mount", "tool-two": "amplifier_module_tool_one:mount"}, "tool-two"),
        ("any name", {}, "tool-one"),
    ],
)
async def test_a_folders_module_is_called_as_its_entry_point_or_name_says(
    tmp_path: Path, folder: str, entry_points: dict[str, str], module: str
) -> None:
    root = tmp_path / folder
    (root / "amplifier_module_tool_one").mkdir(parents=True)
    (root / "amplifier_module_tool_one" / "__init__.py").write_text("raise ValueError", encoding="utf-8")
    lines = "".join(f'{name} = "{target}"\n' for name, target in entry_points.items())
    (root / "pyproject.toml").write_text(f'[project.entry-points."amplifier.modules"]\n{lines}', encoding="utf-8")
    outcome = await ToolCallSession(str(root), "x", {}).run()
    assert f"module `{module}` cannot be imported" in str(outcome.error)
