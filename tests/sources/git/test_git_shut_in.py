"""Git that is shut in, as it is for users, does all that it has to, at each level that this machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from failures import failing
from host.egress.certificates import TestAuthority
from paddock.isolation.commands.source_commands import SourceCommands
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandAccess, CommandSession
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.git.git_config import GitLimits
from paddock_sources.git.git_source import GitSource
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import git_uri
from sources.git_server import GitServer, store_credentials
from support.examples import repeating
from support.shut_in_commands import LEVELS, commands_at

# For what is the same code at each level: at the strongest that can be had.
at_a_level = pytest.mark.parametrize("commands", [None, *repeating(*LEVELS)], indirect=True)


@pytest.fixture(scope="module", params=LEVELS)
def commands(request: pytest.FixtureRequest) -> Iterator[SourceCommands]:
    with commands_at(request.param) as runner:
        yield runner


@pytest.mark.exhaustive("landlock")
def test_a_sandboxed_git_fetches_and_checks_sources(
    commands: SourceCommands, tmp_path: Path, cache: SourceCache
) -> None:
    origin = OriginRepository(tmp_path / "srv" / "tool")
    first = origin.commit({"a.py": "1"})
    origin.git("checkout", "-q", "--detach")
    pulled = origin.commit({"a.py": "evil"})
    origin.point("refs/pull/1/head", pulled)
    origin.git("checkout", "-q", "main")
    second = origin.commit({"a.py": "2"})
    home = tmp_path / "home"
    (tmp_path / "authority").mkdir()
    with GitServer(tmp_path / "srv", TestAuthority(tmp_path / "authority")) as server:
        server.private["tool"] = "ann:hunter2"
        store_credentials(home, server, "ann:hunter2")
        environ = {"HOME": str(home), "PATH": os.environ["PATH"], **server.environ}

        def source(address: str, ref: str) -> GitSource:
            uri = git_uri(f"{address}@{ref}")
            return GitSource(uri, cache, commands, direct=DirectRunner(environ), environ=environ)

        for address in (origin.address, server.address("tool")):
            assert source(address, "main").pin().commit == second
            assert (source(address, first).fetch(first).root / "a.py").read_text() == "1"
            with failing("ImpostorCommitError"):
                source(address, pulled).pin()
    with failing("UnreachableError"):
        source(server.address("tool"), "main").pin()


@at_a_level
def test_offline_files_are_made_again_from_objects_that_were_kept(commands: SourceCommands, tmp_path: Path) -> None:
    origin = OriginRepository(tmp_path / "tool")
    commit = origin.commit({"a.py": "1"})
    uri = git_uri(f"{origin.address}@{commit}")
    with SourceCache(tmp_path / "cache") as cache:
        GitSource(uri, cache, commands, direct=DirectRunner(), environ={}).pin()
    with SourceCache(tmp_path / "cache") as cache:
        assert all(cache.trees.remove(digest) for digest in cache.trees.entries())
        origin.folder.rename(tmp_path / "away")
        source = GitSource(uri, cache, commands, direct=DirectRunner(), environ={}, offline=True)
        assert (source.fetch(commit).root / "a.py").read_text() == "1"


@at_a_level
def test_what_is_larger_than_it_may_be_is_cut_off(commands: SourceCommands, tmp_path: Path) -> None:
    origin = OriginRepository(tmp_path / "tool")
    origin.commit({"large": os.urandom(300_000)})
    uri = git_uri(origin.address)
    for limits in (GitLimits(), GitLimits(pack_bytes=50_000)):
        with SourceCache(tmp_path / f"cache-{limits.pack_bytes}") as own:
            source = GitSource(uri, own, commands, direct=DirectRunner(), environ={}, limits=limits)
            if limits == GitLimits():
                assert source.pin()
                continue
            with failing("TooLargeError"):
                source.pin()


def test_a_repository_in_the_place_of_the_held_one_is_not_read(
    commands: SourceCommands, tmp_path: Path, cache: SourceCache
) -> None:
    """It is there while the sandbox is made, and gone when its name is looked at again."""
    origin, other = OriginRepository(tmp_path / "origin"), OriginRepository(tmp_path / "other")
    first = origin.commit({"a.py": "1"})
    other.commit({"a.py": "2"})
    away = tmp_path / "away"

    class Swapped:
        is_on = True

        @contextmanager
        def open(self, access: CommandAccess) -> Iterator[CommandSession]:
            if self.is_on:
                origin.folder.rename(away)
                other.folder.rename(origin.folder)
            with commands.open(access) as session:
                if self.is_on:
                    origin.folder.rename(other.folder)
                    away.rename(origin.folder)
                yield session

    uri = git_uri(f"{origin.address}@main", held=True)
    runner = Swapped()
    source = GitSource(uri, cache, runner, direct=DirectRunner({}), environ={})
    # At landlock the folder that was there may be read, and the one that is there now may not.
    with failing("SourceMovedError" if _level_of(commands) != "landlock" else "RepositoryNotFoundError"):
        source.pin()
    runner.is_on = False
    assert source.pin().commit == first


def _level_of(commands: SourceCommands) -> str:
    with commands.open(CommandAccess("level")) as session:
        return session.level
