"""What other programs run by themselves stays as it is in a granted folder, git's first; what is beside it is open."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from integration.command_line import paddock
from integration.conftest import OpenSession
from integration.probe import entry_of, probe, tool_code
from paddock import Session

_SECONDS = 60  # for what is awaited; hit only by a hang

_WRITER = tool_code(
    "write",
    """
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
    """,
)


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, timeout=60, capture_output=True)


def _writes(work: Path) -> dict[str, Any]:
    """Return the entry of a tool that may write in `work`."""
    return entry_of("tool-write", _WRITER, permissions={"write": [str(work)]})


_Places = tuple[list[Path], list[Path]]  # those that stay as they are, and those that are open to a module


def _deep_and_unusual(work: Path) -> _Places:
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
    return kept, [deep / "file", unusual / "tools/build", work / "other.cfg"]


def _named_by_the_user_or_a_worktree(work: Path, config: Path) -> _Places:
    for folder in ("repository", "named/hooks", "users", "other"):
        (work / folder).mkdir(parents=True)
    (config / "git").mkdir(parents=True)
    (config / "git/config").write_text(f"[core]\n\thooksPath = {work}/users\n")
    (work / "other/more.cfg").write_text("")
    _git("init", "-q", str(work / "repository"))
    me = pwd.getpwuid(os.geteuid())
    include = f"~{me.pw_name}/{'../' * 20}{(work / 'other/more.cfg').relative_to('/')}"  # up to the top, and no further
    for name, value in (("core.worktree", "../../named"), ("core.hooksPath", "hooks"), ("include.path", include)):
        _git("config", "--file", str(work / "repository/.git/config"), name, value)
    kept = [work / "users/pre-commit", work / "named/hooks/pre-commit", work / "other/more.cfg"]
    return kept, [work / "named/file", work / "other/file"]


def _of_other_programs_and_repositories(work: Path) -> _Places:
    main = _repository(work / "main")
    _git("-C", str(work / "main"), "worktree", "add", "-q", "../tree")
    _git("clone", "-q", "--bare", str(work / "main"), str(work / "bare.git"))
    (work / "store").mkdir()
    _git("init", "-q", "--separate-git-dir", str(work / "store/of-app"), str(work / "app"))
    folders = [".vscode", ".idea", ".husky", ".devcontainer", ".github/workflows", ".direnv", ".claude"]
    folders += ["plain/er/.vscode", "plain/.hg", "plain/.cursor"]
    for name in folders:
        (work / name).mkdir(parents=True)
    kept = [main / "refs/x", main / "worktrees/tree/HEAD", work / "tree/.git", work / "bare.git/refs/x"]
    kept += [work / "store/of-app/info/exclude", work / "app/.git", *(work / name / "x" for name in folders)]
    kept.append(work / ".github/CODEOWNERS")
    return kept, [work / "tree/file", work / "store/file", work / "app/file"]


def _in_and_out_of_the_tables(work: Path, home: Path) -> _Places:
    """Names that programs start with, beside data and what tools write; and each hidden name of a home but some."""
    kept = [work / name for name in (".clinerules/x", ".new-agent.json", ".env", "Jenkinsfile", "sub/.newrc")]
    kept += [home / name for name in (".new/x", ".cargo/new", ".local/lib/x", ".config/new/x", "bin/x")]
    opened = [work / name for name in (".venv/x", ".coverage.1", ".remake-version-h", "sub/.tox/x", "plain/.newrc")]
    opened += [home / name for name in (".cargo/registry/x", ".cache/x", ".local/share/x", "work/x")]
    for path in (*kept, *opened):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    _git("init", "-q", str(work / "sub"))
    return kept, opened


async def test_what_other_programs_run_is_read_only_and_all_else_is_open(
    tmp_path: Path, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In repositories at any depth, where their settings and the user's point, and in folders of other programs."""
    work, config, home = tmp_path / "work", tmp_path / "config", tmp_path / "work/home"
    grounds = [
        _deep_and_unusual(work),
        _of_other_programs_and_repositories(work),
        _named_by_the_user_or_a_worktree(work, config),
        _in_and_out_of_the_tables(work, home),
    ]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    monkeypatch.setenv("HOME", str(home))
    kept, open_to_it = ([path for ground in grounds for path in ground[part]] for part in (0, 1))
    async with open_session(tools=[_writes(work)]) as session:
        result = await session.coordinator.get("tools", "write").execute({"paths": [*map(str, [*kept, *open_to_it])]})
    told = result.output
    assert {path: told[path] for path in map(str, kept) if told[path] != "Read-only file system"} == {}
    assert {path: told[path] for path in map(str, open_to_it) if told[path] != "written"} == {}


_SPAWNER = """
    spawn = coordinator.get_capability("session.spawn")
    asked = dict(agent_configs=coordinator.config["agents"], parent_session=coordinator.session)
    result = await spawn(agent_name="helper", instruction=json.dumps(input["order"]), **asked)
    return ToolResult(output=json.loads(result["output"])["output"])
"""
_DECOYS = 90  # more than are guarded of one module's: each is a mount, and so is its folder


