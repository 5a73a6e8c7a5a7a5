"""npm itself in the sandbox, before a registry on loopback: what `played_npm` plays, and what npm does elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from failures import failing
from paddock_sources import parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import NO_RULES
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.settings import IndexSettings, SourceSettings
from sources.npm_registry import NpmRegistry, archive
from sources.provisioners import provisioner_of
from support.registries import NEEDS_NPM
from support.shut_in_commands import commands_at

pytestmark = [
    pytest.mark.exhaustive,
    NEEDS_NPM,
]

_GIT = "git+https://git.example.org/o/r.git"


@pytest.fixture
def registry() -> Iterator[NpmRegistry]:
    with NpmRegistry() as registry:
        registry.add(
            "server-a", files={"x.js": "console.log(require('c'))"}, bin="x.js", dependencies={"b": "^2", "c": "1"}
        )
        registry.add("b", "1.0.0", {"index.js": "module.exports = 'b1'"})
        registry.add("b", "2.0.0", {"index.js": "module.exports = 'b2'"})
        needs = {"elsewhere": "1.0.0", "here": "1.0.0"}
        code = {"index.js": "module.exports = require('b')"}
        registry.add("c", files=code, dependencies={"b": "^1"}, optionalDependencies=needs)
        registry.add("elsewhere", os=["win32"])
        registry.add("here", os=["linux"])
        yield registry


class User:
    """A user with a cache, whose npm is shut in."""

    def __init__(self, runner: Any, url: str, cache: Path) -> None:
        self.runner = runner
        self.cache = SourceCache(cache)
        settings = SourceSettings(npm=IndexSettings(url))
        self.provisioner = provisioner_of(self.cache, runner, environ=os.environ, settings=settings)

    def lock(self, source: str) -> LockedModule:
        uri = parse_source(source)
        return self.provisioner.lock(uri, self.provisioner.supply(uri).pin(uri))

    def command(self, locked: LockedModule) -> tuple[str, ...]:
        uri = parse_source(locked.source)
        return self.provisioner.supply(uri).server(uri, locked, NO_RULES).command  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def user(registry: NpmRegistry, tmp_path: Path) -> Iterator[User]:
    with commands_at(None) as runner:
        yield User(runner, registry.url, tmp_path / "cache")


def test_a_server_is_locked_and_fetched_again_and_runs(user: User, registry: NpmRegistry) -> None:
    locked = user.lock("mcp+npm:server-a")
    paths = ["b", "c", "c/node_modules/b", "here", "server-a"]
    assert sorted(one.path.removeprefix("node_modules/") for one in locked.dependencies) == paths
    for _ in range(2):
        told = subprocess.run(user.command(locked), capture_output=True, timeout=60, check=True)
        assert told.stdout == b"b1\n"
        user.cache.close()
        user.cache.upkeep.clean()
    registry.publish({"name": "b", "version": "2.0.0"}, archive({"package.json": "{}"}))
    with failing("HashMismatchError", "fetching `b` 2"):
        user.command(locked)
    registry.publish({"name": "b", "version": "2.0.0"}, archive({"package.json": "{}"}), "sha512-" + "A" * 86 + "==")
    with failing("HashMismatchError", "wanted sha512-A.* but got sha512-"):
        user.command(locked)


def test_npm_alone_runs_scripts_and_follows_links_of_an_archive(
    user: User, registry: NpmRegistry, tmp_path: Path
) -> None:
    trap, project = tmp_path / "trap", tmp_path / "project"
    registry.add(
        "server-b", files={"x.js": ""}, bin="x.js", scripts={"postinstall": f"touch {trap}"}, hasInstallScript=True
    )
    project.mkdir()
    (project / "package.json").write_text(json.dumps({"dependencies": {"server-b": "1.0.0"}}))
    options = ["--registry", registry.url, "--cache", str(tmp_path / "npm"), "--no-audit", "--foreground-scripts"]
    subprocess.run(["npm", "install", *options], cwd=project, capture_output=True, timeout=120, check=True)
    assert trap.exists()
    trap.unlink()
    with failing("InstallScriptsError", "server-b 1.0.0"):
        user.command(user.lock("mcp+npm:server-b@1.0.0"))
    assert not trap.exists()


def test_dependencies_from_elsewhere_are_refused_by_name(user: User, registry: NpmRegistry) -> None:
    for needed, code, said in (
        (_GIT, "NpmPackageError", "`https://git.example.org/o/r.git` of npm is refused: it is a repository"),
        ("https://example.org/z.tgz", "IndexAccessError", "example.org:443, which is none of its hosts"),
        ("file:../z", "NpmPackageError", "it is bundled, a folder"),
    ):
        registry.add("server-b", files={"x.js": ""}, bin="x.js", dependencies={"z": needed})
        with failing(code, said):
            user.lock("mcp+npm:server-b@1.0.0")
    content = archive({"package.json": '{"name": "server-b", "version": "1.0.0"}'})
    registry.publish({"name": "server-b", "version": "1.0.0"}, content, "")
    with failing("NpmPackageError", "without a version and a sha512"):
        user.lock("mcp+npm:server-b@1.0.0")
    inside = {"y/package.json": '{"name": "y", "version": "1.0.0"}'}
    bundled = {f"node_modules/{path}": text for path, text in inside.items()}
    registry.add("server-b", files=bundled, dependencies={"y": "1"}, bundledDependencies=["y"])
    with failing("NpmPackageError", "it is bundled"):
        user.lock("mcp+npm:server-b@1.0.0")


def test_what_the_registry_lacks_or_does_not_answer_is_told(user: User) -> None:
    for source, said in (("mcp+npm:gone", "404 Not Found"), ("mcp+npm:server-a@7.0.0", "No matching version found")):
        with failing("UnsolvableError", said):
            user.lock(source)
    with failing("IndexAccessError", "could not be reached"):
        User(user.runner, "http://127.0.0.1:1", user.cache.folder).lock("mcp+npm:server-a")
