"""The host's own folder is there as long as the host is, and one that was killed leaves it to the next to remove."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from paddock.workers.scratch import PrivateFolder, sweep
from paddock.workers.worker_host import WorkerHost

_PATIENCE = 60.0
_HOST = f"""
import sys
sys.path[:0] = {[str(Path(paddock.__file__).parents[1])]}
from pathlib import Path
from paddock.workers.scratch import PrivateFolder
folder = PrivateFolder().path
(folder / "deep" / "deeper").mkdir(parents=True)
(folder / "deep" / "file").write_text("left")
print(folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def host(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", _HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    ) as host:
        yield host
        host.kill()


def folder_of(host: subprocess.Popen[str]) -> Path:
    assert host.stdout is not None
    return Path(host.stdout.readline().strip())


def left_by(host: subprocess.Popen[str]) -> Path:
    folder = folder_of(host)
    host.kill()
    host.wait(_PATIENCE)
    return folder


def test_the_folder_of_a_host_that_was_killed_is_swept_away(host: subprocess.Popen[str], temporary: Path) -> None:
    left = left_by(host)
    assert (left / "deep" / "file").exists()
    sweep()
    assert os.listdir(temporary) == []


async def test_a_session_begins_by_sweeping(host: subprocess.Popen[str], temporary: Path, tmp_path: Path) -> None:
    left = left_by(host)
    async with WorkerHost.started() as workers:
        assert not left.exists()
        assert os.listdir(temporary) == [workers.folder.name]
    assert os.listdir(temporary) == []


def test_the_folder_of_a_host_that_lives_stays(host: subprocess.Popen[str]) -> None:
    folder, own = folder_of(host), PrivateFolder()
    for _ in range(2):
        sweep()
        assert (folder / "deep" / "file").exists()
        assert own.path.exists()
    own.remove()


def test_what_has_another_name_or_others_may_look_into_stays(host: subprocess.Popen[str], temporary: Path) -> None:
    left = left_by(host)
    left.chmod(0o755)
    renamed = temporary / "paddock-of-mine"
    renamed.mkdir(mode=0o700)
    sweep()
    assert {*os.listdir(temporary)} == {left.name, renamed.name}
    left.chmod(0o700)
    sweep()
    assert os.listdir(temporary) == [renamed.name]


@pytest.mark.skipif(os.geteuid() != 0, reason=f"only root can give a folder away, not user {os.geteuid()}")
def test_what_belongs_to_another_user_stays(host: subprocess.Popen[str]) -> None:
    left = left_by(host)
    os.chown(left, 4242, 4242)
    sweep()
    assert (left / "deep" / "file").exists()


def test_no_link_is_followed(host: subprocess.Popen[str], tmp_path: Path) -> None:
    left, mine = left_by(host), tmp_path / "mine"
    mine.mkdir(mode=0o700)
    (mine / "precious").touch()
    (left / "link").symlink_to(mine)
    sweep()
    assert not left.exists()
    left.symlink_to(mine)
    sweep()
    assert left.is_symlink()
    assert (mine / "precious").exists()


def test_the_target_of_a_link_that_is_swapped_in_keeps_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own, mine, unlink = PrivateFolder(), tmp_path / "mine", os.unlink
    mine.mkdir()
    mine.chmod(0o755)
    (mine / "precious").touch()
    (own.path / "a").mkdir()

    def raced(entry: str, *, dir_fd: int) -> None:
        try:
            unlink(entry, dir_fd=dir_fd)
        except IsADirectoryError:  # as one does that still runs, between two steps of the removal
            os.rmdir(entry, dir_fd=dir_fd)
            os.symlink(mine, entry, dir_fd=dir_fd)
            raise

    monkeypatch.setattr(os, "unlink", raced)
    own.remove()
    assert stat.S_IMODE(mine.stat().st_mode) == 0o755
    assert (mine / "precious").exists()
    assert "cannot be removed" in caplog.text


def test_folders_that_are_closed_to_their_owner_are_removed() -> None:
    """Told by a child, which is an ordinary user's: nothing is closed to root."""
    closed = f"""
import os, sys, tempfile
sys.path[:0] = {[str(Path(paddock.__file__).parents[1])]}
from paddock.workers.scratch import PrivateFolder
tempfile.tempdir = sys.argv[1]
if os.geteuid() == 0:
    os.setuid(65534)
own = PrivateFolder()
(own.path / "a" / "b").mkdir(parents=True)
for folder in ("a/b", "a"):
    (own.path / folder).chmod(0)
own.remove()
print(own.path.exists())
"""
    with tempfile.TemporaryDirectory(dir="/tmp") as open_to_all:
        os.chmod(open_to_all, 0o777)
        command = [sys.executable, "-c", closed, open_to_all]
        run = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    assert run.stdout == "False\n", run.stderr


def test_without_file_locks_a_host_sweeps_no_other_folders(
    host: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    left = left_by(host)
    monkeypatch.setattr(fcntl, "flock", refused)
    own = PrivateFolder()
    assert own.path.exists()
    sweep()
    assert left.exists() and own.path.exists()
    own.remove()
    assert not own.path.exists()


def test_a_folder_that_is_swept_before_it_is_locked_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = [], tempfile.mkdtemp

    def raced(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            sweep()  # as another host does that starts at this moment
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", raced)
    own = PrivateFolder()
    assert [Path(folder).exists() for folder in made] == [False, True]
    own.remove()
