"""What a worker has of its host: the socket, the two pipes, what it was granted, and nothing else."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from host.workers.conftest import Launch, with_entry
from host.workers.waiting import answer, here
from paddock.errors import LaunchError
from paddock.workers.launcher import Launcher, LaunchSpec


async def described(launch: Launch, **changes: object) -> dict[str, Any]:
    process = await launch("describes_itself", **changes)
    description: dict[str, Any] = json.loads(await answer(process))
    return description


def shown_of(pid: int) -> bytes:
    """Return what the system shows of a process to others."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


async def test_a_worker_has_exactly_the_environment_it_was_given(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_TEST_SECRET", "hunter2")
    own = await described(launch, environ={"GREETING": "hello", "TZ": "UTC"})
    assert own["environ"] == {"GREETING": "hello", "TZ": "UTC"}
    assert "hunter2" not in own["initial_environ"]


async def test_what_a_worker_was_given_is_not_on_any_command_line(launch: Launch) -> None:
    process = await launch("waits", environ={"API_KEY": "hunter2"})
    await here(process)
    for pid in (process.pid, process.init_pid):
        assert b"hunter2" not in shown_of(pid)


async def test_a_worker_inherits_no_descriptor_but_its_own(launch: Launch, tmp_path: Path) -> None:
    with (tmp_path / "canary").open("w") as canary:
        os.set_inheritable(canary.fileno(), True)
        own = await described(launch)
    fds = dict(own["fds"])
    assert set(fds) == {0, 1, 2, own["rpc"]}
    assert fds[0] == "/dev/null"
    assert fds[1].startswith("pipe:") and fds[2].startswith("pipe:") and fds[1] != fds[2]
    assert fds[own["rpc"]].startswith("socket:")
    assert own["stdin"] == ""


async def test_a_worker_can_import_the_runtime_and_nothing_else_of_the_host(launch: Launch) -> None:
    names = {
        "paddock_sdk": True,
        "paddock_sandbox": True,
        "msgpack": True,
        "pydantic": True,
        "amplifier_core": True,
        "amplifier_foundation": True,
        "json": True,
        "paddock": False,
        "paddock_sources": False,
        "click": False,
        "anyio": False,
        "pytest": False,
    }
    own = await described(launch, environ={"TRY": " ".join(names)})
    assert own["importable"] == names
    assert not [entry for entry in own["path"] if "site-packages" in entry or "paddock" in entry]
    assert own["versions"]["pydantic"] is not None
    assert own["versions"]["anyio"] is None


async def test_a_worker_starts_as_a_fresh_program_in_a_session_of_its_own(launch: Launch) -> None:
    own = await described(launch)
    session, group, pid = own["session"]
    assert session == group == pid
    assert own["umask"] == "0077"
    assert own["no_new_privs"] == "1"
    assert own["threads"] == 1
    assert own["blocked"] == 0
    # Signals 32 and 33 are the C library's own, out of a program's reach; `make` hands them on ignored.
    assert own["ignored"] & ~(0b11 << 31) == 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert own["argv"] == ["paddock-worker"]


async def test_a_worker_starts_in_its_working_directory(launch: Launch, tmp_path: Path) -> None:
    process = await launch("describes_itself", working_dir=tmp_path)
    assert json.loads(await answer(process))["cwd"] == str(tmp_path)
    assert process.ready.working_dir == str(tmp_path)


async def test_a_worker_that_cannot_enter_its_folder_starts_in_the_root(launch: Launch, tmp_path: Path) -> None:
    process = await launch("describes_itself", working_dir=tmp_path / "missing")
    assert json.loads(await answer(process))["cwd"] == "/"
    assert process.ready.working_dir == "/"


async def test_an_environment_that_is_too_large_is_refused_before_the_start(
    launcher: Launcher, spec: LaunchSpec
) -> None:
    with pytest.raises(LaunchError, match="its environment takes"):
        await launcher.launch(with_entry(spec, "waits", environ={"LARGE": "x" * (1 << 20)}))
