"""What sessions leave in the audit log, and what becomes of one whose log, which a policy may require, fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import paddock
from integration.conftest import OpenSession, write_plan
from integration.probe import entry_of, tool_code
from paddock import PaddockError, Policy
from paddock.audit import audit_path
from paddock.audit_reading import Chain, audit_lines

_TRYING = tool_code(
    "try",
    """
    open(input["file"], input["mode"]).close()
    return ToolResult(output="opened")
    """,
)


def _call(file: Path, mode: str) -> dict[str, object]:
    return {"tool_calls": [{"name": "try", "arguments": {"file": str(file), "mode": mode}}]}


def _facts() -> list[dict[str, Any]]:
    return [dict(line.facts or {}) for line in audit_lines(audit_path())]


@pytest.mark.parametrize("required", [False, True])
async def test_a_log_that_fails_in_a_turn_ends_it_where_it_is_required(
    required: bool, tmp_path: Path, open_session: OpenSession
) -> None:
    answers = ["one", _call(Path("/etc/hostname"), "r"), _call(tmp_path / "opened", "w"), "four", "five"]
    async with open_session(
        orchestrator={"module": "loop-basic", "permissions": {}},
        providers=[{"module": "provider-mock", "config": {"responses": answers}, "permissions": {}}],
        tools=[entry_of("tool-try", _TRYING)],
        policy=Policy.parse(f"[audit]\nrequired = {str(required).lower()}"),
    ) as session:
        assert await session.execute("first") == "one"
        audit_path().rename(audit_path().with_name("gone"))
        audit_path().mkdir()
        if required:
            for _ in range(2):
                with pytest.raises(PaddockError, match="nothing runs here without an audit log") as refused:
                    await session.execute("second")
                assert "directory" in refused.value.detail[0]
        else:
            assert await session.execute("second") == "four"
            assert await session.execute("third") == "five"
    assert (tmp_path / "opened").exists() is not required


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize("required", [False, True])
def test_nothing_starts_without_a_log_that_is_required(required: bool, tmp_path: Path) -> None:
    write_plan()
    config = Path(os.environ["HOME"], ".config/paddock")
    config.mkdir(parents=True)
    (config / "policy.toml").write_text(f"[audit]\nrequired = {str(required).lower()}\n")
    audit_path().mkdir(parents=True)
    commands = [["call", "builtin:tool-todo", "todo", '{"action": "list"}'], ["run", "plan.yaml", "hello"]]
    for command in commands if required else commands[:1]:
        done = paddock(*command, "--json")
        facts = json.loads(done.stdout)
        told = facts["error"]["type"] if facts["error"] else ""
        assert (done.returncode, told) == ((1, "AuditError") if required else (0, "")), done.stderr
        assert "the audit log cannot be written" in done.stderr
    assert ("nothing starts or goes on where the audit log" in paddock("policy", "show").stdout) is required


@pytest.mark.usefixtures("in_tmp_path")
def test_lines_of_sessions_and_calls_are_one_chain_and_say_whose_they_are(tmp_path: Path) -> None:
    write_plan("{module: tool-todo, limits: {memory_max: 128M}}")
    assert paddock("run", "plan.yaml", "hello").returncode == 0
    assert paddock("call", "builtin:tool-todo", "todo", '{"action": "list"}').returncode == 0
    lines = _facts()
    chain = Chain.of(audit_lines(audit_path()))
    assert (chain.lines, chain.before, chain.wrong) == (len(lines), 0, "")
    started, called = [line for line in lines if line["event"] == "session.started"]
    assert started["folder"] == called["folder"] == str(tmp_path.resolve()) and called["tool"] == "todo"
    for one in (started, called):
        of_it = [line for line in lines if line["session"] == one["session"]]
        assert [line["seq"] for line in of_it] == list(range(1, len(of_it) + 1))
        assert {(line["uid"], line["pid"]) for line in of_it} == {(os.geteuid(), one["pid"])}
    limits = [
        line["limits"] for line in lines if (line["event"], line.get("module")) == ("module.started", "tool-todo")
    ]
    assert [one["memory_max"] for one in limits] == [128 << 20, 256 << 20]
    assert [line["calls"] > 0 for line in lines if line["event"] == "module.ended"] == [True] * 5
