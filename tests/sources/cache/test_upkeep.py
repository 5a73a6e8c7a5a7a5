"""What is in the cache is told, verified and taken away, by people and by age, whatever the clock says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock_sources.cache import Bucket, SourceCache
from paddock_sources.cache.upkeep import PruneResult
from sources.cache.other_hosts import digest_of, write_tree

KEY = "sha256:" + "b" * 64
URL = "https://host/repository"
COMMIT = "c" * 40
DAY = 86_400.0
NOON = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def build(folder: Path) -> None:
    (folder / "site").mkdir()
    (folder / "site/module.py").write_bytes(b"x" * 1000)


def fill(cache: SourceCache) -> None:
    """Put one thing of each kind into a cache."""
    cache.trees.add_tree(write_tree(1))
    cache.store(Bucket.ENVIRONMENTS).add(KEY, build, {"distributions": ["a==1"]})
    cache.store(Bucket.METADATA).add(KEY, lambda folder: (folder / "a-1.dist-info").mkdir())
    with cache.repositories.locked(URL, 1) as folder:
        (folder / "repo.git").mkdir()
        (folder / "repo.git/config").write_bytes(b"y" * 500)
    cache.repositories.note(URL, COMMIT, {"tree": digest_of(1)})
    with cache.downloads() as downloads:
        (downloads / "uv").mkdir()
        (downloads / "uv/wheel.whl").write_bytes(b"z" * 200)
    cache.close()


def names(cache: SourceCache) -> list[str]:
    return [item.name for item in cache.upkeep.list()]


def test_all_there_is_is_listed(folder: Path, clock: Clock) -> None:
    cache = SourceCache(folder, clock=clock)
    fill(cache)
    items = {item.bucket: item for item in cache.upkeep.list()}
    assert {bucket: item.name for bucket, item in items.items()} == {
        Bucket.TREES: digest_of(1),
        Bucket.ENVIRONMENTS: KEY,
        Bucket.METADATA: KEY,
        Bucket.GIT: URL,
        Bucket.DOWNLOADS: "files of installers",
    }
    env = items[Bucket.ENVIRONMENTS]
    assert (env.bytes, env.files, env.made_at, env.used_at) == (1000, 1, NOON, NOON)
    assert env.facts == {"distributions": ["a==1"]}
    assert env.path == folder / "envs-v1" / ("b" * 64)
    sizes = cache.upkeep.size()
    assert sizes["envs-v1"] == 1000
    assert sizes["git-v1"] == 500 + len(URL) + 1
    assert sizes["downloads-v1"] == 200
    assert sizes["commits-v1"] > 0
    assert sizes["tmp"] == 0


def test_of_a_cache_that_is_not_there_there_is_nothing(folder: Path) -> None:
    cache = SourceCache(folder)
    assert (cache.upkeep.list(), cache.upkeep.verify(), cache.upkeep.prune(0), cache.upkeep.clean()) == (
        (),
        (),
        PruneResult(0, 0),
        PruneResult(0, 0),
    )
    assert set(cache.upkeep.size().values()) == {0}
    assert not folder.exists()


def test_cleaning_takes_all_away_and_says_what_it_was(folder: Path) -> None:
    cache = SourceCache(folder)
    fill(cache)
    size = sum(item.bytes for item in cache.upkeep.list())
    older = folder / "trees-v0" / "abc"
    older.mkdir(parents=True)
    (older / "code.py").write_text("12345678")
    (folder / "other-v1").mkdir()
    assert cache.upkeep.clean() == PruneResult(6, size + 8)
    assert not older.exists() and (folder / "other-v1").exists()
    assert cache.upkeep.list() == ()
    assert set(cache.upkeep.size().values()) == {0}
    assert cache.repositories.commit(URL, COMMIT) is None
    fill(cache)  # and it is as good as new


def test_what_was_not_used_for_long_is_pruned(folder: Path, clock: Clock) -> None:
    cache = SourceCache(folder, clock=clock)
    fill(cache)
    clock.now += 29 * DAY
    assert cache.upkeep.prune(30 * DAY) == PruneResult(0, 0)
    cache.trees.add_tree(write_tree(2))
    cache.close()
    clock.now += 2 * DAY
    assert cache.upkeep.prune(30 * DAY).items == 5
    assert names(cache) == [digest_of(2)]
    assert cache.repositories.commit(URL, COMMIT) is None


def use_tree(cache: SourceCache) -> None:
    cache.trees.get(digest_of(1))


def use_repository(cache: SourceCache) -> None:
    with cache.repositories.locked(URL, 1):
        pass


def use_downloads(cache: SourceCache) -> None:
    with cache.downloads():
        pass


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (use_tree, digest_of(1)),
        (use_repository, URL),
        (use_downloads, "files of installers"),
    ],
)
def test_what_was_used_since_is_not_pruned(
    folder: Path, clock: Clock, use: Callable[[SourceCache], None], name: str
) -> None:
    cache = SourceCache(folder, clock=clock)
    fill(cache)
    clock.now += 29 * DAY
    use(cache)
    cache.close()
    clock.now += 2 * DAY
    assert cache.upkeep.prune(30 * DAY).items == 4
    assert names(cache) == [name]


def test_a_commit_that_was_asked_for_since_is_not_forgotten(folder: Path, clock: Clock) -> None:
    cache = SourceCache(folder, clock=clock)
    fill(cache)
    cache.repositories.note(URL, "d" * 40, {})
    clock.now += 29 * DAY
    assert cache.repositories.commit(URL, COMMIT) is not None
    clock.now += 2 * DAY
    cache.upkeep.prune(30 * DAY)
    assert cache.repositories.commit(URL, COMMIT) == {"tree": digest_of(1)}
    assert cache.repositories.commit(URL, "d" * 40) is None


def test_a_clock_that_goes_backwards_breaks_nothing(folder: Path, clock: Clock) -> None:
    cache = SourceCache(folder, clock=clock)
    fill(cache)
    clock.now -= 1000 * DAY
    assert cache.trees.get(digest_of(1)) is not None  # which notes the time that it is now
    cache.close()
    assert cache.upkeep.prune(30 * DAY) == PruneResult(0, 0)  # what comes from the future was used just now
    assert all(item.used_at is None or item.used_at <= clock.now for item in cache.upkeep.list())
    clock.now += 31 * DAY
    assert [name for name in names(cache) if name == digest_of(1)]
    cache.upkeep.prune(30 * DAY)
    assert digest_of(1) not in names(cache)
    assert len(names(cache)) == 4
    cache.upkeep.prune(0)
    clock.now += 1
    cache.upkeep.clean()
    assert names(cache) == []


def test_no_age_is_all_that_is_not_in_use(folder: Path, clock: Clock) -> None:
    cache = SourceCache(folder, clock=clock)
    fill(cache)
    use_tree(cache)
    clock.now += 1
    freed = cache.upkeep.prune(0)
    assert freed.items == 4
    assert names(cache) == [digest_of(1)]


# -- what is in use


def test_a_repository_that_is_worked_on_stays(folder: Path) -> None:
    cache = SourceCache(folder)
    fill(cache)
    with SourceCache(folder).repositories.locked(URL, 1):
        freed = cache.upkeep.clean()
        assert [(used.bucket, used.name) for used in freed.in_use] == [(Bucket.GIT, URL)]
        assert names(cache) == [URL]
    assert cache.upkeep.clean().items == 1


def test_downloads_that_installers_work_on_stay(folder: Path) -> None:
    cache = SourceCache(folder)
    fill(cache)
    with cache.downloads() as downloads, SourceCache(folder).downloads():
        assert [used.bucket for used in cache.upkeep.clean().in_use] == [Bucket.DOWNLOADS]
        assert (downloads / "uv/wheel.whl").exists()
    assert cache.upkeep.clean().items == 1


# -- what is damaged


def write(path: str, content: bytes = b"other") -> Callable[[Path], None]:
    def change(entry: Path) -> None:
        target = entry / path
        target.parent.chmod(0o755)
        if target.exists():
            target.chmod(0o644)
        target.write_bytes(content)

    return change


def link_out(entry: Path) -> None:
    (entry / "site").chmod(0o755)
    (entry / "site/link").symlink_to("/etc/passwd")


def lose(entry: Path) -> None:
    (entry / "site").chmod(0o755)
    (entry / "site/module.py").unlink()


def make_executable(entry: Path) -> None:
    (entry / "site/module.py").chmod(0o555)


def make_fifo(entry: Path) -> None:
    os.mkfifo(entry / "fifo")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "changed": write("site/module.py"),
    "changed, of the same size": write("site/module.py", b"y" * 1000),
    "emptied, as after a power cut": write("site/module.py", b""),
    "a file more": write("site/sitecustomize.py"),
    "a file more beside it": write("more.py"),
    "a link more": link_out,
    "a file less": lose,
    "executable": make_executable,
    "something else": make_fifo,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_what_is_damaged_is_found_refused_and_pruned(folder: Path, damage: Callable[[Path], None]) -> None:
    cache = SourceCache(folder)
    fill(cache)
    assert cache.upkeep.verify() == ()
    store = cache.store(Bucket.ENVIRONMENTS)
    damage(store.place(KEY))
    (found,) = cache.upkeep.verify()
    assert (found.bucket, found.name, found.path, found.is_refused) == (
        Bucket.ENVIRONMENTS,
        KEY,
        store.place(KEY),
        True,
    )
    assert store.get(KEY) is None
    assert store.marker(KEY) is None
    (again,) = cache.upkeep.verify()
    assert (again.name, again.problem) == (KEY, "it was found damaged before")
    assert [item.name for item in cache.upkeep.list() if item.is_damaged] == [KEY]
    assert cache.upkeep.prune(1000 * DAY).items == 1
    assert cache.upkeep.verify() == ()
    assert store.add(KEY, build) == store.get(KEY)


def test_a_tree_that_is_another_is_found_though_its_marker_agrees(folder: Path) -> None:
    cache = SourceCache(folder)
    one, other = cache.trees.add_tree(write_tree(1)), cache.trees.add_tree(write_tree(2))
    cache.close()
    os.rename(one.root.parent, folder / "away")
    os.rename(other.root.parent, one.root.parent)
    (one.root.parent / "ok").write_bytes(
        (folder / "away/ok").read_bytes().replace(one.digest.encode(), other.digest.encode(), 1)
    )
    (found,) = cache.upkeep.verify()
    assert found.name == one.digest
    assert cache.trees.get(one.digest) is None


def test_a_damaged_entry_that_is_in_use_stays_until_it_is_not(folder: Path) -> None:
    cache, user = SourceCache(folder), SourceCache(folder)
    fill(cache)
    place = user.store(Bucket.ENVIRONMENTS).get(KEY)
    assert place is not None
    write("site/module.py")(place)
    assert len(cache.upkeep.verify()) == 1
    assert [used.name for used in cache.upkeep.prune(0).in_use] == [KEY]
    assert (place / "site/module.py").exists()
    assert cache.store(Bucket.ENVIRONMENTS).get(KEY) is None
    user.close()
    assert cache.upkeep.prune(1000 * DAY).items == 1


def test_a_malformed_record_is_found_and_not_believed(folder: Path) -> None:
    cache = SourceCache(folder)
    fill(cache)
    (record,) = (folder / "commits-v1").glob("*/*")
    record.write_bytes(b'{"tree": ')
    assert cache.repositories.commit(URL, COMMIT) is None
    (found,) = cache.upkeep.verify()
    assert (found.bucket, found.name) == (Bucket.COMMITS, COMMIT)
    cache.repositories.note(URL, COMMIT, {"tree": "t"})
    assert cache.upkeep.verify() == ()


def test_folders_of_other_names_are_left_alone(folder: Path) -> None:
    cache = SourceCache(folder)
    fill(cache)
    (folder / "trees-v2/notes").mkdir()
    (folder / "git-v1/notes").mkdir()
    assert len(cache.upkeep.list()) == 5
    cache.upkeep.clean()
    assert (folder / "trees-v2/notes").is_dir()
