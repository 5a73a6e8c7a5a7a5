"""Whatever goes wrong on the way, what was in the cache stays, and the next attempt starts from something sound."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from failures import failing
from paddock_sources.cache import SourceCache, UnsafeTreeError
from paddock_sources.commands.command_runner import CommandAccess, CommandError, CommandSession, CommandTimeoutError
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.errors import NotFetchedError
from paddock_sources.git.errors import FetchError
from paddock_sources.git.git_config import GitLimits
from paddock_sources.git.git_source import GitSource
from paddock_sources.progress import ProgressStep
from sources.git.conftest import Origin
from sources.git.origin_repository import OriginRepository
from sources.git.watched_runner import WatchedRunner
from sources.git_repositories import git_uri


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def everything_in(folder: Path) -> dict[str, bytes]:
    return {os.fspath(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- a git that does not come to an end


@pytest.mark.parametrize("verb", ["fetch", "ls-remote"])
def test_a_git_that_hangs_is_ended_and_said_to_have_hung(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    commit = origin.commit({"a.py": "1"})
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncase " $* " in *" {verb} "*) echo $$ > {tmp_path}/pid; exec sleep 600;; esac\n'
                       f'exec {real} "$@"\n')  # fmt: skip
    program.chmod(0o755)
    limits = GitLimits(fetch_seconds=0.5, ask_seconds=0.5)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        begun = time.monotonic()
        with failing("GitTimeoutError") as caught:
            origin.source("main", limits=limits).pin() if verb == "fetch" else origin.source(
                "main", limits=limits
            ).look()
        assert time.monotonic() - begun < 60 and "took more than 0.5 s" in caught.value.summary
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert origin.source("main").pin().commit == commit  # and nothing of it is in the way


def test_no_git_at_all_is_said(origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin.commit({"a.py": "1"})
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(tmp_path))
        with pytest.raises(FetchError, match="no `git` on this machine"):
            origin.source("main").pin()


def test_a_git_that_is_there_and_may_not_be_run_is_not_said_to_be_missing(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.commit({"a.py": "1"})
    (tmp_path / "git").write_text("")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(tmp_path))
        with pytest.raises(FetchError, match="permission denied") as caught:
            origin.source("main").pin()
    assert caught.value.code != "GitMissingError"


def test_a_slow_template_start_is_reported_with_its_time(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(reach: CommandAccess) -> CommandSession:
        raise CommandTimeoutError(reach.name, 30.0)

    monkeypatch.setattr(origin.runner, "open", hang)
    with failing("GitTimeoutError", "a place for git took more than 30 s"):
        origin.source("main").pin()


# -- an end in the middle


def test_a_failure_at_any_stage_leaves_what_was_there_and_can_be_repeated(origin: Origin, tmp_path: Path) -> None:
    first = origin.commit({"a.py": "1"})
    kept = origin.source("main").fetch(first)
    for verb, when in product(("fetch", "cat-file", "ls-tree"), ("before", "after")):
        now = origin.commit({"a.py": f"{when} {verb}"})
        trees = everything_in(tmp_path / "cache" / "trees-v2")
        setattr(origin.runner, when, partial(_fail, verb))
        with pytest.raises(FetchError):
            origin.source("main").pin()
        setattr(origin.runner, when, lambda at: None)
        assert everything_in(tmp_path / "cache" / "trees-v2") == trees, (verb, when)
        assert (kept.root / "a.py").read_text() == "1", (verb, when)
        assert not list((tmp_path / "cache" / "tmp").iterdir()), (verb, when)
        assert origin.source("main").pin().commit == now, (verb, when)


def _fail(verb: str, at: str) -> None:
    if at == verb:
        raise CommandError("git", "it was ended")


def test_locks_that_a_killed_git_left_stop_no_later_fetch(origin: Origin, tmp_path: Path) -> None:
    origin.commit({"a.py": "1"})
    origin.source("main").pin()
    (folder,) = (tmp_path / "cache" / "git-v1").iterdir()
    for left in ("shallow.lock", "packed-refs.lock", "HEAD.lock", "config.lock", "refs/paddock/x.lock"):
        (folder / "repo.git" / left).touch()
    for name in (folder / "repo.git" / "refs" / "paddock").iterdir():
        name.with_name(name.name + ".lock").touch()
    (folder / "repo.git" / "objects" / "pack" / "tmp_pack_123").write_bytes(b"half")
    second = origin.commit({"a.py": "2"})
    assert origin.source("main").pin().commit == second
    assert not (folder / "repo.git" / "objects" / "pack" / "tmp_pack_123").exists()


# -- damage


def packs(tmp_path: Path) -> list[Path]:
    (folder,) = (tmp_path / "cache" / "git-v1").iterdir()
    return list((folder / "repo.git" / "objects" / "pack").glob("*.pack"))


@pytest.mark.parametrize("damage", ["cut", "gone", "changed"])
def test_objects_that_were_damaged_here_are_fetched_again(origin: Origin, tmp_path: Path, damage: str) -> None:
    origin.commit({"a.py": "1" * 5000})
    origin.source("main").pin()
    for pack in packs(tmp_path):
        pack.chmod(0o644)
        content = bytearray(pack.read_bytes())
        if damage == "gone":
            pack.unlink()
            continue
        if damage == "changed":
            middle = len(content) // 2
            content[middle : middle + 20] = b"\xff" * 20
        pack.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
    second = origin.commit({"b.py": "2"})
    pin = origin.source("main").pin()
    root = origin.source("main").fetch(second).root
    assert pin.commit == second and (root / "a.py").read_text() == "1" * 5000 and (root / "b.py").read_text() == "2"


def test_a_damaged_repository_is_refused_and_costs_nothing_good(origin: Origin, tmp_path: Path) -> None:
    first = origin.commit({"a.py": "1"})
    kept = origin.source("main").fetch(first)
    before = [pack.name for pack in packs(tmp_path)]
    blob = origin.git("hash-object", "-w", "--stdin", stdin=b"to be lost")
    origin.commit({"b.py": "to be lost"})
    (origin.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(FetchError):
        origin.source("main").pin()
    assert (kept.root / "a.py").read_text() == "1"
    assert [pack.name for pack in packs(tmp_path)] == before


def take_files(folder: Path) -> None:
    """Take the files of all commits away, as one does who makes room, and leave what they were made from."""
    for entry in (folder / "trees-v2").iterdir():
        subprocess.run(["chmod", "-R", "u+w", str(entry)], check=True, timeout=60)
        subprocess.run(["rm", "-r", str(entry)], check=True, timeout=60)


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize("act", ["fetch", "pin"])
def test_objects_that_outlive_their_files_are_enough_to_have_them_again(
    origin: Origin, tmp_path: Path, act: str, offline: bool
) -> None:
    commit = origin.commit({"a.py": "1"})
    origin.source("main").pin()
    take_files(tmp_path / "cache")
    with SourceCache(tmp_path / "cache") as other:
        origin.folder.rename(tmp_path / "away")
        origin.runner.forget()
        again = origin.source(commit, cache=other, offline=offline)
        assert again.pin().commit == commit if act == "pin" else again.fetch(commit)
        assert (again.fetch(commit).root / "a.py").read_text() == "1"
        assert set(origin.runner.verbs) == {"cat-file", "ls-tree"}
        (reach,) = origin.runner.reaches
        assert reach.hosts == () and reach.writes == () and origin.folder not in reach.reads


def test_removed_files_of_an_ssh_source_are_made_in_the_sandbox(
    origin: OriginRepository, cache: SourceCache, tmp_path: Path
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nexec git upload-pack "{origin.folder}"\n')
    program.chmod(0o755)
    shut_in, direct = WatchedRunner(DirectRunner()), WatchedRunner(DirectRunner())
    uri = git_uri("git+ssh://git@host.example/o/r@main")
    environ = {"GIT_SSH_COMMAND": str(program), "SSH_AUTH_SOCK": "/run/agent"}
    commit = origin.commit({"a.py": "1"})
    GitSource(uri, cache, shut_in, direct=direct, environ=environ).pin()
    take_files(cache.folder)
    direct.forget()
    for offline in (False, True):
        with SourceCache(cache.folder) as other:
            source = GitSource(uri, other, shut_in, direct=direct, environ=environ, offline=offline)
            assert (source.fetch(commit).root / "a.py").read_text() == "1"
        take_files(cache.folder)
    assert not direct.reaches
    assert all(reach.hosts == () and "SSH_AUTH_SOCK" not in reach.environ for reach in shut_in.reaches)


@pytest.mark.parametrize("lack", ["all objects", "the commit", "damage", "a runner"])
def test_offline_objects_that_are_not_enough_are_said_to_be_missing(origin: Origin, tmp_path: Path, lack: str) -> None:
    commit = origin.commit({"a.py": "1"})
    origin.source("main").pin()
    take_files(tmp_path / "cache")
    (pack,) = packs(tmp_path)
    if lack == "the commit":
        record = next((tmp_path / "cache" / "commits-v1").glob("*/*"))
        commit = "c" * 40
        record.rename(record.with_name(commit))
    elif lack == "damage":
        pack.chmod(0o600)
        pack.write_bytes(b"PACK" + bytes(64))
    elif lack == "all objects":
        for path in pack.parent.iterdir():
            path.unlink()

    def refuse(verb: str) -> None:
        raise NotFetchedError("git")

    origin.runner.before = refuse if lack == "a runner" else origin.runner.before
    with SourceCache(tmp_path / "cache") as other, failing("OfflineError") as caught:
        origin.source("main", cache=other, offline=True).fetch(commit)
    assert f"commit {commit} is not in the cache" in caught.value.summary


def test_a_record_that_is_none_is_as_good_as_missing(origin: Origin, tmp_path: Path) -> None:
    commit = origin.commit({"a.py": "1"})
    origin.source("main").pin()
    (path,) = (tmp_path / "cache" / "commits-v1").glob("*/*")
    wrong = '{"tree": "sha256:../../x", "is_reachable": true}'
    for record in ("", "garbage", "[]", "{}", '{"tree": 5}', wrong, "[" * 5000):
        path.write_text(record)
        assert (origin.source("main").fetch(commit).root / "a.py").read_text() == "1", record
        assert path.read_text() != record, record  # it was made again


def test_an_unsafe_commit_leaves_the_safe_one_before_it(origin: Origin) -> None:
    first = origin.commit({"a.py": "1"})
    origin.source("main").pin()
    (origin.folder / "link").symlink_to("/etc/passwd")
    origin.commit()
    with pytest.raises(UnsafeTreeError):
        origin.source("main").pin()
    assert (origin.source("main").fetch(first).root / "a.py").read_text() == "1"


def test_a_second_ref_of_a_repository_brings_only_what_is_new(origin: Origin, tmp_path: Path) -> None:
    origin.commit({"large": os.urandom(200_000)})
    origin.source("main").pin()
    first = sum(pack.stat().st_size for pack in packs(tmp_path))
    origin.commit({"small": "x"})
    origin.point("refs/tags/v1", origin.head())
    origin.source("v1").pin()
    assert sum(pack.stat().st_size for pack in packs(tmp_path)) - first < 5000


# -- what is told


class Told:
    def __init__(self) -> None:
        self.steps: list[ProgressStep] = []
        self.ended: list[str] = []

    def step(self, step: ProgressStep) -> None:
        self.steps.append(step)

    def finished(self, subject: str) -> None:
        self.ended.append(subject)


def test_progress_counts_objects_and_files_and_ends_on_failure(origin: Origin) -> None:
    origin.commit({f"{number}.py": str(number) for number in range(300)})
    told = Told()
    origin.source("main", progress=told).pin()
    assert told.steps[0].phase == "looking up"
    fetching = [step for step in told.steps if step.phase == "fetching"]
    assert fetching[-1].done == fetching[-1].total > 300 and fetching[-1].unit == "objects"
    assert {step.unit for step in told.steps if step.phase == "unpacking"} == {"files"}
    assert {step.subject for step in told.steps} == set(told.ended) == {str(origin.folder)}
    with pytest.raises(FetchError):
        origin.source("none", progress=told).pin()
    assert len(told.ended) == 2
