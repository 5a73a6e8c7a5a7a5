"""Entries: complete or not there, never changed, never taken away from those who use them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from failures import failing
from paddock_sources.cache import (
    Bucket,
    CacheError,
    EntryStore,
    SourceCache,
    TreeWriter,
    UnsafeTreeError,
    tree_digest,
)
from sources.cache.other_hosts import assert_whole, digest_of, write_tree
from support.rows import each_row

KEY = "sha256:" + "a" * 64
_GET_SECONDS = 0.0002  # that finding an entry may take


def build(folder: Path) -> None:
    (folder / "site/package").mkdir(parents=True)
    (folder / "site/package/module.py").write_text("VALUE = 1\n", encoding="utf-8")
    (folder / "site/program").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "site/program").chmod(0o755)


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in sorted(folder.rglob("*"))}


def facts_of(store: EntryStore, digest: str) -> Mapping[str, Any]:
    """Return what was noted of an entry that is there."""
    marker = store.marker(digest)
    assert marker is not None
    return marker.facts


# -- adding and getting


def test_what_was_added_is_got_by_everybody(folder: Path) -> None:
    added = SourceCache(folder).store(Bucket.ENVIRONMENTS).add(KEY, build, {"python": "3.11"})
    found = SourceCache(folder).store(Bucket.ENVIRONMENTS)
    assert found.get(KEY) == added == folder / "envs-v1" / ("a" * 64)
    assert found.get("a" * 64) == added
    assert facts_of(found, KEY) == {"python": "3.11"}
    assert found.entries() == (KEY,)
    assert (added / "site/package/module.py").read_text(encoding="utf-8") == "VALUE = 1\n"


def test_what_was_not_added_is_not_there_and_asking_leaves_no_trace(folder: Path) -> None:
    store = SourceCache(folder).store(Bucket.ENVIRONMENTS)
    assert (store.get(KEY), store.marker(KEY), store.used_at(KEY), store.entries()) == (None, None, None, ())
    assert not folder.exists()


def test_a_tree_is_added_by_what_it_turns_out_to_be(folder: Path) -> None:
    cache = SourceCache(folder)
    entry = cache.trees.add_tree(write_tree(1), {"commit": "c"})
    assert entry.digest == digest_of(1) == tree_digest(entry.root)
    assert entry.root == folder / "trees-v2" / entry.digest.removeprefix("sha256:") / "tree.d"
    assert cache.trees.tree(entry.digest) == entry
    assert facts_of(cache.trees, entry.digest) == {"commit": "c"}


def test_a_tree_added_by_its_digest_has_to_be_it(folder: Path) -> None:
    store = SourceCache(folder).trees

    def build_tree(at: Path) -> None:
        tree = TreeWriter(at / "tree.d")
        write_tree(1)(tree)
        tree.finish()

    with failing("DigestMismatchError") as caught:
        store.add(digest_of(2), build_tree)
    assert f"got something else: `{digest_of(1)}`" in caught.value.summary
    assert store.entries() == ()
    assert store.add(digest_of(1), build_tree) == store.get(digest_of(1))


def test_nothing_of_an_entry_can_be_changed(folder: Path) -> None:
    entry = SourceCache(folder).store(Bucket.ENVIRONMENTS).add(KEY, build)
    assert modes(entry / "site") == {"package": 0o555, "package/module.py": 0o444, "program": 0o555}
    assert stat.S_IMODE((entry / "site").stat().st_mode) == 0o555


def test_a_file_with_other_names_is_no_longer_the_same_file(folder: Path, tmp_path: Path) -> None:
    outside = folder.parent / "outside.py"
    outside.write_text("good", encoding="utf-8")

    def link(at: Path) -> None:
        os.link(outside, at / "module.py")

    entry = SourceCache(folder).store(Bucket.ENVIRONMENTS).add(KEY, link)
    outside.write_text("bad", encoding="utf-8")
    assert (entry / "module.py").read_text(encoding="utf-8") == "good"
    assert stat.S_IMODE(outside.stat().st_mode) != 0o444


def test_what_is_there_is_not_built_again(folder: Path) -> None:
    store = SourceCache(folder).store(Bucket.ENVIRONMENTS)
    added = store.add(KEY, build)

    def never(at: Path) -> None:
        raise AssertionError("built again")

    assert store.add(KEY, never) == added


def test_of_two_that_build_the_same_the_second_gets_what_the_first_added(folder: Path) -> None:
    first, second = SourceCache(folder), SourceCache(folder)

    def build_late(at: Path) -> None:
        build(at)
        first.store(Bucket.ENVIRONMENTS).add(KEY, build, {"by": "first"})

    entry = second.store(Bucket.ENVIRONMENTS).add(KEY, build_late, {"by": "second"})
    assert facts_of(second.store(Bucket.ENVIRONMENTS), KEY) == {"by": "first"}
    assert entry == first.store(Bucket.ENVIRONMENTS).get(KEY)
    assert os.listdir(folder / "tmp") == []


@pytest.mark.parametrize("error", [RuntimeError("no"), OSError(errno.EIO, "no"), KeyboardInterrupt()])
def test_what_fails_while_it_is_built_is_not_there(folder: Path, error: BaseException) -> None:
    store = SourceCache(folder).store(Bucket.ENVIRONMENTS)

    def fail(at: Path) -> None:
        build(at)
        raise error

    with pytest.raises(type(error)):
        store.add(KEY, fail)
    assert store.get(KEY) is None
    assert os.listdir(folder / "tmp") == []
    assert store.add(KEY, build) == store.get(KEY)


def test_what_no_machine_should_keep_is_not_kept(folder: Path) -> None:
    store = SourceCache(folder).store(Bucket.ENVIRONMENTS)
    with pytest.raises(UnsafeTreeError, match="pipe"):
        store.add(KEY, lambda at: os.mkfifo(at / "pipe"))
    assert store.get(KEY) is None


@each_row("digest", ["", "sha256:", "../" + "a" * 61, "A" * 64, "a" * 63, "sha256:sha256:" + "a" * 57])
def test_what_is_no_digest_is_never_a_path(folder: Path, digest: str) -> None:
    store = SourceCache(folder).trees
    for act in (store.get, store.marker, store.place, store.remove):
        with pytest.raises(ValueError, match="not a digest"):
            act(digest)


def test_an_entry_is_found_quickly(folder: Path) -> None:
    SourceCache(folder).trees.add_tree(write_tree(1))
    digest = digest_of(1)
    seconds = []
    for _ in range(20):
        cache = SourceCache(folder)
        cache.trees.get("b" * 64)  # what is done once for a cache is not what is measured
        before = time.thread_time()
        assert cache.trees.get(digest) is not None
        seconds.append(time.thread_time() - before)
        cache.close()
    assert min(seconds) < _GET_SECONDS


# -- what is damaged


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no marker": lambda entry: (entry / "ok").unlink(),
    "an empty marker": lambda entry: (entry / "ok").write_bytes(b""),
    "half a marker": lambda entry: (entry / "ok").write_bytes((entry / "ok").read_bytes()[:40]),
    "a marker that is no JSON": lambda entry: (entry / "ok").write_bytes(b"\xff\0"),
    "a marker nested without end": lambda entry: (entry / "ok").write_bytes(b"[" * 100_000),
    "a marker of another kind": lambda entry: (entry / "ok").write_bytes(b"[1]"),
    "another entry's marker": lambda entry: (entry / "ok").write_bytes(
        (entry / "ok").read_bytes().replace(digest_of(1).encode(), digest_of(2).encode())
    ),
}


@each_row("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_an_entry_without_a_good_marker_can_only_be_added_again(folder: Path, damage: Callable[[Path], object]) -> None:
    with SourceCache(folder) as cache:
        entry = cache.trees.add_tree(write_tree(1))
    damage(entry.root.parent)
    with SourceCache(folder) as cache:
        assert cache.trees.get(entry.digest) is None
        (found,) = cache.upkeep.verify()
        assert (found.name, found.is_refused) == (entry.digest, True)
        assert cache.trees.add_tree(write_tree(1)) == entry
        assert cache.upkeep.verify() == ()
        assert_whole(entry.root, 1)


# -- what is in use


def test_what_is_in_use_is_not_taken_away(folder: Path) -> None:
    user, other = SourceCache(folder), SourceCache(folder)
    entry = user.trees.add_tree(write_tree(1))
    other.trees.add_tree(write_tree(2))
    other.close()
    freed = other.upkeep.clean()
    assert [used.name for used in freed.in_use] == [digest_of(1)]
    assert freed.items == 1
    assert_whole(entry.root, 1)
    user.close()
    assert other.upkeep.clean().in_use == ()
    assert not entry.root.exists()


def test_what_was_got_is_in_use_as_what_was_added(folder: Path) -> None:
    with SourceCache(folder) as cache:
        cache.trees.add_tree(write_tree(1))
    user = SourceCache(folder)
    assert user.trees.get(digest_of(1)) is not None
    assert SourceCache(folder).upkeep.clean().items == 0
    user.close()
    assert SourceCache(folder).upkeep.clean().items == 1


def test_looking_at_entries_does_not_use_them(folder: Path) -> None:
    with SourceCache(folder) as cache:
        cache.trees.add_tree(write_tree(1))
    looker = SourceCache(folder)
    looker.upkeep.list()
    looker.upkeep.size()
    looker.upkeep.verify()
    looker.trees.marker(digest_of(1))
    assert looker.upkeep.clean().items == 1


def test_an_entry_taken_away_while_it_is_got_is_not_handed_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SourceCache(folder) as cache:
        cache.trees.add_tree(write_tree(1))

    def lock_late(descriptor: int, kind: int) -> None:
        monkeypatch.undo()
        assert kind & fcntl.LOCK_SH
        assert SourceCache(folder).upkeep.clean().items == 1
        fcntl.flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    cache = SourceCache(folder)
    assert cache.trees.get(digest_of(1)) is None
    assert_whole(cache.trees.add_tree(write_tree(1)).root, 1)


def test_an_entry_taken_away_by_hand_is_not_handed_out(folder: Path) -> None:
    cache = SourceCache(folder)
    entry = cache.trees.add_tree(write_tree(1))
    os.rename(entry.root.parent, folder / "elsewhere")
    assert cache.trees.get(entry.digest) is None
    assert cache.trees.add_tree(write_tree(1)) == entry
    assert_whole(entry.root, 1)


def test_a_cache_that_was_closed_can_be_used_again(folder: Path) -> None:
    cache = SourceCache(folder)
    entry = cache.trees.add_tree(write_tree(1))
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    cache.close()
    cache.close()
    if descriptors:
        assert len(os.listdir("/proc/self/fd")) == descriptors - 1
    assert cache.trees.tree(entry.digest) == entry
    cache.close()


# -- when things go wrong around it


@pytest.mark.parametrize("stage", ["content written", "sealed", "written out", "marked", "about to rename"])
def test_no_room_at_any_stage_is_said_and_leaves_nothing(folder: Path, stage: str) -> None:
    def fill(name: str) -> None:
        if name == stage and is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    is_full = True
    cache = SourceCache(folder, stage=fill)
    with failing("DiskFullError"):
        cache.trees.add_tree(write_tree(1))
    assert cache.trees.get(digest_of(1)) is None
    assert os.listdir(folder / "tmp") == []
    is_full = False
    assert_whole(cache.trees.add_tree(write_tree(1)).root, 1)


def test_a_bucket_that_is_something_else_is_said(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "trees-v2").write_text("", encoding="utf-8")
    with pytest.raises(CacheError):
        SourceCache(folder).trees.add_tree(write_tree(1))
    assert SourceCache(folder).trees.get(KEY) is None
