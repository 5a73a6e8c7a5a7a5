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


@pytest.mark.exhaustive
async def test_a_reminder_hook_reads_the_checklist_on_the_coordinator(open_session: OpenSession) -> None:
    steps = (
        [{"checklist": {"action": "write", "items": [{"text": "look"}, {"text": "leap"}]}}],
        [{"checklist": {"action": "tick", "index": 0}}],
        "{messages}",
    )
    async with open_session(
        orchestrator=_PLAIN,
        providers=script(*steps),
        tools=[community("tool-checklist")],
        hooks=[community("hooks-nudge"), community("hooks-ticker")],
    ) as session:
        answer = await session.execute("go")
        on_the_host: Any = session.coordinator
        assert on_the_host.todo_state == [{"status": "done", "text": "look"}, {"status": "open", "text": "leap"}]
        stored = await contents(session, "user")
    assert answer.endswith("Your checklist:\n[x] look\n[ ] leap")
    assert stored == ["go"]  # the reminder was for the one request


async def test_a_mention_is_resolved_by_the_application_where_the_tool_stands(
    open_session: OpenSession, tmp_path: Path
) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "one.md").write_text("first things first")

    class Resolver:
        def resolve(self, mention: str) -> Path | None:
            return {"@handbook": folder, "@one": folder / "one.md"}.get(mention)

    async with open_session(tools=[community("tool-mentions")]) as session:
        session.coordinator.register_capability("mention_resolver", Resolver())
        read = listen(session, "artifact:read")
        (tmp_path / "work" / "here.txt").write_text("here")
        assert await run(session, "peek", path="@handbook") == {"entries": ["one.md"]}
        assert await run(session, "peek", path="@one") == {"text": "first things first"}
        assert await run(session, "peek", path="here.txt") == {"text": "here"}
        unknown = await session.coordinator.get("tools", "peek").execute({"path": "@nothing"})
    assert not unknown.success and unknown.error == {"message": "nobody knows @nothing"}
    assert [heard.data["path"] for heard in read] == [str(folder / "one.md"), str(tmp_path / "work" / "here.txt")]


@pytest.mark.exhaustive
async def test_a_hook_uses_a_store_that_tools_share(open_session: OpenSession, tmp_path: Path) -> None:
    notebook = community("tool-notebook", config={"storage_path": str(tmp_path / "notebook.db")})
    async with open_session(
        orchestrator=_PLAIN,
        providers=script("{messages}"),
        tools=[notebook],
        hooks=[community("hooks-recall")],
    ) as session:
        first = await run(session, "add_note", text="tea at four", tags=["daily"])
        await run(session, "add_note", text="tea is green")
        await run(session, "add_note", text="coffee is out")
        answer = await session.execute("tea when")
        counted = await run(session, "count_notes")
        recalled = await run(session, "find_notes", word="recalled")
    assert first == {"id": 1, "text": "tea at four", "tags": ["daily"]}
    assert answer.endswith("2 of 4: tea at four / tea is green")
    assert counted == 4
    assert recalled == [{"id": 4, "text": "recalled for: tea when", "tags": ["recalled"]}]


@pytest.mark.exhaustive
async def test_a_module_of_four_tools_mounts_all_of_them(open_session: OpenSession, tmp_path: Path) -> None:
    async with open_session(tools=[community("tool-laps")]) as session:
        tools = session.coordinator.get("tools")
        assert list(tools) == ["start_laps", "next_lap", "show_laps", "end_laps"]
        await run(session, "start_laps", track="river")
        await run(session, "next_lap", track="river")
        assert await tools["next_lap"](track="river") == {"track": "river", "laps": 2, "done": False}
        assert await run(session, "end_laps", track="river") == {"track": "river", "laps": 2, "done": True}
    kept = tmp_path / "work" / "data" / "river.json"
    assert json.loads(kept.read_text()) == {"laps": 2, "done": True}


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


@pytest.mark.exhaustive
async def test_terminal_output_of_a_tool_arrives_as_lines(
    open_session: OpenSession,
) -> None:
    printed: list[Any] = []
    async with open_session(tools=[community("tool-banner")], on_output=lambda *line: printed.append(line)) as session:
        for text in ("one", "two"):
            assert await run(session, "banner", text=text) == "painted"
    said = "\n".join(str(line) for line in printed)
    assert "banner is mounted" in said and "== one ==" in said and "== two ==" in said
    assert "no newline at its end" in said


@pytest.mark.exhaustive
async def test_a_tool_finds_the_call_it_is_part_of_under_the_task_that_runs_it(open_session: OpenSession) -> None:
    async with open_session(
        orchestrator=community("loop-brisk", config={"whole": True}),
        providers=script([{"callsign": {"wait": 0.05}}, {"callsign": {"wait": 0}}], "done"),
        tools=[community("tool-callsign")],
    ) as session:
        assert await session.execute("go") == "done"
        said = [json.loads(content)["output"] for content in await contents(session, "tool")]
    assert said == [
        {"parallel_group_id": "g0", "tool_call_id": "call-1"},
        {"parallel_group_id": "g0", "tool_call_id": "call-2"},
    ]


@pytest.mark.exhaustive
async def test_objects_made_while_mounting_live_on_the_running_loop(open_session: OpenSession, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    async with open_session(tools=[community("tool-courier", config={"closed": str(closed)})]) as session:
        assert await run(session, "post", parcel="book") == "1: book"
        assert await run(session, "post", parcel="lamp") == "2: lamp"
        assert not closed.exists()
    assert closed.read_text() == "closed"


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
