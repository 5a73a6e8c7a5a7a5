"""A disk that is full, for real: it is said, nothing half-made can be seen, and all goes on once there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.cache import Bucket, SourceCache, TreeWriter
from sources.cache.other_hosts import assert_whole, digest_of, write_tree

_BYTES = 4 << 20
KEY = "sha256:" + "d" * 64


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB."""
    if os.geteuid() != 0:
        pytest.skip(f"only root can mount a small file system, not user {os.geteuid()}")
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_BYTES},mode=0700", "tmpfs", str(place)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def large(tree: TreeWriter) -> None:
    for number in range(10):
        tree.add_file(f"file{number}", False, [os.urandom(1 << 20)])


def large_site(folder: Path) -> None:
    for number in range(10):
        (folder / f"file{number}").write_bytes(os.urandom(1 << 20))


def test_what_does_not_fit_is_said_and_leaves_nothing(small_disk: Path) -> None:
    cache = SourceCache(small_disk / "cache")
    cache.trees.add_tree(write_tree(1))
    free = os.statvfs(small_disk).f_bfree
    for act in (
        lambda: cache.trees.add_tree(large),
        lambda: cache.store(Bucket.ENVIRONMENTS).add(KEY, large_site),
    ):
        with failing("DiskFullError") as caught:
            act()
        assert str(small_disk) in caught.value.summary
        assert os.listdir(small_disk / "cache/tmp") == []
        assert os.statvfs(small_disk).f_bfree >= free - 2
    assert cache.trees.entries() == (digest_of(1),)
    assert cache.store(Bucket.ENVIRONMENTS).get(KEY) is None
    assert_whole(cache.trees.add_tree(write_tree(2)).root, 2)
    assert cache.upkeep.verify() == ()


def test_on_a_full_disk_what_is_there_is_used_and_can_be_taken_away(small_disk: Path) -> None:
    with SourceCache(small_disk / "cache") as cache:
        cache.trees.add_tree(write_tree(1))
    with open(small_disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    with SourceCache(small_disk / "cache") as cache:
        found = cache.trees.tree(digest_of(1))
        assert found is not None
        assert_whole(found.root, 1)
        with failing("DiskFullError"):
            cache.trees.add_tree(write_tree(2))
        with failing("DiskFullError"):
            cache.repositories.note("https://host", "a" * 40, {"tree": "t" * 10_000})
    with SourceCache(small_disk / "cache") as cache:
        assert cache.upkeep.verify() == ()
        assert cache.upkeep.clean().items == 1
        assert_whole(cache.trees.add_tree(write_tree(2)).root, 2)
