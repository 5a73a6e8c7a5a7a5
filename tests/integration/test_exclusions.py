"""What a person excludes from a granted folder is there and cannot be opened; a preset excludes secret files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from integration.command_line import paddock, require_level
from integration.conftest import OpenSession
from integration.probe import entry_of, tool_code
from paddock_sandbox.profile import IsolationLevel

_SECONDS = 60  # for what is awaited; hit only by a hang
_LOOKER = tool_code(
    "look",
    """
    path = input["path"]
    acts = {
        "read": lambda: open(path).read(),
        "write": lambda: open(path, "a").write("x"),
        "chmod": lambda: os.chmod(path, 0o600),
        "remove": lambda: os.remove(path),
        "move": lambda: os.rename(path, path + ".moved"),
        "move its folder": lambda: os.rename(os.path.dirname(path), os.path.dirname(path) + ".moved"),
        "replace": lambda: (open(path + ".new", "w").close(), os.rename(path + ".new", path)),
        "link": lambda: os.link(path, path + ".link"),
        "list": lambda: sorted(os.listdir(path)),
        "read by the root": lambda: open("/proc/self/root" + path).read(),
    }
    try:
        return ToolResult(output=acts[input["act"]]())
    except OSError as error:
        return ToolResult(output=error.strerror)
    """,
)
_DENIED = "Permission denied"


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, timeout=100)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    (work / "part" / "keys").mkdir(parents=True)
    for name in (".env", "part/.env", "part/keys/one", "readme"):
        (work / name).write_text("KEY=secret")
    return work


@pytest.mark.parametrize("name", ["ns", "bwrap"])
async def test_an_excluded_file_is_there_and_nothing_opens_it(
    name: IsolationLevel, project: Path, open_session: OpenSession
) -> None:
    tool = entry_of("tool-look", _LOOKER, permissions={"read": ["!.env", "!./part/keys"], "write": ["."]})
    async with open_session(tools=[tool], isolation=require_level(name)) as session:
        look = session.coordinator.get("tools", "look").execute

        async def does(act: str, name: str) -> object:
            return (await look({"act": act, "path": str(project / name)})).output

        assert await does("read", "readme") == "KEY=secret"
        outcomes = {
            act: await does(act, "part/.env") for act in ("read", "read by the root", "write", "chmod", "remove")
        }
        outcomes |= {act: await does(act, "part/.env") for act in ("move", "move its folder", "replace", "link")}
        assert outcomes == {
            **dict.fromkeys(("read", "read by the root", "write"), _DENIED),
            "chmod": "Read-only file system",
            **dict.fromkeys(("remove", "move", "move its folder", "replace"), "Device or resource busy"),
            "link": "Invalid cross-device link",
        }
        assert await does("list", "part") == [".env", ".env.new", "keys"]
        assert [await does("read", "part/keys/one"), await does("list", "part/keys")] == [_DENIED, _DENIED]
        new = project / "saved by an editor"
        new.write_text("KEY=another")
        os.replace(new, project / ".env")
        with anyio.fail_after(_SECONDS):
            while not any(line.startswith(f"{project}/.env was replaced") for line in session.changes):
                await anyio.sleep(0.01)
        assert await does("read", ".env") == _DENIED
        assert (project / ".env").read_text() == "KEY=another"


def _call(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Read `.env` by the shipped tool, with options of the call."""
    order = ("call", "builtin:tool-filesystem", "read_file", json.dumps({"file_path": ".env"}))
    return paddock(*order, *options, "--json", cwd=project)


def test_the_line_of_a_refusal_opens_the_excluded_file(project: Path) -> None:
    refused = _call(project, "--allow-read=.", "--deny-read=@secrets,./part")
    assert refused.returncode == 1 and f"`{project}/.env` is excluded from what it may read" in refused.stderr
    added = refused.stderr.partition("to allow it, add ")[2].splitlines()[0]
    assert added == "--allow-read=./.env"
    given = ("--allow-read=.", "--deny-read=@secrets,./part")
    assert "KEY=secret" in _call(project, *given, *added.split()).stdout
    (project / "part/.env").unlink()
    alone = _call(project, "--allow-read=.", "--deny-read=.env")
    added = alone.stderr.partition("to allow it, add ")[2].splitlines()[0]
    assert "KEY=secret" in _call(project, "--allow-read=.", "--deny-read=.env", added).stdout


def test_why_names_the_line_that_opens_an_excluded_file_and_then_the_grant(project: Path) -> None:
    def why(permissions: str) -> dict[str, Any]:
        (project / "plan.yaml").write_text(
            "session: {orchestrator: loop-basic, context: context-simple}\n"
            f"tools: [{{module: tool-filesystem, permissions: {permissions}}}]\n"
        )
        words = ("why", "tool-filesystem", "read", ".env", "--plan", "plan.yaml", "--json")
        answer: dict[str, Any] = json.loads(paddock(*words, cwd=project).stdout)
        return answer

    refused = why("workspace")
    assert not refused["allowed"] and "is excluded from what it may read" in refused["reason"]
    opened = why(refused["grant"].removeprefix("permissions: "))
    assert (opened["allowed"], opened["granted_by"]) == (True, "read: ./.env")
    assert why("{preset: workspace, write: [.env]}")["granted_by"] == "write: .env"


def test_without_mounts_nothing_is_excluded_and_that_is_said(project: Path) -> None:
    level = f"--isolation={require_level('landlock')}"
    refused = _call(project, "--allow-read=.", "--deny-read=.env", level)
    assert "cannot be enforced at isolation level `landlock`" in refused.stderr
    assert "run the module at isolation level `ns` or `bwrap`" in refused.stderr
    told = _call(project, "--allow-read=.", "--deny-read=@secrets", level)
    assert "KEY=secret" in told.stdout
    assert f"{project}/.env and 1 more can be read: your secret files are not excluded at level landlock" in told.stderr


def test_programs_work_around_an_excluded_file(project: Path) -> None:
    _git(project, "init", "-q")
    (project / ".gitignore").write_text(".env\n")
    command = "git status --short; git add . && git add -f .env; git diff --no-index /dev/null .env; grep -rl KEY ."
    order = ("call", "builtin:tool-bash", "bash", json.dumps({"command": command}))
    grants = ("--allow-read=.", "--allow-write=.,./.git", "--allow-run=*", "--deny-read=@secrets")
    done = json.loads(paddock(*order, *grants, "--json", cwd=project).stdout)
    said = done["output"] or done["error"]
    assert "?? readme" in said["stdout"] and "./readme" in said["stdout"] and "secret" not in str(said)
    assert said["stderr"].count(_DENIED) >= 3
    assert ".env" not in subprocess.check_output(["git", "-C", str(project), "ls-files"], text=True).split()
