"""What git runs by itself stays as it is, wherever in a granted folder it lies; what is beside it can be changed."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from integration.conftest import OpenSession, WriteModule

_WRITER = """
    import os
    from amplifier_core.models import ToolResult

    class Write:
        name = "write"
        description = "appends to files, and tells what came of each"

        async def execute(self, input):
            told = {}
            for path in input.get("plant", []):
                os.mkdir(path)
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


async def test_hooks_and_configuration_of_deep_and_unusual_repositories_cannot_be_written(
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
    open_to_it = [deep / "file", deep / ".git/description", unusual / "tools/build", work / "other.cfg"]
    told = await _written(open_session, write_module, work, [*kept, *open_to_it])
    assert {told[str(path)] for path in kept} == {"Read-only file system"}, json.dumps(told)
    assert {told[str(path)] for path in open_to_it} == {"written"}, json.dumps(told)


async def test_a_folder_that_a_module_made_to_look_like_gits_hides_no_repository_from_the_next_session(
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
    for planted in (["HEAD", "objects", "refs"], []):
        async with open_session(tools=[entry]) as session:
            result = await session.coordinator.get("tools", "write").execute(
                {"plant": [str(projects / name) for name in planted], "paths": [*map(str, kept), str(app / "file")]}
            )
        assert {result.output[str(path)] for path in kept} == {"Read-only file system"}, json.dumps(result.output)
        assert result.output[str(app / "file")] == "written"
    assert {"HEAD", "objects", "refs"} <= {path.name for path in projects.iterdir()}


async def test_hooks_that_the_users_configuration_and_a_working_tree_elsewhere_name_cannot_be_written(
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
