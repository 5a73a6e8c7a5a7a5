"""Bubblewrap is told to show exactly what a profile names; where it cannot be used, that is an error with a reason."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from host.workers.conftest import Launch, by
from host.workers.levels import BWRAP, Levels
from host.workers.waiting import answer, ended, here
from paddock.errors import LaunchError, LevelFailure
from paddock.isolation.machine import Machine
from paddock.isolation.remedies import remedy
from paddock.workers import bwrap as bubblewrap
from paddock.workers.bwrap import BubblewrapCommand, BubblewrapLauncher, bubblewrap_command
from paddock.workers.launcher import LaunchSpec
from paddock_sandbox.mounts import open_places
from paddock_sandbox.profile import Mount, NetworkAccess

with_bubblewrap = by(BWRAP)


@pytest.fixture
def spec(levels: Levels, tmp_path: Path) -> LaunchSpec:
    made = levels.spec("bwrap", tmp_path)
    (tmp_path / "hers").mkdir()
    mounts = (Mount("/usr/lib", "/usr/lib", mappable=True), Mount(str(tmp_path / "hers"), "/work", writable=True))
    return dataclasses.replace(made, profile=dataclasses.replace(made.profile, mounts=mounts, tmp_bytes=12345))


@pytest.fixture
def a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have it seem that an ordinary user has bubblewrap, which is not run; return where it is."""
    program = tmp_path / "bwrap"
    program.touch(0o755)
    monkeypatch.setattr(bubblewrap, "_PATH", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    return program


def command_of(spec: LaunchSpec) -> tuple[str, ...]:
    """Return the command for a launch, with each descriptor replaced by the path it leads to."""
    interpreter = str(spec.runtime.interpreter)
    mounts = (Mount(interpreter, interpreter), *spec.profile.mounts)
    with ExitStack() as opened:
        places = open_places(mount.source for mount in mounts)
        for place in places:
            opened.callback(os.close, place)
        command = bubblewrap_command(spec, mounts, places, opened, opened)
        paths = {str(fd): os.readlink(f"/proc/self/fd/{fd}") for fd in command.fds}
        return tuple(paths.get(word, word) for word in command.words)


def options(command: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the options of a command, each with what follows it."""
    starts = [place for place, word in enumerate(command) if word.startswith("--")]
    return [command[start:end] for start, end in pairwise([*starts, len(command)])]


def test_a_command_asks_for_every_namespace_and_the_profile_alone(spec: LaunchSpec, a_user: Path) -> None:
    command = command_of(spec)
    assert (command[0], command[-1]) == (str(a_user), "--")
    asked = options(command)
    names = {name for name, *_ in asked}
    assert {f"--unshare-{kind}" for kind in ("user", "ipc", "pid", "net", "uts", "cgroup-try")} <= names
    assert {"--as-pid-1", "--new-session", "--die-with-parent"} <= names
    assert names.isdisjoint({"--dev", "--bind-try", "--overlay", "--share-net"})
    interpreter = str(spec.runtime.interpreter)
    bound = [option for option in asked if "bind" in option[0] and option[0] != "--dev-bind"]
    assert bound == [  # with its rights, and in its order
        ("--ro-bind-fd", interpreter, interpreter),
        ("--ro-bind-fd", "/usr/lib", "/usr/lib"),
        ("--bind-fd", spec.profile.mounts[1].source, "/work"),
    ]
    size = asked.index(("--size", "12345"))
    assert asked[size + 1] == ("--tmpfs", "/tmp"), "the private folder is bounded"
    assert size < asked.index(bound[0]), "and made before what may lie in it"
    devices = [option[1] for option in asked if option[0] == "--dev-bind"]
    assert sorted(devices) == ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"]
    assert asked[-3:] == [("--remount-ro", "/"), ("--chdir", "/"), ("--",)], "the root is closed after all else"


def test_what_belongs_below_another_mount_is_staged(spec: LaunchSpec, a_user: Path) -> None:
    inner = Mount("/usr/share", "/work/inner")
    profile = dataclasses.replace(spec.profile, mounts=(*spec.profile.mounts, inner, Mount("/usr/bin", "/workshop")))
    asked = options(command_of(dataclasses.replace(spec, profile=profile)))
    bound = {option[1]: option[2] for option in asked if option[0] == "--ro-bind-fd"}
    assert (bound["/usr/share"], bound["/usr/bin"]) == ("/.staged/3", "/workshop")
    folder = asked.index(("--tmpfs", "/.staged"))
    assert folder < asked.index(("--ro-bind-fd", "/usr/share", "/.staged/3"))


def test_capabilities_are_left_for_mounts_and_a_network_alone(spec: LaunchSpec, a_user: Path) -> None:
    def asked(network: NetworkAccess | None) -> list[tuple[str, ...]]:
        profile = dataclasses.replace(spec.profile, network=network)
        command = command_of(dataclasses.replace(spec, profile=profile))
        return [option for option in options(command) if option[0].startswith("--cap")]

    mount, *network = (("--cap-add", f"CAP_{one}") for one in ("SYS_ADMIN", "NET_ADMIN", "NET_BIND_SERVICE"))
    assert asked(None) == [mount]
    assert asked(NetworkAccess((443,))) == [mount, *network]


async def test_where_bubblewrap_is_not_installed_the_error_says_what_to_install(
    spec: LaunchSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "_PATH", str(tmp_path / "empty"))
    (tmp_path / "bwrap").touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")  # where the system's is not looked for
    launcher = BubblewrapLauncher()
    with pytest.raises(LaunchError) as refused:
        await launcher.launch(spec)
    await launcher.aclose()
    assert (refused.value.step, refused.value.message) == ("bubblewrap", "the program bwrap is not installed")
    assert "install the package `bubblewrap`" in refused.value.hints


def test_root_is_refused_and_told_what_to_use(spec: LaunchSpec, a_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    with pytest.raises(LaunchError) as refused:
        command_of(spec)
    assert refused.value.step == "bubblewrap"
    assert "it would leave the worker root" in refused.value.message
    assert "use isolation ns" in refused.value.hints


def capabilities_of(pid: int) -> tuple[int, int]:
    """Return those that a process is permitted, and those in effect."""
    lines = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["CapPrm"], 16), int(lines["CapEff"], 16)


@with_bubblewrap
async def test_a_worker_behind_bubblewrap_sees_its_profile_alone(start: Launch, levels: Levels, tmp_path: Path) -> None:
    granted = tmp_path / "granted"
    granted.mkdir()
    (granted / "file").touch()
    acts = [("list", "/"), ("list", "/dev"), ("list", str(tmp_path)), ("list", "/etc"), ("list", "/proc")]
    process = await start("tries", environ=(("ACTS", json.dumps(acts)),), mounts=[Mount(str(granted), str(granted))])
    root, devices, above, etc, proc = json.loads(await answer(process))
    shown = [
        str(levels.runtime.interpreter),
        str(granted),
        *(mount.target for mount in levels.spec("bwrap", tmp_path).profile.mounts),
    ]
    assert {*root.split(",")} == {"dev", "etc", "proc", "sys", "tmp", *(path.split("/")[1] for path in shown)}
    assert {*devices.split(",")} == {"fd", "full", "null", "ptmx", "pts", "random", "shm", "urandom", "zero"}
    assert above == "granted"
    accounts = {"passwd", "group", "hosts", "nsswitch.conf"}
    assert accounts <= {*etc.split(",")} <= {"ld.so.cache", "localtime", "os-release", *accounts}
    assert {name for name in proc.split(",") if not name.isdigit()} == {"self", "thread-self"}
    waiting = await start()  # the other one ends with its answer
    assert [capabilities_of(pid) for pid in (waiting.init_pid, waiting.pid)] == [(0, 0)] * 2  # nor the right to mount


@with_bubblewrap
async def test_where_no_proc_can_be_mounted_workers_start_without(
    start: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def masked(*parts: Any, with_proc: bool) -> BubblewrapCommand:
        tried.append(with_proc)
        command = bubblewrap_command(*parts, with_proc=with_proc)
        words = tuple("--refused" if word == "--proc" else word for word in command.words)
        return dataclasses.replace(command, words=words)

    tried: list[bool] = []
    monkeypatch.setattr(bubblewrap, "bubblewrap_command", masked)
    for _ in range(2):
        assert (await start()).ready.missing == ("/proc",)
    assert tried == [True, False, False]


@pytest.fixture
def an_older_one(a_user: Path) -> None:
    """Have bubblewrap answer as one from before it took descriptors."""
    a_user.write_text('#!/bin/sh\necho "bwrap: Unknown option --ro-bind-fd" >&2\nexit 1\n')


async def test_a_bubblewrap_that_takes_no_descriptors_starts_nothing(
    levels: Levels, an_older_one: None, scratch: Path
) -> None:
    start = Launch(levels.launcher(BWRAP), partial(levels.spec, "bwrap", scratch))
    error = await start.refused()
    await start.end()
    failure = LevelFailure(error.step, error.errno, error.message)
    machine = Machine(uid=1000, has_bubblewrap=True)
    assert "0.10 and newer" in remedy("bwrap", failure, machine)


@with_bubblewrap
async def test_a_mount_below_another_is_where_it_belongs(start: Launch, tmp_path: Path) -> None:
    """With its own rights, in both directions, and nothing stays where it was staged."""
    for folder in ("closed/open", "open/closed"):
        (tmp_path / folder).mkdir(parents=True)
    paths = ("closed", "closed/open", "open", "open/closed")
    mounts = [Mount(str(tmp_path / path), str(tmp_path / path), writable=path.endswith("open")) for path in paths]
    places = [f"{mount.target}/new" for mount in mounts]
    acts = [*(("write", place) for place in places), ("list", "/.staged")]
    process = await start("tries", environ=(("ACTS", json.dumps(acts)),), mounts=mounts)
    assert json.loads(await answer(process)) == ["EROFS", "ok", "ok", "EROFS", ""]
    assert [(tmp_path / path / "new").exists() for path in paths] == [False, True, True, False]


@with_bubblewrap
async def test_a_mount_behind_a_link_is_refused(start: Launch, tmp_path: Path) -> None:
    """As where another module swaps a folder for a link, in the moment before something in it is mounted."""
    outer, elsewhere, granted = (tmp_path / name for name in ("outer", "elsewhere", "granted"))
    for folder in (outer, elsewhere / "inner", granted):
        folder.mkdir(parents=True)
    (outer / "link").symlink_to("../elsewhere")
    mounts = [
        Mount(str(elsewhere), str(elsewhere)),
        Mount(str(outer), str(outer)),
        Mount(str(granted), str(outer / "link" / "inner")),
    ]
    error = await start.refused(mounts=mounts)
    assert (error.step, error.errno) == (f"mount {outer / 'link' / 'inner'}", errno.ELOOP)


@with_bubblewrap
async def test_bubblewrap_itself_ends_with_its_worker(start: Launch) -> None:
    process = await start()
    await here(process)
    process.rpc.close()
    assert (await ended(process)).code == 0  # that nothing else is left is seen after the test
