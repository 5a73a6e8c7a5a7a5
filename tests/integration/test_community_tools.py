"""Tools of the community, unmodified: shared lists, raw mounts, stores, agents, and all that they find at home."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from integration.community import COMMUNITY, community, contents, listen, script
from integration.conftest import OpenSession
from paddock import Session

_PLAIN = community("loop-plain")


async def run(session: Session, tool: str, **input: Any) -> Any:
    """Run one tool from the application and return what it put out."""
    result = await session.coordinator.get("tools", tool).execute(input)
    assert result.success, result.error
    return result.output


def test_a_module_with_a_guarded_kernel_import_is_a_library_without_it(tmp_path: Path) -> None:
    package = COMMUNITY / "amplifier-module-tool-laps"
    code = (
        "import asyncio, sys; sys.path.insert(0, sys.argv[1]);"
        "import amplifier_module_tool_laps as laps; from pathlib import Path;"
        "print(laps.HAS_KERNEL, asyncio.run(laps.NextLap(Path(sys.argv[2]))(track='t')))"
    )
    # Isolated from this run's path, on which the stand-in is.
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(package), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout == "False {'track': 't', 'laps': 1, 'done': False}\n", ran.stderr


async def test_the_logging_hook_writes_events_that_two_tools_announce(
    open_session: OpenSession, tmp_path: Path
) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "soup.md").write_text("boil it")
    log = tmp_path / "log.jsonl"
    async with open_session(
        orchestrator=_PLAIN,
        providers=script([{"load_recipe": {"name": "soup"}}], "{offered}"),
        tools=[community("tool-recipes", config={"dirs": [str(recipes)]}), community("tool-hire")],
        hooks=[community("hooks-fence"), community("hooks-logbook", config={"path": str(log)})],
    ) as session:
        announced = session.coordinator.get_capability("observability.events")
        answer = await session.execute("cook")
        await session.coordinator.hooks.emit("task:agent_resumed", {"agent": "x"})
        await session.coordinator.hooks.emit("workspace_boundary:checked", {"path": "x"})
        stored = await contents(session, "tool")
        session_id = session.session_id
    assert announced == [
        "recipes:discovered",
        "recipe:loaded",
        "task:agent_spawned",
        "task:agent_resumed",
        "task:agent_completed",
    ]
    assert stored == ["boil it"]
    assert answer.startswith("Load one of: soup")
    written = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"session:start", "tool:post", "recipe:loaded", "task:agent_resumed", "workspace_boundary:checked"} <= {
        line["event"] for line in written
    }
    assert {line["session"] for line in written} == {session_id}


class Roles:
    """What an application knows of models and what they are good for."""

    known_roles = ("fast", "coding")


@pytest.mark.parametrize("is_granted", [True, False], ids=["granted", "not granted"])
async def test_a_tool_hands_work_to_an_agent_with_its_very_session_as_the_parent(
    open_session: OpenSession, is_granted: bool
) -> None:
    seen: dict[str, Any] = {}

    async def spawn(**asked: Any) -> dict[str, str]:
        seen.update(asked)
        return {"output": f"{asked['agent_name']} did {asked['instruction']}", "session_id": asked["sub_session_id"]}

    async def resume(sub_session_id: str, instruction: str) -> dict[str, str]:
        return {"output": f"resumed {instruction}", "session_id": sub_session_id}

    grants = {"permissions": {"call": ["spawn", "context"]}} if is_granted else {}
    async with open_session(
        orchestrator=_PLAIN,
        providers=script([{"hire": {"agent": "smith", "instruction": "forge"}}], "{offered}"),
        tools=[community("tool-hire", **grants)],
    ) as session:
        session.coordinator.register_capability("session.spawn", spawn)
        session.coordinator.register_capability("session.resume", resume)
        session.coordinator.register_capability("self_delegation_depth", 2)
        session.coordinator.register_capability("model_role_resolver", Roles())
        session.coordinator.config["agents"] = {"smith": {"description": "works iron"}}
        spawned = listen(session, "task:agent_spawned", "task:agent_completed")
        answer = await session.execute("please")
        [said] = await contents(session, "tool")
        sub_session_id = f"{session.session_id}-0123456789abcdef_smith"
        if not is_granted:
            assert "may not call" in said
            return
        resumed = await run(session, "hire", resume=sub_session_id, instruction="temper")
        assert seen["parent_session"] is session.coordinator.session
        assert seen["agent_configs"] == {"smith": {"description": "works iron"}}
        assert seen["parent_messages"][0] == {"role": "user", "content": "please"}
        assert seen["orchestrator_config"] == session.coordinator.config["session"]
        assert seen["self_delegation_depth"] == 3
        [preference] = seen["provider_preferences"]
        assert (preference.provider, preference.model) == ("brook", "brook-2")
        offered = session.coordinator.get("tools", "hire").input_schema["properties"]
        assert (offered["agent"]["enum"], offered["model_role"]["enum"]) == (["smith"], ["coding", "fast"])
    assert ast.literal_eval(said) == {"response": "smith did forge", "session_id": sub_session_id}
    assert answer == "Hand work to one of these agents:\n- smith: works iron"
    assert [heard.event for heard in spawned] == ["task:agent_spawned", "task:agent_completed"]
    assert resumed == {"output": "resumed temper", "session_id": sub_session_id}


async def test_a_shell_runs_ends_and_leaves_behind_no_more_than_its_session(
    open_session: OpenSession, tmp_path: Path
) -> None:
    grants = {"write": ["."], "run": ["*"]}
    async with open_session(tools=[community("tool-shell", permissions=grants)]) as session:
        tool = session.coordinator.get("tools", "shell")
        said = (await tool.execute({"command": "echo $((6 * 7)); echo no >&2"})).output
        assert said == {"stdout": "42\n", "stderr": "no\n", "returncode": 0}
        overdue = await tool.execute({"command": "sleep 60", "timeout": 0.1})
        assert not overdue.success and overdue.error["returncode"] == -9
        job = await run(session, "shell", background=True, command="while true; do echo x >> jobbeat; sleep 0.02; done")
        assert job["pid"] > 1
        beat = tmp_path / "work" / "jobbeat"
        for size in (0, 10):  # it outlives the call that began it
            await until_larger(beat, size)
    assert not any("jobbeat" in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


async def until_larger(path: Path, size: int) -> None:
    """Wait until a file holds more than so many bytes."""
    with anyio.fail_after(60):
        while not await anyio.Path(path).exists() or (await anyio.Path(path).stat()).st_size <= size:
            await anyio.sleep(0.01)
