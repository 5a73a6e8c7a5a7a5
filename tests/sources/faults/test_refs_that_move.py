"""What was locked stays what it was, whatever becomes of the names that it was found by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from failures import failing
from paddock_sources import GitUri
from paddock_sources.cache import SourceCache
from paddock_sources.commands.command_runner import CommandRunner
from paddock_sources.provisioner import Provisioner
from sources.faults.one_host import provisioner
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import git_uri, module_files, module_repository
from sources.git_server import GitServer

ID = "tool-greet"
INDEX = "http://127.0.0.1:1/simple"

MakeProvisioner = Callable[..., Provisioner]


@pytest.fixture
def origin(server: GitServer) -> OriginRepository:
    return module_repository(server.folder / ID)


@pytest.fixture
def provisioner_of(
    server: GitServer, cache: SourceCache, runner: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> MakeProvisioner:
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)

    def make(kept: SourceCache = cache, *, offline: bool = False) -> Provisioner:
        return provisioner(kept, INDEX, runner, offline=offline)

    return make


def uri_of(server: GitServer, ref: str = "") -> GitUri:
    return git_uri(server.address(ID, ref))


def move_tag(origin: OriginRepository) -> None:
    origin.commit(dict(module_files(answer="'other'")))
    origin.git("tag", "--force", "v1")


def force_push(origin: OriginRepository) -> None:
    origin.git("tag", "--delete", "v1")
    origin.commit(dict(module_files(answer="'other'")))
    other = origin.git("commit-tree", "main^{tree}", "-m", "history was rewritten")
    origin.git("update-ref", "refs/heads/main", other)


def delete_tag(origin: OriginRepository) -> None:
    origin.git("tag", "--delete", "v1")


def delete_branch(origin: OriginRepository) -> None:
    origin.git("tag", "--delete", "v1")
    origin.git("checkout", "-q", "--orphan", "other")
    origin.commit({"other.py": "1"})
    origin.git("branch", "-D", "main")


@pytest.mark.parametrize(
    ("ref", "act", "now", "afresh"),
    [
        ("v1", move_tag, None, None),  # `main` still leads to what it was
        ("main", force_push, None, "ImpostorCommitError"),
        ("v1", delete_tag, "RefNotFoundError", None),
        ("main", delete_branch, "RefNotFoundError", "ImpostorCommitError"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_was_locked_is_what_is_provided(
    ref: str,
    act: Callable[[OriginRepository], None],
    now: str | None,
    afresh: str | None,
    origin: OriginRepository,
    server: GitServer,
    provisioner_of: MakeProvisioner,
    tmp_path: Path,
) -> None:
    """`now` is what comes of looking at the name again, `afresh` of fetching what was locked into another cache."""
    uri, ours = uri_of(server, ref), provisioner_of()
    locked = ours.lock(uri)
    before = ours.provide(uri, ID, locked)
    act(origin)
    server.forget()
    assert ours.provide(uri, ID, locked) == before
    assert not server.requests
    if now is None:
        assert ours.supply(uri).pin(uri).commit != locked.commit
    else:
        with failing(now):
            ours.supply(uri).pin(uri)
    with SourceCache(tmp_path / "other") as other:
        elsewhere = provisioner_of(other)
        if afresh is None:
            assert elsewhere.provide(uri, ID, locked).tree == before.tree
        else:
            with failing(afresh):
                elsewhere.provide(uri, ID, locked)
    assert provisioner_of(offline=True).provide(uri, ID, locked) == before


def test_a_lock_file_that_was_made_for_another_s_tree_is_not_followed(
    origin: OriginRepository, server: GitServer, provisioner_of: MakeProvisioner, tmp_path: Path
) -> None:
    uri = uri_of(server, "v1")
    locked = provisioner_of().lock(uri)
    wrong = replace(locked, tree="sha256:" + "0" * 64)
    for cache in (tmp_path / "cache", tmp_path / "other"):
        with SourceCache(cache) as kept, failing("PinMismatchError"):
            provisioner_of(kept).provide(uri, ID, wrong)


def test_offline_what_the_cache_lacks_is_named(
    origin: OriginRepository, server: GitServer, provisioner_of: MakeProvisioner, tmp_path: Path
) -> None:
    uri = uri_of(server, "v1")
    locked = provisioner_of().lock(uri)
    server.forget()
    with SourceCache(tmp_path / "other") as empty, failing("OfflineError") as caught:
        provisioner_of(empty, offline=True).provide(uri, ID, locked)
    assert server.host in str(caught.value) and locked.commit in str(caught.value)
    assert caught.value.hints == ("fetch it first, without `offline`",)
    assert not server.requests
