"""Snapshots of folders: what is in them, what is left out, and what cannot be taken."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from failures import failing
from paddock_sources import snapshot as snapshots
from paddock_sources.cache import SourceCache, tree_digest
from paddock_sources.errors import SourceError
from paddock_sources.file import FileSource
from paddock_sources.snapshot import snapshot
from paddock_sources.uri import FolderUri, parse_source
from sources.module_folder import make_module

_SECONDS = 0.005  # for a folder that did not change


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_module(tmp_path / "my-module")


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink())


def test_a_snapshot_is_what_the_folder_is(folder: Path, cache: SourceCache) -> None:
    (folder / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    entry = snapshot(folder, cache)
    assert files(entry.root) == files(folder)
    assert entry.digest == tree_digest(folder) == tree_digest(entry.root)
    assert entry.root.is_relative_to(cache.folder)


def test_a_folder_is_one_snapshot_until_it_changes(folder: Path, cache: SourceCache) -> None:
    first = snapshot(folder, cache)
    assert snapshot(folder, cache) == first
    file = folder / "amplifier_module_tool_demo/__init__.py"
    before = file.stat()
    text = file.read_bytes()
    file.write_bytes(text.replace(b"None", b"Nope"))  # of the same size, at what is said to be the same time
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = snapshot(folder, cache)
    assert second.digest != first.digest
    file.write_bytes(text)
    assert snapshot(folder, cache) == first
    assert (first.root / "amplifier_module_tool_demo/__init__.py").read_bytes() == text


LEFT_OUT = [
    ".git",
    ".hg",
    ".svn",
    "__pycache__",
    ".venv",
    "venv",
    "node_modules",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "my_module.egg-info",
]


@pytest.mark.parametrize("name", LEFT_OUT)
def test_leftovers_of_tools_stay_behind_wherever_they_are(folder: Path, cache: SourceCache, name: str) -> None:
    before = snapshot(folder, cache)
    for place in (folder, folder / "amplifier_module_tool_demo"):
        (place / name).mkdir()
        (place / name / "file").write_text("x", encoding="utf-8")
    assert snapshot(folder, cache) == before


def test_a_worktree_has_a_file_that_stays_behind(folder: Path, cache: SourceCache) -> None:
    before = snapshot(folder, cache)
    (folder / ".git").write_text("gitdir: /elsewhere", encoding="utf-8")
    assert snapshot(folder, cache) == before


@pytest.mark.parametrize("name", [".github", "venvs", ".gitignore", "x__pycache__", "egg-info"])
def test_what_is_only_called_alike_is_taken(folder: Path, cache: SourceCache, name: str) -> None:
    (folder / name).mkdir()
    (folder / name / "file").write_text("x", encoding="utf-8")
    assert f"{name}/file" in files(snapshot(folder, cache).root)


def test_what_is_neither_file_nor_folder_nor_link_stays_behind(
    folder: Path, cache: SourceCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(folder, cache)
    os.mkfifo(folder / "fifo")
    monkeypatch.chdir(folder)  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert snapshot(folder, cache) == before


REFUSED: dict[str, Callable[[Path], object]] = {
    "link that leads out": lambda folder: (folder / "bad").symlink_to("../../secret"),
    "absolute link": lambda folder: (folder / "bad").symlink_to("/etc/passwd"),
    "two names that are one": lambda folder: ((folder / "bad").touch(), (folder / "BAD").touch()),
    "control character": lambda folder: (folder / "bad\n").touch(),
    "not UTF-8": lambda folder: (folder / os.fsdecode(b"bad\xff")).touch(),
    "much too deep": lambda folder: (folder / "/".join(["bad"] * 66)).mkdir(parents=True),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_what_no_module_may_have_is_refused_by_name(
    folder: Path, cache: SourceCache, make: Callable[[Path], object]
) -> None:
    snapshot(folder, cache)
    entries = cache.trees.entries()
    make(folder)
    with failing("SnapshotError", r"(?i)bad") as caught:
        snapshot(folder, cache)
    assert any("--dev" in hint for hint in caught.value.hints)
    assert cache.trees.entries() == entries


def test_a_link_that_replaces_a_folder_meanwhile_is_not_followed(
    folder: Path, cache: SourceCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "key").write_text("secret")
    package = folder / "amplifier_module_tool_demo"
    scan = os.scandir

    def swapping(place: Any) -> Any:
        if not isinstance(place, int):
            return scan(place)
        with scan(place) as entries:
            found = [*entries]
        if not package.is_symlink():
            package.rename(tmp_path / "away")
            package.symlink_to(tmp_path / "keys")
        return nullcontext(found)

    monkeypatch.setattr(os, "scandir", swapping)
    with failing("SnapshotError", "amplifier_module_tool_demo.*cannot be read"):
        snapshot(folder, cache)
    assert not cache.trees.entries()


def test_a_held_folder_is_copied_and_none_that_took_its_place(folder: Path, cache: SourceCache, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    other = make_module(tmp_path / "other")
    (other / "other").touch()
    held = parse_source(f"{tmp_path}/link").held()
    assert isinstance(held, FolderUri)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(other)
    assert snapshot(held.folder, cache, held.place) == snapshot(folder, cache)
    folder.rename(tmp_path / "away")
    for replace in (folder.mkdir, lambda: folder.symlink_to(other)):
        replace()
        with failing("SourceMovedError", "not the folder any more"):
            snapshot(held.folder, cache, held.place)
        with failing("SourceMovedError", "not the folder any more"):
            FileSource(held.folder, live=True, place=held.place).resolve("tool-demo")
        if not folder.is_symlink():
            folder.rmdir()


def test_countless_names_are_refused_also_if_none_is_a_file(
    folder: Path, cache: SourceCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MAX_NAMES", 100)
    snapshot(folder, cache)
    for number in range(60):
        (folder / f"empty-{number}").mkdir()
    snapshot(folder, cache)
    for number in range(60):
        os.mkfifo(folder / "empty-0" / f"{number}")
    with failing("SnapshotError", "more than 100 names"):
        snapshot(folder, cache)


def test_a_huge_file_is_refused_before_it_is_read_to_its_end(folder: Path, cache: SourceCache) -> None:
    with open(folder / "huge", "wb") as file:
        file.truncate(1 << 40)
    with failing("SnapshotError", "larger than 64 MiB"):
        snapshot(folder, cache)


@pytest.mark.skipif(os.geteuid() == 0, reason=f"user {os.geteuid()}, root, can read everything")
def test_what_cannot_be_read_is_named(folder: Path, cache: SourceCache) -> None:
    (folder / "secret").touch(mode=0)
    with failing("SnapshotError", r"secret.*permission denied"):
        snapshot(folder, cache)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.touch()])
def test_what_is_no_folder_is_said(tmp_path: Path, cache: SourceCache, make: Callable[[Path], object]) -> None:
    make(tmp_path / "thing")
    with failing("SnapshotError", r"thing"):
        snapshot(tmp_path / "thing", cache)


def test_a_folder_that_is_the_package_is_kept_under_its_name(folder: Path, cache: SourceCache) -> None:
    entry = snapshot(folder / "amplifier_module_tool_demo", cache)
    assert files(entry.root) == ["amplifier_module_tool_demo/__init__.py"]


def test_a_folder_that_changes_all_the_time_is_whole_in_every_snapshot(tmp_path: Path, cache: SourceCache) -> None:
    folder = tmp_path / "busy"
    folder.mkdir()
    (folder / "file").write_text("start", encoding="utf-8")
    is_over = threading.Event()

    def change() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            (folder / "new").write_text(str(number), encoding="utf-8")
            os.replace(folder / "new", folder / "file")

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(20):
            with suppress(SourceError):  # a file went in the moment before it was to be read
                entry = snapshot(folder, cache)
                assert tree_digest(entry.root) == entry.digest
    finally:
        is_over.set()
        changer.join(20)
    assert cache.upkeep.verify() == ()
    (folder / "new").unlink(missing_ok=True)
    assert tree_digest(snapshot(folder, cache).root) == tree_digest(folder)


def test_a_folder_that_did_not_change_is_only_read(tmp_path: Path, cache: SourceCache) -> None:
    folder = tmp_path / "module"
    folder.mkdir()
    for number in range(30):
        (folder / f"file{number}.py").write_text("value = 1\n" * 300, encoding="utf-8")
    snapshot(folder, cache)
    changed_at = cache.folder.joinpath("tmp").stat().st_mtime_ns
    seconds = []
    for _ in range(20):
        before = time.thread_time()
        snapshot(folder, cache)
        seconds.append(time.thread_time() - before)
    assert min(seconds) < _SECONDS
    assert cache.folder.joinpath("tmp").stat().st_mtime_ns == changed_at
