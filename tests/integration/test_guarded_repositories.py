"""What other programs run by themselves stays as it is in a granted folder, git's first; what is beside it is open."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from integration.conftest import OpenSession, WriteModule
from paddock import Session

_SECONDS = 60  # for what is awaited; hit only by a hang

_WRITER = """
    import os
    from amplifier_core.models import ToolResult

    class Write:
        name = "write"
        description = "makes and moves folders, appends to files, and tells what came of each"

        async def execute(self, input):
            told = {}
            for path in input.get("plant", []):
                os.makedirs(path)
            for path, target in input.get("move", {}).items():
                os.renames(path, target)
            for path in input["paths"]:
                try:
                    with open(path, "a") as file:
                        file.write("# changed")
                    told[path] = "written"
                except OSError as error:
                    told[path] = error.strerror
            return ToolResult(output=told)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Write())
"""


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, timeout=60, capture_output=True)


async def _written(
    open_session: OpenSession, write_module: WriteModule, work: Path, paths: list[Path]
) -> dict[str, str]:
    """Have a tool that may write in `work` write to each of the paths, and return what came of each."""
    entry = {
        "module": "tool-write",
        "source": write_module("tool-write", _WRITER),
        "permissions": {"write": [str(work)]},
    }
    async with open_session(tools=[entry]) as session:
        result = await session.coordinator.get("tools", "write").execute({"paths": [str(path) for path in paths]})
    told: dict[str, str] = result.output
    return told


async def test_deep_and_unusual_repositories_are_guarded(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    work = tmp_path / "work"
    deep, unusual = work / "a/b/c/d/e", work / "p"
    for repository in (deep, unusual):
        repository.mkdir(parents=True)
        _git("init", "-q", str(repository))
    (unusual / "tools/hooks").mkdir(parents=True)
    (unusual / "tools/hooks/pre-commit").write_text("#!/bin/sh\n")
    (unusual / "tools/build").write_text("#!/bin/sh\n")
    (work / "more.cfg").write_text("")
    _git("-C", str(unusual), "config", "core.hooksPath", "tools/hooks")
    _git("-C", str(unusual), "config", "include.path", "../../more.cfg")
    kept = [deep / ".git/config", deep / ".git/hooks/pre-commit", unusual / "tools/hooks/pre-commit", work / "more.cfg"]
    kept += [deep / ".git/description", deep / ".git/index"]
    open_to_it = [deep / "file", unusual / "tools/build", work / "other.cfg"]
    told = await _written(open_session, write_module, work, [*kept, *open_to_it])
    assert {told[str(path)] for path in kept} == {"Read-only file system"}, json.dumps(told)
    assert {told[str(path)] for path in open_to_it} == {"written"}, json.dumps(told)


async def test_a_fake_git_folder_hides_no_repository(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    projects = tmp_path / "work" / "projects"
    app = projects / "app"
    app.mkdir(parents=True)
    _git("init", "-q", str(app))
    kept = [app / ".git/config", app / ".git/hooks/pre-commit"]
    entry = {
        "module": "tool-write",
        "source": write_module("tool-write", _WRITER),
        "permissions": {"write": [str(projects.parent)]},
    }
    for planted in (["HEAD", "objects", "refs"], []):  # not what git takes for its own, with a folder for a head
        async with open_session(tools=[entry]) as session:
            result = await session.coordinator.get("tools", "write").execute(
                {"plant": [str(projects / name) for name in planted], "paths": [*map(str, kept), str(app / "file")]}
            )
        assert {result.output[str(path)] for path in kept} == {"Read-only file system"}, json.dumps(result.output)
        assert result.output[str(app / "file")] == "written"
    assert {"HEAD", "objects", "refs"} <= {path.name for path in projects.iterdir()}


_SPAWNER = """
    import json
    from amplifier_core.models import ToolResult

    class Spawn:
        name = "spawn"
        description = "has an agent do what it is told"

        def __init__(self, coordinator):
            self._coordinator = coordinator

        async def execute(self, input):
            ours = self._coordinator
            spawn = ours.get_capability("session.spawn")
            asked = dict(agent_configs=ours.config["agents"], parent_session=ours.session)
            result = await spawn(agent_name="helper", instruction=json.dumps(input["order"]), **asked)
            return ToolResult(output=json.loads(result["output"])["output"])

    async def mount(coordinator, config):
        await coordinator.mount("tools", Spawn(coordinator))
