"""A cache that cannot be added to: what is there is provided, and what is not is refused by what stood in the way."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from paddock_sources import SourceError
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandRunner
from paddock_sources.commands.direct_runner import DirectRunner
from sources.faults.one_host import provisioner
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import below, git_uri, module_files, module_repository, repository
from sources.git_server import GitServer

ID = "tool-greet"
INDEX = "http://127.0.0.1:1/simple"
_DISK_BYTES = 4 << 20


def mounted(place: Path, *options: str) -> None:
    """Mount something at a folder; skips where that cannot be done."""
    if os.geteuid() != 0:
        pytest.skip(f"only root can mount a file system, not user {os.geteuid()}")
    done = subprocess.run(["mount", *options, str(place)], capture_output=True, encoding="utf-8", timeout=60)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def unmounting() -> Iterator[list[Path]]:
    """Give back, in the end, what a test has mounted."""
    places: list[Path] = []
    yield places
    for place in places:
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=60)


@pytest.fixture
def origin(tmp_path: Path) -> OriginRepository:
    return module_repository(tmp_path / ID)


@pytest.fixture(params=[pytest.param("direct", marks=pytest.mark.exhaustive), "shut in"])
def any_runner(request: pytest.FixtureRequest) -> CommandRunner:
    if request.param == "direct":
        return DirectRunner()
    return request.getfixturevalue("shut_in")  # type: ignore[no-any-return]


@pytest.mark.parametrize("large_files", [1, 400], ids=["git-has-no-room", "its-files-have-no-room"])
def test_on_a_full_disk_what_is_there_is_provided(
    tmp_path: Path, unmounting: list[Path], origin: OriginRepository, any_runner: CommandRunner, large_files: int
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted(disk, "-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=0700", "tmpfs")
    unmounting.append(disk)
    uri = git_uri(f"{origin.address}@main")
    with SourceCache(disk / "cache") as cache:
        ours = provisioner(cache, INDEX, any_runner)
        locked = ours.lock(uri)
        good = ours.provide(uri, ID, locked)
        # Either the pack is too large already, or, of what is the same many times, only the files.
        content = random.Random(5).randbytes(8 << 20 if large_files == 1 else 40_000)
        origin.commit({f"data/file{number}": content for number in range(large_files)})
        with pytest.raises(SourceError) as caught:
            ours.lock(uri)
        told = "\n".join([str(caught.value), *caught.value.hints])
        assert "no space left" in told.lower() or "disk is full" in told, told
        assert "paddock cache" in told and not list((disk / "cache" / "tmp").iterdir())
        assert ours.provide(uri, ID, locked) == good
        assert cache.upkeep.verify() == ()
        origin.git("reset", "-q", "--hard", "HEAD~1")
        smaller = origin.commit({"more.py": "1"})
        assert ours.lock(uri).commit == smaller  # and there is room again for what is small


def test_a_read_only_cache_provides_only_what_it_has(
    tmp_path: Path, unmounting: list[Path], origin: OriginRepository, any_runner: CommandRunner
) -> None:
    place = tmp_path / "cache"
    uri = git_uri(f"{origin.address}@main")
    with SourceCache(place) as cache:
        ours = provisioner(cache, INDEX, any_runner)
        locked = ours.lock(uri)
        good = ours.provide(uri, ID, locked)
    mounted(place, "--bind", str(place))
    unmounting.append(place)
    mounted(place, "-o", "remount,bind,ro")
    with SourceCache(place) as cache:
        ours = provisioner(cache, INDEX, any_runner)
        assert ours.provide(uri, ID, locked) == good and not ours.missing(locked)
        origin.commit({"more.py": "1"})
        with pytest.raises(SourceError) as caught:
            ours.lock(uri)
        assert caught.value.code == "ReadOnlyCacheError" and str(place) in str(caught.value)
        assert any("PADDOCK_CACHE_DIR" in hint for hint in caught.value.hints)


def test_a_second_module_of_a_repository_fetches_nothing(
    tmp_path: Path, server: GitServer, cache: SourceCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    files = below("one", module_files("tool-one")) | below("two", module_files("tool-two"))
    commit = repository(server.folder / "both", files).git("rev-parse", "HEAD")
    ours = provisioner(cache, INDEX, DirectRunner())

    def take(ref: str, folder: str) -> Sequence[str]:
        server.forget()
        uri = git_uri(server.address("both", ref, subdirectory=folder))
        ours.provide(uri, f"tool-{folder}", ours.lock(uri))
        return server.asked("fetch")

    assert take("main", "one")
    assert not take("main", "two")  # only what `main` is was asked
    assert not take("v1", "two")
    assert not take(commit, "two") and not server.requests
