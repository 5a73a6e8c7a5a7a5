"""A host that is killed leaves nothing that looks complete and is not, and nothing that stays for ever."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock_sources.cache import SourceCache
from sources.cache.other_hosts import (
    ADD_STAGES,
    Act,
    OtherHosts,
    assert_whole,
    digest_of,
    write_tree,
)
from support.examples import IN_FULL


@pytest.fixture(scope="module")
def hosts() -> Iterator[OtherHosts]:
    with OtherHosts() as hosts:
        yield hosts


def assert_sound(folder: Path) -> None:
    """Fail unless all that can be seen is whole, what is not can be added, and what the dead left can be taken away."""
    with SourceCache(folder) as cache:
        assert cache.upkeep.verify() == ()
        for number in (1, 2):
            found = cache.trees.tree(digest_of(number))
            if found is not None:
                assert_whole(found.root, number)
            assert_whole(cache.trees.add_tree(write_tree(number)).root, number)
        cache.upkeep.prune(1e9)
        assert os.listdir(folder / "tmp") == []
    with SourceCache(folder) as cache:
        cache.upkeep.clean()
        assert cache.trees.entries() == ()
        assert os.listdir(folder / "tmp") == []


def test_the_stages_are_those_that_there_are(folder: Path) -> None:
    stages: list[str] = []
    cache = SourceCache(folder, stage=stages.append)
    cache.trees.add_tree(write_tree(1))
    assert stages == [name for name in ADD_STAGES if name != "file written"]
    cache.close()
    del stages[:]
    cache.upkeep.clean()
    assert stages == ["moved out"]


@pytest.mark.parametrize("stage", ADD_STAGES)
def test_a_host_killed_while_it_adds_leaves_the_cache_sound(folder: Path, hosts: OtherHosts, stage: str) -> None:
    assert hosts.run(folder, Act("add", 2)) == ["done"]
    assert hosts.run(folder, Act("add", 1, killed_at=stage)) == ["killed"]
    with SourceCache(folder) as cache:
        assert cache.trees.get(digest_of(2)) is not None
        is_there = cache.trees.get(digest_of(1)) is not None
    assert is_there == (stage == "renamed")
    assert_sound(folder)


@pytest.mark.parametrize("stage", ADD_STAGES)
def test_a_host_killed_while_mending_an_entry_leaves_a_sound_cache(folder: Path, hosts: OtherHosts, stage: str) -> None:
    hosts.run(folder, Act("add", 1))
    with SourceCache(folder) as cache:
        damage(cache, 1)
        assert len(cache.upkeep.verify()) == 1
    assert hosts.run(folder, Act("add", 1, killed_at=stage)) == ["killed"]
    with SourceCache(folder) as cache:
        cache.trees.add_tree(write_tree(1))
    assert_sound(folder)


@pytest.mark.parametrize("what", ["prune", "clean"])
def test_a_host_killed_while_it_takes_away_leaves_the_cache_sound(folder: Path, hosts: OtherHosts, what: str) -> None:
    hosts.run(folder, Act("add", 1))
    assert hosts.run(folder, Act(what, killed_at="moved out")) == ["killed"]  # type: ignore[arg-type]
    assert SourceCache(folder).trees.get(digest_of(1)) is None
    assert len(os.listdir(folder / "tmp")) == 2  # its place, and the mark of who worked there
    (removed,) = (folder / "tmp").glob("*/removed")
    assert_whole(removed / "tree.d", 1)  # it went as a whole, before anything of it did
    assert_sound(folder)


def test_what_a_dead_host_used_can_be_taken_away(folder: Path, hosts: OtherHosts) -> None:
    hosts.run(folder, Act("add", 1, killed_at="renamed"))
    freed = SourceCache(folder).upkeep.clean()
    assert (freed.items, freed.in_use) == (1, ())


def test_several_hosts_that_add_the_same_at_once_all_get_it(folder: Path, hosts: OtherHosts) -> None:
    assert hosts.run(folder, *[Act("add", 1)] * 6) == ["done"] * 6
    with SourceCache(folder) as cache:
        assert cache.trees.entries() == (digest_of(1),)
        assert os.listdir(folder / "tmp") == []
    assert_sound(folder)


def test_hosts_that_add_while_others_take_away_get_what_they_added(folder: Path, hosts: OtherHosts) -> None:
    acts = [Act("add", 1), Act("clean"), Act("add", 1), Act("get", 1), Act("clean"), Act("add", 2), Act("verify")]
    for _ in range(5 if IN_FULL else 2):
        assert hosts.run(folder, *acts) == ["done"] * len(acts)
    assert_sound(folder)


def test_what_the_living_build_is_not_swept_away(folder: Path) -> None:
    with SourceCache(folder) as cache, cache.trees.begin() as building:
        writer_folder = building.folder
        other = SourceCache(folder)
        other.trees.add_tree(write_tree(2))
        other.upkeep.clean()
        assert writer_folder.is_dir()


def test_what_is_swept_is_what_the_dead_left(folder: Path, hosts: OtherHosts) -> None:
    hosts.run(folder, Act("add", 1, killed_at="file written"))
    assert len(os.listdir(folder / "tmp")) == 2
    SourceCache(folder).trees.add_tree(write_tree(2))  # the first that is added by anybody
    assert os.listdir(folder / "tmp") == []


def damage(cache: SourceCache, number: int) -> None:
    """Change a file of an entry, as a broken disk or a careless person would."""
    file = cache.trees.place(digest_of(number)) / "tree.d/folder0/file0.py"
    file.chmod(0o644)
    file.write_bytes(b"")
