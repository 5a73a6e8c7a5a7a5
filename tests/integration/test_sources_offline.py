"""A plan with modules from everywhere runs, and runs the same when everywhere is gone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from host.egress.certificates import TestAuthority
from integration.command_line import paddock
from integration.probe import loop_code
from sources.git_repositories import below, lay_out, library_files, module_files, repository
from sources.git_server import GitServer, store_credentials
from sources.index_server import IndexServer

pytestmark = pytest.mark.usefixtures("commands_end")

_LOOP = """
    return json.dumps({name: (await tool.execute({})).output for name, tool in sorted(tools.items())})
"""
_TOOLS = {
    "tool_here": "from a folder",
    "tool_lent": ["hello from a library", "1.0", "2.0", "0+"],
    "tool_nested": "from a folder of a repository",
    "tool_packed": "from a package",
    "tool_private": "from a private repository",
}


@dataclass
class World:
    """Two servers, and a folder of somebody's with a plan in it."""

    git: GitServer
    index: IndexServer
    folder: Path
    environ: dict[str, str]

    @property
    def sources(self) -> list[str]:
        return [
            self.git.address("collection", "v1", subdirectory="modules/tool-nested"),
            self.git.address("private", "main"),
            self.git.address("lent"),
            "./tool-here",
            "amplifier-module-tool-packed==1.0",
        ]

    def told(self, *args: str, code: int = 0, **environ: str) -> Any:
        """Run a command and return what it wrote for scripts."""
        done = paddock(*args, "--json", cwd=self.folder, environ={**self.environ, **environ})
        assert done.returncode == code, (args, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def forget(self) -> None:
        self.git.forget()
        self.index.requests.clear()

    def asked(self) -> list[str]:
        return [*self.git.asked(), *self.index.requests]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "authority").mkdir()
    authority = TestAuthority(tmp_path / "authority")
    with GitServer(tmp_path / "remote", authority) as git, IndexServer() as index:
        _publish(git, index)
        folder = tmp_path / "mine"
        lay_out(folder / "tool-here", module_files("tool-here", answer="'from a folder'"))
        lay_out(
            folder / "loop-all", module_files("loop-all") | {"amplifier_module_loop_all/__init__.py": loop_code(_LOOP)}
        )
        (folder / "plan.yaml").write_text(
            "session:\n  orchestrator: {module: loop-all, source: ./loop-all}\n  context: context-simple\n"
        )
        home = Path(os.environ["HOME"])
        store_credentials(home, git, "reader:hush")
        settings = home / ".config" / "paddock" / "sources.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[index]\nurl = "{index.url}"\nhosts = ["{index.host}"]\n')
        yield World(git, index, folder, {**git.environ, "PADDOCK_CACHE_DIR": str(tmp_path / "cache")})


def _publish(git: GitServer, index: IndexServer) -> None:
    nested = module_files("tool-nested", answer="'from a folder of a repository'")
    repository(git.folder / "collection", {"README.md": "many\n"} | below("modules/tool-nested", nested))
    repository(git.folder / "private", module_files("tool-private", answer="'from a private repository'"))
    git.private["private"] = "reader:hush"
    repository(git.folder / "library", library_files("greeting"))
    lent = module_files(
        "tool-lent",
        answer="[greeting.VALUE, twig.__version__, version('twig-base'), version('amplifier-module-tool-lent')[:2]]",
        imports="from importlib.metadata import version\n\nimport greeting\nimport twig\n",
        requires=["twig>=1", f"greeting @ {git.address('library', 'v1')}", "amplifier-core>=1"],
    )
    lent["pyproject.toml"] = lent["pyproject.toml"].replace('version = "1.0.0"', 'dynamic = ["version"]')
    repository(git.folder / "lent", lent)
    index.add_wheel("twig", "1.0", requires=["twig-base>=2"])
    index.add_wheel("twig-base", "2.0")
    packed = module_files("tool-packed", answer="'from a package'")
    package = "amplifier_module_tool_packed/__init__.py"
    points = "[amplifier.modules]\ntool-packed = amplifier_module_tool_packed:mount\n"
    index.add_wheel("amplifier-module-tool-packed", "1.0", {package: packed[package]}, entry_points=points)


@pytest.mark.exhaustive  # each kind of source has tests of its own
@pytest.mark.slow
def test_a_locked_plan_runs_the_same_when_all_sources_are_gone(world: World, tmp_path: Path) -> None:
    for source in world.sources:
        world.told("add", source, "--to", "plan.yaml")
    locked = (world.folder / "paddock.lock").read_text()
    assert "hush" not in locked + (world.folder / "plan.yaml").read_text()
    assert world.asked()
    first = world.told("run", "plan.yaml", "go")
    assert json.loads(first["response"]) == _TOOLS
    # What is locked and in the cache is asked of nobody.
    world.forget()
    assert world.told("run", "plan.yaml", "go", "--locked")["response"] == first["response"]
    assert world.told("lock", "plan.yaml", "--check")
    assert not world.asked()

    elsewhere = str(tmp_path / "other-cache")
    world.told("sync", PADDOCK_CACHE_DIR=elsewhere)
    _end(world)
    for cache in (world.environ["PADDOCK_CACHE_DIR"], elsewhere):
        again = world.told("run", "plan.yaml", "go", "--offline", "--frozen", PADDOCK_CACHE_DIR=cache)
        assert again["response"] == first["response"] and _modules(again) == _modules(first)
    assert (world.folder / "paddock.lock").read_text() == locked

    told = world.told("run", "plan.yaml", "go", "--offline", code=1, PADDOCK_CACHE_DIR=str(tmp_path / "empty"))
    assert "fetch it while there is a network: `paddock run plan.yaml go" in json.dumps(told)


def _end(world: World) -> None:
    """Have both servers go, and all that they had."""
    world.git.__exit__(None, None, None)
    world.index.__exit__(None, None, None)
    shutil.rmtree(world.git.folder)


def _modules(run: Any) -> list[Any]:
    told = ("module", "source", "commit", "tree", "version")
    return sorted(tuple(str(module.get(name)) for name in told) for module in run["modules"])
