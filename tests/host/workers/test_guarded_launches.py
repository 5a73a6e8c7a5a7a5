"""A file that its user saves at the moment at which a worker mounts it costs one more launch."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from host.workers.conftest import Launch, by
from host.workers.levels import NS, Levels
from host.workers.waiting import PATIENCE
from paddock.errors import LaunchError
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.mount_guard import guarded_launcher
from paddock.workers.process import ModuleProcess
from paddock_sandbox.profile import Mount, SandboxProfile


@dataclass
class _Failing:
    """Fails each launch with the next of these errors, and hands a process out after the last."""

    errors: Iterator[LaunchError]
    launched: list[LaunchSpec] = field(default_factory=list)

    async def launch(self, spec: LaunchSpec) -> Any:
        self.launched.append(spec)
        for error in self.errors:
            raise error
        return "a process"


class _UntilOneFails:
    """Launches workers while a file is replaced again and again, until one of them fails; then each launch is one."""

    def __init__(self, launcher: Launcher, file: str) -> None:
        self._launcher = launcher
        self._file = file
        self.failed: LaunchError | None = None

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        if self.failed is None:
            with saving(self._file), anyio.fail_after(PATIENCE):
                while True:
                    try:
                        await (await self._launcher.launch(spec)).abandon()
                    except LaunchError as error:
                        self.failed = error
                        raise
        return await self._launcher.launch(spec)


@contextmanager
def saving(file: str) -> Iterator[None]:
    """Replace a file without end, as an editor does that saves it."""
    is_over = threading.Event()

    def save() -> None:
        while not is_over.is_set():
            Path(f"{file}~").write_text("export A=2")
            os.rename(f"{file}~", file)

    thread = threading.Thread(target=save)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@dataclass
class _Following:
    """Guards nothing, and notes what it was to guard."""

    followed: list[Sequence[Mount]] = field(default_factory=list)

    def prepare(self) -> None:
        """Start nothing."""

    async def follow(self, name: str, process: Any, mounts: Sequence[Mount], unheld: Sequence[Mount] = ()) -> None:
        self.followed.append(mounts)


@pytest.fixture
def guarded(spec: LaunchSpec, tmp_path: Path) -> LaunchSpec:
    """A module that may write to a folder with a start-up file in it."""
    file = tmp_path / ".envrc"
    file.write_text("export A=1")
    mounts = (Mount(str(tmp_path), str(tmp_path), writable=True), Mount(str(file), str(file)))
    return replace(spec, profile=SandboxProfile("ns", mounts, scratch="/scratch"))


def _fails(spec: LaunchSpec, target: str, number: int = errno.ENOENT) -> LaunchError:
    return LaunchError(spec.name, f"mount {target}", "move_mount: it cannot be mounted", errno=number)


async def _launches(guarded: LaunchSpec, *errors: LaunchError) -> tuple[int, list[Sequence[Mount]]]:
    launcher, guard = _Failing(iter(errors)), _Following()
    around = guarded_launcher(launcher, guard, guarded.profile)  # type: ignore[arg-type]
    assert await around.launch(guarded) == "a process"
    return len(launcher.launched), guard.followed


async def test_a_file_replaced_while_it_is_mounted_is_mounted_anew(guarded: LaunchSpec) -> None:
    file = guarded.profile.mounts[1]
    assert await _launches(guarded, _fails(guarded, file.target)) == (2, [(file,)])


@by(NS)
async def test_a_worker_starts_though_its_guarded_file_is_just_saved(
    start: Launch, levels: Levels, tmp_path: Path
) -> None:
    file = tmp_path / ".envrc"
    file.write_text("export A=1")
    mounts = [Mount(str(tmp_path), str(tmp_path), writable=True), Mount(str(file), str(file))]
    guard, launcher = _Following(), _UntilOneFails(start.launcher, str(file))
    spec = levels.spec("ns", tmp_path, mounts=mounts)
    process = await guarded_launcher(launcher, guard, spec.profile).launch(spec)  # type: ignore[arg-type]
    await process.abandon()
    assert launcher.failed is not None and launcher.failed.errno == errno.ENOENT
    assert len(guard.followed) == 1


async def test_a_file_that_was_removed_meanwhile_is_left_out(guarded: LaunchSpec) -> None:
    file = guarded.profile.mounts[1]
    launcher = _Failing(iter([_fails(guarded, file.target)]))
    os.unlink(file.source)
    await guarded_launcher(launcher, _Following(), guarded.profile).launch(guarded)  # type: ignore[arg-type]
    assert [one.profile.mounts for one in launcher.launched] == [guarded.profile.mounts[:1]] * 2


@pytest.mark.parametrize(
    ("target", "number", "errors", "launches"),
    [
        pytest.param("/usr", errno.ENOENT, 1, {1}, id="another place"),
        pytest.param("", errno.EPERM, 1, {1}, id="another reason"),
        pytest.param("", errno.ENOENT, 100, {*range(2, 10)}, id="replaced without end"),
    ],
)
async def test_any_other_failure_and_one_without_end_are_reported(
    guarded: LaunchSpec, target: str, number: int, errors: int, launches: set[int]
) -> None:
    error = _fails(guarded, target or guarded.profile.mounts[1].target, number)
    launcher = _Failing(iter([error] * errors))
    with pytest.raises(LaunchError):
        await guarded_launcher(launcher, _Following(), guarded.profile).launch(guarded)  # type: ignore[arg-type]
    assert len(launcher.launched) in launches
