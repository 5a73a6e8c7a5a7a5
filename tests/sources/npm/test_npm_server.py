"""Servers in packages of npm, with npm played: what is locked, what the tree holds, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from failures import failing
from paddock_sources import parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import NO_RULES, Constraint, DependencyRules
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.progress import ProgressStep, SilentProgress
from paddock_sources.provisioner import Provisioner
from paddock_sources.resolution import ServerProgram
from paddock_sources.settings import IndexSettings, SourceSettings
from sources.npm.played_npm import PlayedNpm, blob
from sources.npm_registry import NpmRegistry, archive
from sources.provisioners import provisioner_of

_SERVER = "mcp+npm:@s/server-a@1.0.0"


class Bench:
    """One user with a registry, whose PATH has `programs` alone."""

    def __init__(self, registry: NpmRegistry, tmp_path: Path) -> None:
        self.registry = registry
        self.npm = PlayedNpm(registry)
        self.cache = SourceCache(tmp_path / "cache")
        self.programs = tmp_path / "bin"
        self.programs.mkdir()
        (self.programs / "npm-cli.js").touch(0o755)
        (self.programs / "npm").symlink_to("npm-cli.js")
        (self.programs / "node").touch(0o755)
        self.progress = SilentProgress()

    def provisioner(self, *, offline: bool = False) -> Provisioner:
        settings = SourceSettings(npm=IndexSettings(self.registry.url))
        return provisioner_of(self.cache, self.npm, settings=settings, progress=self.progress, offline=offline)

    def lock(self, source: str = _SERVER) -> LockedModule:
        return self.provisioner().lock(parse_source(source))

    def server(
        self, locked: LockedModule, rules: DependencyRules = NO_RULES, *, offline: bool = False
    ) -> ServerProgram:
        supply: Any = self.provisioner(offline=offline).supply(parse_source(locked.source))
        return supply.server(parse_source(locked.source), locked, rules)

    def forget(self) -> None:
        self.cache.close()
        self.cache.upkeep.clean()
        self.npm.argvs.clear()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: MonkeyPatch) -> Iterator[Bench]:
    with NpmRegistry() as registry:
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        registry.add("@s/server-a", files={"x.js": "a"}, bin="x.js", dependencies={"b": "2.0.0", "c": "1.0.0"})
        registry.add("b", "1.0.0", {"x.js": "b1"})
        registry.add("b", "2.0.0", {"x.js": "b2"})
        registry.add("c", dependencies={"b": "1.0.0"})
        yield Bench(registry, tmp_path)


def test_the_tree_is_what_the_archives_hold_and_is_got_once(bench: Bench) -> None:
    steps: list[ProgressStep] = []
    bench.progress.step = steps.append  # type: ignore[method-assign]
    locked = bench.lock()
    assert [(one.name, one.version, one.path) for one in locked.dependencies] == [
        ("@s/server-a", "1.0.0", "node_modules/@s/server-a"),
        ("b", "2.0.0", "node_modules/b"),
        ("c", "1.0.0", "node_modules/c"),
        ("b", "1.0.0", "node_modules/c/node_modules/b"),
    ]
    assert (locked.commit, locked.requested_ref) == ("1.0.0", "1.0.0") and locked.tree
    asked = len(bench.npm.argvs)
    server = bench.server(locked, offline=True)
    (root,) = server.trees
    assert server.command == (str(bench.programs / "node"), str(root / "node_modules/@s/server-a/x.js"))
    assert server.programs == (bench.programs / "node",) and len(bench.npm.argvs) == asked
    files = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.js")}
    assert files == {
        "node_modules/@s/server-a/x.js": "a",
        "node_modules/b/x.js": "b2",
        "node_modules/c/node_modules/b/x.js": "b1",
    }
    assert not any(os.stat(path).st_mode & 0o222 for path in (root, *root.rglob("*")))
    assert {step.phase for step in steps} == {"resolving dependencies of", "fetching"}
    # npm reaches the registry of the settings, and a scratch folder that is gone.
    for access in bench.npm.accesses:
        assert access.hosts == (bench.registry.host,) and access.environ["npm_config_registry"] == bench.registry.url
        assert access.environ["npm_config_ignore_scripts"] == "true"
        assert not any(path.exists() for path in access.writes)


def test_the_same_tree_is_fetched_again_by_what_is_locked_alone(bench: Bench) -> None:
    locked = bench.lock()
    bench.forget()
    bench.registry.add("b", "3.0.0")
    assert bench.server(locked).trees[0].is_dir()
    assert bench.npm.argvs[0][5:] == ["cache", "add", "@s/server-a@1.0.0", "b@2.0.0", "c@1.0.0", "b@1.0.0"]


def test_without_a_version_the_latest_of_the_day_is_locked(bench: Bench) -> None:
    bench.registry.add("@s/server-a", "2.0.0", {"x.js": ""}, bin="x.js")
    locked = bench.lock("mcp+npm:@s/server-a")
    assert (locked.commit, locked.requested_ref) == ("2.0.0", "")
    assert bench.provisioner().relock(parse_source(locked.source), locked, NO_RULES) == locked
    for source, said in (("mcp+npm:gone", "E404"), ("mcp+npm:b@9.0.0", "ETARGET")):
        with failing("UnsolvableError", said):
            bench.lock(source)


def test_a_changed_archive_is_refused_by_name(bench: Bench) -> None:
    locked = bench.lock()
    bench.forget()
    bench.registry.publish({"name": "b", "version": "2.0.0"}, archive({"package.json": "{}", "x.js": "evil"}))
    with failing("HashMismatchError", "fetching `b` 2.0.0 failed") as caught:
        bench.server(locked)
    assert caught.value.detail == (f"locked: {locked.dependencies[1].hashes[0]}",)


def _swapped(path: Path) -> None:
    path.write_bytes(archive({"package.json": "{}"}))


def _linked(path: Path) -> None:
    outside = path.parents[8] / "outside"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(outside)


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "act, code", [(_swapped, "HashMismatchError"), (_linked, "ManifestError"), (_piped, "ManifestError")]
)
def test_what_npm_leaves_under_a_hash_is_verified_by_the_host(
    bench: Bench, act: Callable[[Path], None], code: str
) -> None:
    locked = bench.lock()
    bench.forget()
    content = bench.registry.archives["/b/-/b-2.0.0.tgz"]
    run = bench.npm.run

    def hostile(argv: Any, **more: Any) -> Any:
        result = run(argv, **more)
        act(blob(bench.npm.accesses[-1].writes[0], content))
        return result

    bench.npm.run = hostile  # type: ignore[method-assign]
    with failing(code):
        bench.server(locked)


def test_a_tree_that_is_not_the_locked_one_is_refused_and_damage_is_found(bench: Bench) -> None:
    locked = bench.lock()
    (root,) = bench.server(locked).trees
    script = root / "node_modules/b/x.js"
    script.chmod(0o644)
    script.write_text("evil")
    provisioner = bench.provisioner()
    assert provisioner.damage(locked) == ("its code",) and provisioner.missing(locked) == ("its code",)
    with failing("PinMismatchError"):
        bench.server(replace(locked, tree=f"sha256:{'0a' * 32}"))
    for other in (replace(locked, commit="2.0.0", source="mcp+npm:@s/server-a"), replace(locked, dependencies=())):
        with failing("PinMismatchError"):
            bench.server(other)


@pytest.mark.parametrize("facts, files", [({"scripts": {"postinstall": "x"}}, {}), ({}, {"binding.gyp": "{}"})])
def test_packages_with_scripts_are_refused_by_name_unless_taken_without(bench: Bench, facts: Any, files: Any) -> None:
    bench.registry.add("c", "1.0.0", files, **facts)
    locked = bench.lock()
    with failing("InstallScriptsError", r"c 1\.0\.0 \((postinstall|binding\.gyp)\)") as caught:
        bench.server(locked)
    assert "config: {without_scripts: true}" in caught.value.hints[0]
    assert bench.server(locked, DependencyRules(without_scripts=True))


@pytest.mark.parametrize(
    "said, wanted, code",
    [
        ({"server-a": "x.js", "other": "x.js"}, [], ""),
        ({"one": "x.js"}, [], ""),
        ({"one": "x.js", "two": "x.js"}, ["two"], ""),
        ({"one": "x.js", "two": "x.js"}, [], "NoServerError"),
        ({"one": "x.js"}, ["two"], "NoServerError"),
        ({}, [], "NoServerError"),
        ("../../b/x.js", [], "ManifestError"),
        ("gone.js", [], "NpmPackageError"),
    ],
)
def test_the_program_is_the_one_that_is_meant(bench: Bench, said: Any, wanted: list[str], code: str) -> None:
    bench.registry.add("@s/server-a", files={"x.js": "a"}, bin=said, dependencies={"b": "2.0.0"})
    locked, rules = bench.lock(), DependencyRules(programs=frozenset(wanted))
    if not code:
        assert bench.server(locked, rules).command[1].endswith("/server-a/x.js")
        return
    with failing(code):
        bench.server(locked, rules)


@pytest.mark.parametrize(
    "facts, said",
    [
        ({"resolved": "git+https://git.example.org/o/b.git"}, "comes from `git"),
        ({"inBundle": True, "integrity": None}, "`node_modules/b` of npm is refused: it is bundled"),
        ({"link": True, "integrity": None}, "is bundled, a folder"),
        ({"integrity": "sha1-TzKo4gAUUVN7m6uCxS7XlcY9iI4="}, "without a version and a sha512"),
    ],
)
def test_a_dependency_that_is_none_of_the_registry_is_refused(bench: Bench, facts: Any, said: str) -> None:
    bench.npm.lock_facts["b"] = facts
    with failing("NpmPackageError", said):
        bench.lock()
    assert not any("add" in argv for argv in bench.npm.argvs)  # nothing is fetched


def test_an_archive_that_leads_out_is_refused_with_its_package(bench: Bench) -> None:
    bench.registry.publish({"name": "b", "version": "2.0.0"}, archive({"../../../../x": "evil"}))
    with failing("UnsafeTreeError", "`node_modules/b/.*leads elsewhere"):
        bench.lock()


def test_without_node_or_npm_the_package_to_install_is_named(bench: Bench) -> None:
    locked = bench.lock()
    (bench.programs / "npm").unlink()
    with failing("NoProgramError", "`npm` is not there") as caught:
        bench.lock()
    assert caught.value.hints == ("install it: `sudo apt install nodejs npm`",)
    assert bench.server(locked)  # which takes node alone
    (bench.programs / "node").unlink()
    with failing("NoProgramError", "`node` is not there"):
        bench.server(locked)


def test_offline_says_which_packages_are_missing(bench: Bench) -> None:
    locked = bench.lock()
    bench.forget()
    with failing("NotFetchedError", "@s/server-a 1.0.0, b 2.0.0, c 1.0.0, b 1.0.0 are not in the cache"):
        bench.server(locked, offline=True)
    assert not bench.npm.argvs


def test_constraints_are_on_packages_of_python(bench: Bench) -> None:
    locked, rules = bench.lock(), DependencyRules((Constraint.parse("b>9", "plan.yaml:1"),))
    assert bench.provisioner().contradiction(parse_source(_SERVER), locked, rules) is None
