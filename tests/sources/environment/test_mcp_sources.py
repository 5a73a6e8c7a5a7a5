"""MCP servers as sources: which program of a package is the server, how it is pinned, and how it is started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from failures import failing
from paddock_sources import Resolution, parse_source
from paddock_sources.builtin import BuiltinSource
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.errors import NotFetchedError, SourceUriError
from paddock_sources.kinds.mcp_uri import McpPypiUri
from paddock_sources.lock.lock_text import lock_text, parse_lock
from paddock_sources.lock.locked_module import LockedDependency, LockedModule, LockedServer
from paddock_sources.provisioner import Provisioner
from paddock_sources.supplies.mcp import chosen_program
from sources.index_server import IndexServer
from sources.module_folder import make_module
from sources.provisioners import provisioner_of
from sources.warm.warm_runner import WarmRunner
from support.rows import each_row

_GREET = {
    "greeter/__init__.py": "",
    "greeter/main.py": "import leaf, sys\n\ndef run():\n    print(leaf.__version__, sys.argv[1:])\n    exit(3)\n",
}
_SCRIPT = "[console_scripts]\nmcp-server-greet = greeter.main:run\n"
_HASH = f"sha256:{'0' * 64}"
_SAID = LockedServer("2026-07-28", "greet 1", {"greet": _HASH})

MakeProvisioner = Callable[..., Provisioner]


@pytest.fixture
def provisioner(cache: SourceCache, runner: WarmRunner, server: IndexServer, tmp_path: Path) -> MakeProvisioner:
    server.add_wheel("mcp-server-greet", "1.0", _GREET, requires=["leaf==1.0"], entry_points=_SCRIPT)
    make_module(tmp_path / "modules" / "tool-mcp", "tool-mcp")

    def make(*, offline: bool = False, recalls: bool = True) -> Provisioner:
        given = {"environ": {"PIP_INDEX_URL": server.url}, "builtin": BuiltinSource(tmp_path / "modules")}
        own = SourceCache(cache.folder, recalls=recalls)
        return provisioner_of(own, runner, preloaded=lambda: {"leaf": "1.0"}, offline=offline, **given)

    return make


def _package(name: str) -> LockedDependency:
    return LockedDependency(name, "1.0", (_HASH,))


def _provided(provisioner: Provisioner, locked: LockedModule) -> Resolution:
    return provisioner.provide(parse_source(locked.source), "tool-mcp-x", locked)


def test_a_server_of_the_index_starts_with_all_that_it_needs(provisioner: MakeProvisioner) -> None:
    locked = provisioner().lock(parse_source("mcp+pypi:mcp-server-greet==1.0"))
    assert [one.name for one in locked.dependencies] == ["leaf", "mcp-server-greet"]
    assert parse_lock(lock_text([locked])).modules == (locked,)
    assert provisioner(offline=True).missing(locked) == ("leaf 1.0, mcp-server-greet 1.0",)
    found = _provided(provisioner(), locked)
    assert (found.module_id, found.package) == ("tool-mcp-x", "amplifier_module_tool_mcp")
    assert (found.source, found.commit) == ("mcp+pypi:mcp-server-greet==1.0", "1.0")
    assert found.server is not None and found.server.programs == (Path(found.server.command[0]),)
    # Also what the runtime of workers has is in the one folder of the server, which finds nothing of this machine.
    (site,) = found.server.trees
    assert {"leaf", "greeter"} <= set(os.listdir(site))
    ran = subprocess.run([*found.server.command, "a b"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "1.0 ['a b']\n", "")
    assert _provided(provisioner(offline=True), locked) == found
    assert provisioner(offline=True).missing(locked) == ()
    pinned = replace(locked, mcp=_SAID)
    again = _provided(provisioner(offline=True), pinned)
    assert again.server is not None and again.server.definitions == _SAID.definitions


def test_without_a_version_the_newest_is_locked_and_pins_stay(
    provisioner: MakeProvisioner, server: IndexServer
) -> None:
    uri, maker = parse_source("mcp+pypi:mcp-server-grows"), provisioner(recalls=False)
    server.add_wheel("mcp-server-grows", "1.0", _GREET)
    first = replace(maker.lock(uri), mcp=_SAID)
    server.add_wheel("mcp-server-grows", "2.0", _GREET)
    pinned = maker.supply(uri).pin(uri)
    later = maker.lock(uri, pinned, previous=first)
    assert [(one.source, one.requested_ref, one.commit) for one in (first, later)] == [
        (uri.text, "", "1.0"),
        (uri.text, "", "2.0"),
    ]
    assert later.mcp == maker.relock(uri, first, NO_RULES).mcp == _SAID
    with failing("NoServerError", "it has no program that could be started"):
        leaf = parse_source("mcp+pypi:leaf==1.0")
        maker.provide(leaf, "tool-mcp-leaf", maker.lock(leaf))


def test_offline_a_server_that_is_not_here_is_refused_with_its_name(provisioner: MakeProvisioner) -> None:
    uri = parse_source("mcp+pypi:mcp-server-absent==1.0")
    with pytest.raises(NotFetchedError, match=r"mcp-server-absent==1\.0"):
        provisioner(offline=True).lock(uri)
    locked = LockedModule(uri.text, "1.0", "1.0", hashes=(_HASH,), dependencies=(_package("mcp-server-absent"),))
    with pytest.raises(NotFetchedError, match=r"mcp-server-absent 1\.0"):
        _provided(provisioner(offline=True), locked)
    with failing("PinMismatchError", "is not what was locked"):
        _provided(provisioner(offline=True), replace(locked, dependencies=(_package("other"),)))


@each_row(
    "programs, named, chosen",
    [
        (["x"], [], "x"),
        (["mcp-server-greet", "other"], [], "mcp-server-greet"),
        (["a", "b"], ["b"], "b"),
        (["a"], ["a"], "a"),
    ],
)
def test_the_server_is_the_one_program_or_its_namesake_or_named(
    programs: list[str], named: list[str], chosen: str
) -> None:
    assert chosen_program(_GREETER, programs, DependencyRules(programs=frozenset(named))) == chosen


_GREETER = McpPypiUri("mcp+pypi:mcp-server-greet==1.0", "mcp-server-greet", "1.0")


@each_row(
    "programs, named, said, hint",
    [
        ([], [], "it has no program that could be started", "take another package"),
        (["b", "a"], [], "it has several programs", "as in `config: {bin: a}`; there are: a, b"),
        (["a"], ["x"], "it has no program `x`", "as in `config: {bin: a}`; there are: a"),
        (["a", "b"], ["a", "b"], "entries of one source want several of its programs: a, b", "name one `bin` in all"),
        ([f"p{n}" for n in range(9)], [], "several programs", "p7 and 1 more"),
    ],
)
def test_a_package_without_one_server_is_refused_with_what_it_has(
    programs: list[str], named: list[str], said: str, hint: str
) -> None:
    with failing("NoServerError", f"mcp-server-greet==1.0` is no server .*{said}") as caught:
        chosen_program(_GREETER, programs, DependencyRules(programs=frozenset(named)))
    assert hint in caught.value.hints[0]


@each_row(
    "name, mode, command",
    [
        ("server.py", 0o644, ["PYTHON", "PATH"]),
        ("server.mjs", 0o644, ["NODE", "PATH"]),
        ("server", 0o755, ["PATH"]),
        ("server", 0o644, "it may not be executed"),
        ("absent", None, "there is no such file"),
    ],
)
def test_a_command_runs_by_its_name_as_it_is(
    name: str,
    mode: int | None,
    command: list[str] | str,
    provisioner: MakeProvisioner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, node = tmp_path / name, tmp_path / "bin" / "node"
    node.parent.mkdir(exist_ok=True)
    node.touch(0o755)
    monkeypatch.setenv("PATH", str(node.parent))
    if mode is not None:
        path.touch()
        path.chmod(mode)
    maker, uri = provisioner(), parse_source(f"mcp+command:{path}")
    if isinstance(command, str):
        with failing("NoServerError", command):
            maker.provide(uri, "tool-mcp-x", None)
        return
    found = maker.provide(uri, "tool-mcp-x", None).server
    python = maker.supply(uri).workshop.dependencies.python.path
    said = {"PYTHON": str(python), "NODE": str(node), "PATH": str(path)}
    assert found is not None and found.command == tuple(said[one] for one in command)
    assert (found.programs, found.trees, found.beside) == ((Path(found.command[0]),), (path,), (tmp_path,))


def test_without_node_its_scripts_are_refused_and_a_command_is_not_locked(
    provisioner: MakeProvisioner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.js").touch()
    uri, maker = parse_source(f"mcp+command:{tmp_path}/server.js"), provisioner()
    monkeypatch.setenv("PATH", str(tmp_path))
    with failing("NoProgramError", "`node` is not there") as caught:
        maker.provide(uri, "tool-mcp-x", None)
    assert caught.value.hints == ("install it: `apt install nodejs`",)
    with pytest.raises(SourceUriError, match="it runs as it is"):
        maker.lock(uri)
    pinned = LockedModule(uri.text, mcp=_SAID)
    assert maker.lock(uri, previous=pinned) == maker.relock(uri, pinned, NO_RULES) == pinned
    assert parse_lock(lock_text([pinned])).modules == (pinned,)
