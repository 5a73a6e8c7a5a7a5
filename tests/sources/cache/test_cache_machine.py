"""Whatever hosts do to one cache at once, wherever they are killed: what can be seen is whole, what is used stays."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from paddock_sources.cache import SourceCache
from sources.cache.other_hosts import ADD_STAGES, Act, OtherHosts, assert_whole, digest_of, write_tree
from support.examples import IN_FULL

NUMBERS = st.integers(1, 3)
ACTS = st.one_of(
    st.builds(Act, st.just("add"), NUMBERS, st.sampled_from(["", "", *ADD_STAGES])),
    st.builds(Act, st.just("get"), NUMBERS),
    st.builds(Act, st.sampled_from(["prune", "clean"]), st.just(0), st.sampled_from(["", "", "moved out"])),
    st.builds(Act, st.just("verify")),
)


@pytest.fixture(scope="module")
def hosts() -> Iterator[OtherHosts]:
    with OtherHosts() as hosts:
        yield hosts


def machine_of(hosts: OtherHosts, scratch: Path) -> type[RuleBasedStateMachine]:
    class CacheMachine(RuleBasedStateMachine):
        """Hosts of this process, which keep what they got, beside others, which come, act at once, and are killed."""

        open_hosts = Bundle("open_hosts")

        def __init__(self) -> None:
            super().__init__()
            self.folder = Path(tempfile.mkdtemp(dir=scratch)) / "cache"
            self.used: dict[SourceCache, dict[int, Path]] = {}

        def teardown(self) -> None:
            for cache in self.used:
                cache.close()
            with SourceCache(self.folder) as cache:
                cache.upkeep.clean()
                assert cache.trees.entries() == ()
            shutil.rmtree(self.folder.parent)

        @rule(target=open_hosts)
        def open(self) -> SourceCache:
            cache = SourceCache(self.folder)
            self.used[cache] = {}
            return cache

        @rule(cache=open_hosts, number=NUMBERS)
        def add(self, cache: SourceCache, number: int) -> None:
            self.used[cache][number] = cache.trees.add_tree(write_tree(number)).root

        @rule(cache=open_hosts, number=NUMBERS)
        def get(self, cache: SourceCache, number: int) -> None:
            found = cache.trees.tree(digest_of(number))
            if found is not None:
                self.used[cache][number] = found.root
            else:
                assert number not in self.used[cache]

        @rule(cache=open_hosts)
        def close(self, cache: SourceCache) -> None:
            cache.close()
            self.used[cache].clear()

        @rule(cache=open_hosts)
        def clean(self, cache: SourceCache) -> None:
            cache.upkeep.clean()

        @rule(acts=st.lists(ACTS, min_size=1, max_size=4))
        def others_act_at_once(self, acts: list[Act]) -> None:
            ends = hosts.run(self.folder, *acts)
            for act, end in zip(acts, ends, strict=True):
                assert end == "done" or (act.killed_at and end == "killed"), f"{act}: {end}"

        @rule(number=NUMBERS)
        def damage(self, number: int) -> None:
            with SourceCache(self.folder) as cache:
                place = cache.trees.place(digest_of(number))
                if any(number in used for used in self.used.values()) or cache.trees.get(digest_of(number)) is None:
                    return
                file = place / "tree.d/folder0/file0.py"
                file.chmod(0o644)
                file.write_bytes(b"")
                assert digest_of(number) in [found.name for found in cache.upkeep.verify()]
                assert cache.trees.get(digest_of(number)) is None

        @invariant()
        def what_can_be_seen_is_whole(self) -> None:
            with SourceCache(self.folder) as cache:
                for number in (1, 2, 3):
                    found = cache.trees.tree(digest_of(number))
                    if found is not None:
                        assert_whole(found.root, number)

        @invariant()
        def what_is_used_stays(self) -> None:
            for used in self.used.values():
                for number, root in used.items():
                    assert_whole(root, number)

    return CacheMachine


def test_visible_cache_entries_are_whole_and_used_ones_stay(hosts: OtherHosts, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine_of(hosts, folder),
        settings=settings(
            max_examples=25 if IN_FULL else 5,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
