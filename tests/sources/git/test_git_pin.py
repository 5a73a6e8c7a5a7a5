"""A ref is pinned to the commit that it is at, by whoever's word counts: a branch, a tag, or what they lead to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.git.errors import (
    FetchError,
)
from sources.git.conftest import Origin
from sources.git.origin_repository import OriginRepository
from sources.git.watched_runner import WatchedRunner


def test_each_kind_of_ref_is_pinned_to_its_commit(origin: Origin) -> None:
    first = origin.commit({"a.py": "1"})
    origin.git("tag", "light")
    origin.git("tag", "-a", "v1", "-m", "annotated")
    origin.git("tag", "-a", "of-tag", "-m", "of a tag", "v1")
    origin.git("branch", "feature/x")
    second = origin.commit({"a.py": "2"})
    expected = {
        "": ("default", second),
        "HEAD": ("default", second),
        "main": ("branch", second),
        "feature/x": ("branch", first),
        "refs/heads/main": ("branch", second),
        "light": ("tag", first),
        "v1": ("tag", first),
        "of-tag": ("tag", first),
        "refs/tags/v1": ("tag", first),
        second: ("commit", second),
        first: ("commit", first),
    }
    for ref, (kind, commit) in expected.items():
        pin = origin.source(ref).pin()
        assert (pin.requested_ref, pin.kind, pin.commit, pin.is_reachable, pin.is_outside) == (
            ref, kind, commit, True, False,
        )  # fmt: skip
        assert pin.committed_at == datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC)
        assert (origin.source(ref).fetch(commit).root / "a.py").read_text() == ("1" if commit == first else "2")


def test_a_pin_brings_the_files_in_one_session_with_few_commands(origin: Origin) -> None:
    origin.commit({"a.py": "1", "b/c.py": "2"})
    origin.source("main").pin()
    assert len(origin.runner.reaches) == 1
    assert origin.runner.verbs == ["fetch", "cat-file", "ls-tree", "cat-file"]
    reach = origin.runner.reaches[0]
    assert reach.hosts == () and origin.folder in reach.reads and set(reach.reads).isdisjoint(reach.writes)


def test_looking_up_a_ref_fetches_nothing(origin: Origin) -> None:
    commit = origin.commit({"a.py": "1"})
    origin.git("tag", "-a", "v1", "-m", "annotated")
    for ref, kind in {"main": "branch", "v1": "tag", "": "default", commit: "commit"}.items():
        pin = origin.source(ref).look()
        assert (pin.commit, pin.kind) == (commit, kind)
    assert origin.runner.verbs == ["ls-remote"] * 3
    with failing("RefNotFoundError"):
        origin.source("v2").look()


def test_a_name_of_a_branch_and_a_tag_is_the_tag_unless_it_says_which(origin: Origin) -> None:
    tagged = origin.commit({"a.py": "1"})
    origin.point("refs/tags/v1", origin.head())
    origin.git("branch", "v1")
    origin.git("checkout", "-q", "refs/heads/v1")
    branched = origin.commit({"a.py": "2"})
    origin.git("update-ref", "refs/heads/v1", branched)
    assert (origin.source("v1").pin().kind, origin.source("v1").pin().commit) == ("tag", tagged)
    assert origin.source("v1").look().commit == tagged
    assert origin.source("refs/heads/v1").pin().commit == branched
    assert origin.source("refs/tags/v1").pin().commit == tagged


def test_a_moved_ref_gets_a_new_pin_and_the_old_pin_stays(origin: Origin) -> None:
    first = origin.commit({"a.py": "1"})
    origin.point("refs/tags/v1", origin.head())
    assert origin.source("v1").pin().commit == origin.source("main").pin().commit == first
    origin.git("commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")  # a force push, as others see it
    forced = origin.commit({"a.py": "3"})
    origin.git("tag", "--force", "v1")
    assert origin.source("v1").pin().commit == origin.source("main").pin().commit == forced
    assert (origin.source("v1").fetch(first).root / "a.py").read_text() == "1"


def test_names_that_are_none_are_told_with_names_that_are_close(origin: Origin) -> None:
    commit = origin.commit({"a.py": "1"})
    origin.git("tag", "v1.2.0")
    for ref, hint in (
        ("v1.2", "did you mean `v1.2.0`?"),
        (commit[:10], "all 40 digits"),
        (commit.upper(), "small letters"),
    ):
        with failing("RefNotFoundError") as caught:
            origin.source(ref).pin()
        assert any(hint in one for one in caught.value.hints), ref


def test_a_branch_may_look_like_part_of_a_commit(origin: Origin) -> None:
    commit = origin.commit({"a.py": "1"})
    origin.git("branch", "deadbeef")
    assert origin.source("deadbeef").pin().commit == commit


def test_a_deleted_ref_is_an_error_and_what_was_pinned_stays(origin: Origin) -> None:
    commit = origin.commit({"a.py": "1"})
    origin.point("refs/tags/v1", origin.head())
    assert origin.source("v1").pin().commit == commit
    origin.git("tag", "-d", "v1")
    with failing("RefNotFoundError"):
        origin.source("v1").pin()
    origin.runner.forget()
    assert (origin.source("v1").fetch(commit).root / "a.py").read_text() == "1"
    assert not origin.runner.reaches


def test_an_empty_repository_and_none_at_all_are_told_apart(origin: Origin, tmp_path: Path) -> None:
    with failing("RefNotFoundError", "no commit"):
        origin.source().pin()
    with failing("RepositoryNotFoundError"):
        origin.source(address=f"git+file://{tmp_path}/none").pin()
    (tmp_path / "plain").mkdir()
    with failing("RepositoryNotFoundError"):
        origin.source(address=f"git+file://{tmp_path}/plain").pin()


def test_a_tag_of_something_else_than_a_commit_is_refused(origin: Origin) -> None:
    origin.commit({"a.py": "1"})
    origin.git("tag", "tree", "HEAD^{tree}")
    with pytest.raises(FetchError, match="did not give out a commit"):
        origin.source("tree").pin()


def test_a_repository_with_other_names_for_objects_is_refused(origin: Origin, tmp_path: Path) -> None:
    other = OriginRepository(tmp_path / "sha256", object_format="sha256")
    commit = other.commit({"a.py": "1"})
    for ref in ("main", commit):
        with pytest.raises(FetchError):
            origin.source(ref, address=other.address).pin()


# -- impostors


@pytest.fixture
def pulled(origin: OriginRepository) -> Iterator[str]:
    """A commit that only a pull request leads to."""
    origin.commit({"a.py": "1"})
    origin.git("checkout", "-q", "--detach")
    commit = origin.commit({"a.py": "evil"})
    origin.point("refs/pull/1/head", commit)
    origin.git("checkout", "-q", "main")
    origin.commit({"a.py": "2"})
    yield commit


def test_a_commit_of_a_pull_request_alone_is_an_impostor(origin: Origin, pulled: str) -> None:
    for act in (lambda: origin.source(pulled).pin(), lambda: origin.source("main").fetch(pulled)):
        with failing("ImpostorCommitError") as caught:
            act()
        assert pulled in caught.value.summary and any("--allow-impostor" in hint for hint in caught.value.hints)
    origin.git("branch", "merged", pulled)  # the same act, once a branch leads there
    assert origin.source(pulled).pin().is_reachable


def test_an_impostor_that_is_allowed_is_marked_and_allows_nothing_later(origin: Origin, pulled: str) -> None:
    pin = origin.source(pulled).pin(allow_impostor=True)
    assert (pin.commit, pin.is_reachable) == (pulled, False)
    with failing("ImpostorCommitError"):
        origin.source(pulled).pin()
    for offline in (False, True):
        named = origin.source(pulled, offline=offline)
        for act in (named.pin, partial(named.fetch, pulled)):
            with failing("ImpostorCommitError"):
                act()
        allowed = named.fetch(pulled, allow_impostor=True)
        assert (allowed.root / "a.py").read_text() == "evil"  # it was accepted before, and is in the cache
    origin.git("branch", "merged", pulled)
    assert (origin.source("main").fetch(pulled).root / "a.py").read_text() == "evil"
    assert origin.source(pulled, offline=True).pin().is_reachable  # as was found out before


@pytest.mark.parametrize("ref", ["pull/1/head", "refs/pull/1/head", "refs/stash", "refs/heads"])
def test_only_branches_and_tags_are_refs(origin: Origin, pulled: str, ref: str) -> None:
    with failing("RefNotFoundError"):
        origin.source(ref).pin()


def test_a_branch_of_that_name_is_no_pull_request(origin: Origin, pulled: str) -> None:
    origin.git("branch", "pull/2/head")
    assert origin.source("pull/2/head").pin().kind == "branch"


def test_a_commit_in_the_history_of_a_branch_or_tag_is_none(origin: Origin) -> None:
    commits = [origin.commit({"a.py": str(number)}) for number in range(3)]
    origin.git("checkout", "-q", "--orphan", "other")
    tagged = origin.commit({"a.py": "tagged"})
    tip = origin.commit({"a.py": "tip"})
    origin.git("tag", "-a", "v1", "-m", "annotated")
    origin.git("checkout", "-q", "main")
    origin.git("branch", "-D", "other")
    for commit in (*commits, tagged, tip):
        assert origin.source(commit).pin().is_reachable
    assert (origin.source(tagged).fetch(tagged).root / "a.py").read_text() == "tagged"


def test_what_a_force_push_took_away_is_one_when_it_has_to_be_fetched(origin: Origin) -> None:
    origin.commit({"a.py": "0"})
    gone = origin.commit({"a.py": "1"})
    origin.git("reset", "-q", "--hard", "HEAD~1")
    origin.commit({"a.py": "2"})
    with failing("ImpostorCommitError"):
        origin.source("main").fetch(gone)


@pytest.mark.parametrize("setting", ["uploadpack.allowFilter=false", "protocol.version=0"])
def test_servers_that_can_do_less_are_asked_for_more(origin: Origin, pulled: str, setting: str) -> None:
    origin.git("config", *setting.split("="))
    first = origin.git("rev-parse", "main~1")
    assert (origin.source(first).fetch(first).root / "a.py").read_text() == "1"
    with failing("ImpostorCommitError"):
        origin.source(pulled).pin()


def test_a_server_that_gives_out_only_tips_is_asked_for_all(origin: Origin) -> None:
    first = origin.commit({"a.py": "1"})
    origin.commit({"a.py": "2"})
    for setting in ("allowAnySHA1InWant", "allowReachableSHA1InWant", "allowTipSHA1InWant", "allowFilter"):
        origin.git("config", f"uploadpack.{setting}", "false")
    origin.runner.before = lambda verb: speak_first_protocol(origin.runner)
    assert (origin.source(first).fetch(first).root / "a.py").read_text() == "1"
    assert origin.runner.verbs.count("fetch") == 3  # the history, the commit in vain, and all


def speak_first_protocol(runner: WatchedRunner) -> None:
    config = next(path for path in runner.reaches[-1].reads if path.name == "gitconfig")
    config.write_text(config.read_text().replace("version = 2", "version = 0"))


# -- without the network


def test_offline_only_what_is_in_the_cache_is_there(origin: Origin) -> None:
    commit = origin.commit({"a.py": "1"})
    with failing("OfflineError") as caught:
        origin.source("main", offline=True).fetch(commit)
    assert commit in caught.value.summary
    origin.source("main").pin()
    origin.runner.forget()
    assert (origin.source("main", offline=True).fetch(commit).root / "a.py").read_text() == "1"
    assert origin.source(commit, offline=True).pin().commit == commit
    for ref in ("main", ""):
        with failing("OfflineError"):
            origin.source(ref, offline=True).pin()
    assert not origin.runner.reaches
