"""Bubblewrap is told to show exactly what a profile names; where it cannot be used, that is an error with a reason."""

from __future__ import annotations

import dataclasses
import json
import os
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from host.workers.conftest import Launch
from host.workers.levels import BWRAP, Levels, Way
from host.workers.waiting import PATIENCE, answer, ended, here
from paddock.errors import LaunchError
from paddock.workers import bwrap as bubblewrap
from paddock.workers.bwrap import bubblewrap_command
from paddock.workers.exec_launcher import ExecLauncher
from paddock.workers.launcher import LaunchSpec
from paddock_sandbox.profile import Mount, NetworkAccess

with_bubblewrap = pytest.mark.parametrize("way", [BWRAP], ids=str, indirect=True)


@pytest.fixture
def spec(levels: Levels, tmp_path: Path) -> LaunchSpec:
    made = levels.spec("bwrap", tmp_path)
    mounts = (Mount("/usr/lib", "/usr/lib", mappable=True), Mount("/home/her", "/work", writable=True))
    return dataclasses.replace(made, profile=dataclasses.replace(made.profile, mounts=mounts, tmp_bytes=12345))


@pytest.fixture
def a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have it seem that an ordinary user has bubblewrap, which is not run; return where it is."""
    program = tmp_path / "bwrap"
    program.touch(0o755)
    monkeypatch.setattr(bubblewrap, "_PATH", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    return program


def options(command: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the options of a command, each with what follows it."""
    starts = [place for place, word in enumerate(command) if word.startswith("--")]
    return [command[start:end] for start, end in pairwise([*starts, len(command)])]


def test_a_kept_small_program_is_the_systems_own(spec: LaunchSpec, a_user: Path) -> None:
    command = bubblewrap_command(spec)
    assert command[0] == str(a_user)
    assert command[-1] == "--"


def test_every_namespace_is_asked_for(spec: LaunchSpec, a_user: Path) -> None:
    asked = {name for name, *_ in options(bubblewrap_command(spec))}
    assert {f"--unshare-{kind}" for kind in ("user", "ipc", "pid", "net", "uts", "cgroup-try")} <= asked
    assert {"--as-pid-1", "--new-session", "--die-with-parent"} <= asked


def test_what_the_profile_names_is_bound_with_its_rights_and_in_its_order(spec: LaunchSpec, a_user: Path) -> None:
    interpreter = str(spec.runtime.interpreter)
    bound = [option for option in options(bubblewrap_command(spec)) if option[0] in ("--bind", "--ro-bind")]
    assert bound == [
        ("--ro-bind", interpreter, interpreter),
        ("--ro-bind", "/usr/lib", "/usr/lib"),
        ("--bind", "/home/her", "/work"),
    ]


def test_the_private_folder_is_bounded_and_made_before_what_may_lie_in_it(spec: LaunchSpec, a_user: Path) -> None:
    asked = options(bubblewrap_command(spec))
    size = asked.index(("--size", "12345"))
    assert asked[size + 1] == ("--tmpfs", "/tmp")
    assert size < min(place for place, option in enumerate(asked) if option[0] in ("--bind", "--ro-bind"))


def test_nothing_else_is_shown_but_five_devices(spec: LaunchSpec, a_user: Path) -> None:
    asked = options(bubblewrap_command(spec))
    devices = [option[1] for option in asked if option[0] == "--dev-bind"]
    assert sorted(devices) == ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"]
    assert {option[0] for option in asked}.isdisjoint({"--dev", "--proc", "--bind-try", "--overlay", "--share-net"})


def test_the_root_is_closed_to_changes_after_all_else(spec: LaunchSpec, a_user: Path) -> None:
    asked = options(bubblewrap_command(spec))
    assert asked[-3:] == [("--remount-ro", "/"), ("--chdir", "/"), ("--",)]


def test_capabilities_are_left_for_a_network_and_for_nothing_else(spec: LaunchSpec, a_user: Path) -> None:
    def asked(network: NetworkAccess | None) -> list[tuple[str, ...]]:
        profile = dataclasses.replace(spec.profile, network=network)
        command = bubblewrap_command(dataclasses.replace(spec, profile=profile))
        return [option for option in options(command) if option[0].startswith("--cap")]

    assert asked(None) == []
    assert asked(NetworkAccess((443,))) == [("--cap-add", "CAP_NET_ADMIN"), ("--cap-add", "CAP_NET_BIND_SERVICE")]


async def test_where_bubblewrap_is_not_installed_the_error_says_what_to_install(
    spec: LaunchSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "_PATH", str(tmp_path / "empty"))
    launcher = ExecLauncher(None, bubblewrap_command)
    with pytest.raises(LaunchError) as refused:
        await launcher.launch(spec)
    await launcher.aclose()
    assert (refused.value.step, refused.value.message) == ("bubblewrap", "the program bwrap is not installed")
    assert "install the package `bubblewrap`" in refused.value.hints


async def test_a_program_in_the_callers_own_path_is_not_taken_for_the_systems(
    spec: LaunchSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bwrap").touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(bubblewrap, "_PATH", str(tmp_path / "empty"))
    with pytest.raises(LaunchError, match="not installed"):
        bubblewrap_command(spec)


def test_root_is_refused_and_told_what_to_use(spec: LaunchSpec, a_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    with pytest.raises(LaunchError) as refused:
        bubblewrap_command(spec)
    assert refused.value.step == "bubblewrap"
    assert "it would leave the worker root" in refused.value.message
    assert "use isolation ns" in refused.value.hints


@with_bubblewrap
async def test_a_worker_behind_bubblewrap_sees_its_profile_alone(start: Launch, tmp_path: Path) -> None:
    granted = tmp_path / "granted"
    granted.mkdir()
    (granted / "file").touch()
    acts = [("list", "/"), ("list", "/dev"), ("list", str(tmp_path)), ("list", "/etc"), ("list", "/proc")]
    process = await start("tries", environ=(("ACTS", json.dumps(acts)),), mounts=[Mount(str(granted), str(granted))])
    root, devices, above, etc, proc = json.loads(await answer(process))
    assert {"home", "root", "sys", "proc", "var", "run", "boot"}.isdisjoint(root.split(",") if root else [])
    assert {*devices.split(",")} == {"fd", "full", "null", "random", "shm", "urandom", "zero"}
    assert above == "granted"
    assert {*etc.split(",")} <= {"ld.so.cache", "localtime", "os-release"}
    assert proc == "ENOENT"


@with_bubblewrap
async def test_what_cannot_be_bound_is_told_in_bubblewraps_words(levels: Levels, way: Way, scratch: Path) -> None:
    launcher = levels.launcher(way)
    with anyio.fail_after(PATIENCE), pytest.raises(LaunchError, match="Can't find source path /no/such/place"):
        await launcher.launch(levels.spec(way.level, scratch, mounts=[Mount("/no/such/place", "/x")]))
    await launcher.aclose()


@with_bubblewrap
async def test_bubblewrap_itself_ends_with_its_worker(start: Launch) -> None:
    process = await start()
    await here(process)
    process.rpc.close()
    assert (await ended(process)).code == 0  # that nothing else is left is seen after the test