"""
_DECOYS = 45  # more than are guarded of one module's


async def test_decoys_of_an_earlier_session_take_no_place_from_older_ones(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    work = tmp_path / "work"
    git, envrc = _repository(work / "deep/er/app"), work / ".envrc"
    envrc.touch()
    entry = {
        "module": "tool-write",
        "source": write_module("tool-write", _WRITER),
        "permissions": {"write": [str(work)]},
    }
    said: list[str] = []
    kept = [str(git / "config"), str(envrc)]
    for planted in ([str(work / f"d{number}/.git") for number in range(_DECOYS)], []):
        said.clear()
        async with open_session(
            tools=[entry],
            on_confined=lambda confined: said.extend(line for _, one in confined for line in one.remarks()),
        ) as session:
            write = session.coordinator.get("tools", "write")
            told = (await write.execute({"plant": planted, "paths": kept})).output
        assert set(told.values()) == {"Read-only file system"}, json.dumps(told)
        assert any("tool-write: only 40 places" in line for line in session.changes) is (not planted)
    assert "only 40 places that other programs run are kept as they are, 7 are not:" in said


async def test_decoys_of_a_session_take_no_place_from_what_it_found(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    work = tmp_path / "work"
    for number in range(_DECOYS):
        (work / f"old{number}").mkdir(parents=True)
    git = _repository(work / "deep/er/app")
    write = {
        "module": "tool-write",
        "source": write_module("tool-write", _WRITER),
        "permissions": {"write": [str(work)]},
    }
    spawn = {
        "module": "tool-spawn",
        "source": write_module("tool-spawn", _SPAWNER),
        "permissions": {"call": ["spawn"]},
    }
    # With a network of its own, each of its workers is shut in afresh.
    own = {**write, "permissions": {"write": [str(work)], "net": ["example.com"]}}
    agents = {"helper": {"description": "helps", "instruction": "help", "tools": [own]}}
    older = {str(work / f"old{number}"): str(work / f"d{number}/.git") for number in range(_DECOYS)}
    async with open_session(tools=[write, spawn], agents=agents) as session:
        tools = session.coordinator.get("tools")
        await tools["write"].execute({"move": older, "paths": []})
        order = {"tool": "write", "input": {"paths": [str(git / "config"), str(work / "d0/file")]}}
        told = (await tools["spawn"].execute({"order": order})).output
    assert told == {str(git / "config"): "Read-only file system", str(work / "d0/file"): "written"}


async def test_hooks_named_by_the_user_or_a_worktree_cannot_be_written(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, config = tmp_path / "work", tmp_path / "config"
    for folder in ("repository", "tree/hooks", "users", "other"):
        (work / folder).mkdir(parents=True)
    (config / "git").mkdir(parents=True)
    (config / "git/config").write_text(f"[core]\n\thooksPath = {work}/users\n")
    (work / "other/more.cfg").write_text("")
    _git("init", "-q", str(work / "repository"))
    me = pwd.getpwuid(os.geteuid())
    include = f"~{me.pw_name}/{'../' * 20}{(work / 'other/more.cfg').relative_to('/')}"  # up to the top, and no further
    for name, value in (("core.worktree", "../../tree"), ("core.hooksPath", "hooks"), ("include.path", include)):
        _git("config", "--file", str(work / "repository/.git/config"), name, value)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    kept = [work / "users/pre-commit", work / "tree/hooks/pre-commit", work / "other/more.cfg"]
    open_to_it = [work / "tree/file", work / "other/file"]
    told = await _written(open_session, write_module, work, [*kept, *open_to_it])
    assert {told[str(path)] for path in kept} == {"Read-only file system"}, json.dumps(told)
    assert {told[str(path)] for path in open_to_it} == {"written"}, json.dumps(told)


_RUNS_GIT = """
    import subprocess
    from amplifier_core.models import ToolResult

    class Git:
        name = "git"
        description = "runs git as it is told to"

        async def execute(self, input):
            made = subprocess.run(input["command"], capture_output=True, text=True, shell=type(input["command"]) is str)
            return ToolResult(success=made.returncode == 0, output=made.stdout + made.stderr)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Git())