@pytest.mark.exhaustive  # those of the same session do not either
async def test_decoys_of_an_earlier_session_take_no_place_from_older_ones(
    tmp_path: Path, open_session: OpenSession
) -> None:
    """Nor does what looks like git's own folder around a repository hide that."""
    work = tmp_path / "work"
    git, envrc = _repository(work / "deep/er/app"), work / ".envrc"
    envrc.touch()
    app = work / "projects/app"
    shutil.copytree(git.parent, app)
    said: list[str] = []
    kept = [str(git / "config"), str(envrc), str(app / ".git/config"), str(app / ".git/hooks/pre-commit")]
    decoys = [str(work / f"d{number}/.git") for number in range(_DECOYS)]
    # Not what git takes for its own, with a folder for a head.
    decoys += [str(work / "projects" / name) for name in ("HEAD", "objects", "refs")]
    for planted in (decoys, []):
        said.clear()
        async with open_session(
            tools=[_writes(work)],
            on_confined=lambda confined: said.extend(line for _, one in confined for line in one.remarks()),
        ) as session:
            write = session.coordinator.get("tools", "write")
            told = (await write.execute({"plant": planted, "paths": [*kept, str(app / "file")]})).output
        assert told.pop(str(app / "file")) == "written"
        assert set(told.values()) == {"Read-only file system"}, json.dumps(told)
        assert any("tool-write: only 79 places" in line for line in session.changes) is (not planted)
    assert "only 79 places that other programs run are kept as they are, 14 are not:" in said


async def test_decoys_of_a_session_take_no_place_from_what_it_found(tmp_path: Path, open_session: OpenSession) -> None:
    work = tmp_path / "work"
    for number in range(_DECOYS):
        (work / f"old{number}").mkdir(parents=True)
    git = _repository(work / "deep/er/app")
    write = _writes(work)
    spawn = probe(_SPAWNER, "spawn", permissions={"call": ["spawn"]})
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


_RUNS_GIT = tool_code(
    "git",
    """
    import subprocess
    made = subprocess.run(input["command"], capture_output=True, text=True, shell=type(input["command"]) is str)
    return ToolResult(success=made.returncode == 0, output=made.stdout + made.stderr)
    """,
)
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


def _runs_git(write: list[str]) -> dict[str, object]:
    return entry_of("tool-git", _RUNS_GIT, permissions={"write": write, "run": ["git", "sh"]})


def test_no_unaccepted_plan_opens_what_runs_by_another_name(tmp_path: Path) -> None:
    """A folder that git's configuration names, and the target of a link, are opened as `.git` is: by acceptance."""
    _repository(tmp_path)
    _git("-C", str(tmp_path), "config", "core.hooksPath", "tools/hooks")
    for name in ("tools/hooks", "conf"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "conf/envrc").touch()
    (tmp_path / ".envrc").symlink_to("conf/envrc")
    names = ["tools/hooks", ".envrc", "conf/envrc", ".git"]
    tool = {"module": "tool-filesystem", "permissions": {"write": [".", "conf", *names]}}
    plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [tool]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = paddock("run", "plan.json", "hello", "--json", cwd=tmp_path)
    refused = [one["path"] for one in json.loads(done.stdout)["error"]["problems"]]
    assert done.returncode == 4, done.stderr
    assert refused == [f"tools[0].permissions.write[{number}]" for number in range(2, 2 + len(names))]
    shown = paddock("run", "plan.json", "hello", "--print-grants", cwd=tmp_path)
    assert "conf/envrc: your shell, when it enters the folder, may run its code" in " ".join(shown.stderr.split())


async def test_a_refused_commit_names_the_grant_that_allows_it(tmp_path: Path, open_session: OpenSession) -> None:
    """While status, diff and log work in a repository that may only be read."""
    work = tmp_path / "work"
    repositories = [work / "one", work / "two"]
    _repository(repositories[0])
    shutil.copytree(*repositories)
    one, two = (str(repository) for repository in repositories)
    commits: list[list[str] | str] = [
        ["git", "-C", one, *_ME, "commit", "-am", "two"],
        f"true && git -C {two} {' '.join(_ME)} commit -am two",
    ]
    index = (work / "one/.git/index").read_bytes()
    async with open_session(tools=[_runs_git(["."])]) as session:
        tool = session.coordinator.get("tools", "git")
        for repository in repositories:
            (repository / "file").write_text("two\n")
        told = {}
        for command in (["status", "--short"], ["diff", "--stat"], ["log", "--oneline"]):
            result = await tool.execute({"command": ["git", "-C", one, *command]})
            assert result.success, result.output
            told[command[0]] = result.output
        assert _denials_of(session, "tool-git") == ()
        assert told["status"] == " M file\n" and "1 file changed" in told["diff"] and "one" in told["log"], told
        assert (work / "one/.git/index").read_bytes() == index
        for number, commit in enumerate(commits, 1):
            refused = await tool.execute({"command": commit})
            assert not refused.success and "index.lock': Read-only file system" in refused.output, commit
            with anyio.fail_after(_SECONDS):
                while len(denials := _denials_of(session, "tool-git")) < number:
                    await anyio.sleep(0.02)
    assert [(denial["operation"], denial["target"]) for denial in denials] == [
        ("write to", f"{repository}/.git") for repository in repositories
    ]
    for denial, name in zip(denials, ("one", "two"), strict=True):
        assert f'{{write: [".", "./{name}/.git"], run: ["git", "sh"]}}' in str(denial["grant"])
        assert "your next git command may run" in str(denial["reason"])
    async with open_session(tools=[_runs_git([".", "./one/.git", "./two/.git"])]) as session:
        for commit in commits:
            made = await session.coordinator.get("tools", "git").execute({"command": commit})
            assert made.success, made.output