"""
_ME = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false")


def _repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    _git("init", "-q", str(folder))
    (folder / "file").write_text("one\n")
    _git("-C", str(folder), "add", "file")
    _git("-C", str(folder), *_ME, "commit", "-q", "-m", "one")
    return folder / ".git"


def _denials_of(session: Session, module: str) -> tuple[Mapping[str, object], ...]:
    (status,) = [one for one in session.modules if one.module == module]
    return status.denials


def _runs_git(write_module: WriteModule, write: list[str]) -> dict[str, object]:
    return {
        "module": "tool-git",
        "source": write_module("tool-git", _RUNS_GIT),
        "permissions": {"write": write, "run": ["git", "sh"]},
    }


async def test_status_diff_and_log_work_in_a_repository_that_may_only_be_read(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    work = tmp_path / "work"
    git = _repository(work)
    index = (git / "index").read_bytes()
    async with open_session(tools=[_runs_git(write_module, ["."])]) as session:
        tool = session.coordinator.get("tools", "git")
        (work / "file").write_text("two\n")
        told = {}
        for command in (["status", "--short"], ["diff", "--stat"], ["log", "--oneline"]):
            result = await tool.execute({"command": ["git", *command]})
            assert result.success, result.output
            told[command[0]] = result.output
        assert _denials_of(session, "tool-git") == ()
    assert told["status"] == " M file\n" and "1 file changed" in told["diff"] and "one" in told["log"], told
    assert (git / "index").read_bytes() == index


@pytest.mark.parametrize(
    "command", [["git", *_ME, "commit", "-am", "two"], f"true && git {' '.join(_ME)} commit -am two"]
)
async def test_a_refused_commit_names_the_grant_that_allows_it(
    command: list[str] | str, tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    work = tmp_path / "work"
    _repository(work)
    (work / "file").write_text("two\n")
    async with open_session(tools=[_runs_git(write_module, ["."])]) as session:
        refused = await session.coordinator.get("tools", "git").execute({"command": command})
        with anyio.fail_after(_SECONDS):
            while not (denials := _denials_of(session, "tool-git")):
                await anyio.sleep(0.02)
    assert not refused.success and "index.lock': Read-only file system" in refused.output
    (denial,) = denials
    assert (denial["operation"], denial["target"]) == ("write to", str(work / ".git"))
    assert '{write: [".", "./.git"], run: ["git", "sh"]}' in str(denial["grant"])
    assert "your next git command may run" in str(denial["reason"])
    async with open_session(tools=[_runs_git(write_module, [".", "./.git"])]) as session:
        made = await session.coordinator.get("tools", "git").execute({"command": command})
    assert made.success, made.output


async def test_folders_of_other_programs_and_repositories_are_read_only(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    work = tmp_path / "work"
    main = _repository(work / "main")
    _git("-C", str(work / "main"), "worktree", "add", "-q", "../tree")
    _git("clone", "-q", "--bare", str(work / "main"), str(work / "bare.git"))
    (work / "store").mkdir()
    _git("init", "-q", "--separate-git-dir", str(work / "store/of-app"), str(work / "app"))
    folders = [".vscode", ".idea", ".husky", ".devcontainer", ".github/workflows", ".direnv", ".claude"]
    for name in folders:
        (work / name).mkdir(parents=True)
    kept = [main / "refs/x", main / "worktrees/tree/HEAD", work / "tree/.git", work / "bare.git/refs/x"]
    kept += [work / "store/of-app/info/exclude", work / "app/.git", *(work / name / "x" for name in folders)]
    open_to_it = [work / "tree/file", work / "store/file", work / "app/file", work / ".github/CODEOWNERS"]
    told = await _written(open_session, write_module, work, [*kept, *open_to_it])
    assert {told[str(path)] for path in kept} == {"Read-only file system"}, json.dumps(told)
    assert {told[str(path)] for path in open_to_it} == {"written"}, json.dumps(told)
