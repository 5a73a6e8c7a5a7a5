"""The status: what the model is given, and that it goes without git wherever git does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amplifier_core.models import HookResult
from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_hooks_status_context import git_status as git
from amplifier_module_hooks_status_context import mount
from amplifier_module_hooks_status_context.git_status import GitStatus
from amplifier_module_hooks_status_context.status import git_lines

pytestmark = pytest.mark.anyio


async def status(folder: Path, emitted: str = "prompt:submit", **config: Any) -> HookResult:
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(folder))
    await mount(coordinator, config)
    result: HookResult = await coordinator.hooks.emit(emitted, {})
    return result


async def lines(folder: Path, **config: Any) -> list[str]:
    result = await status(folder, **config)
    assert result.action == "inject_context" and result.context_injection is not None
    first, *rest = result.context_injection.splitlines()
    assert first == "Status, added automatically and not by the person:"
    return rest


Calls = list[tuple[str, ...]]
FakeGit = Callable[[str], Calls]


@pytest.fixture
def fake_git(monkeypatch: pytest.MonkeyPatch) -> FakeGit:
    """Have a line for the shell run in place of `git status`; return the list of what git is called with."""

    def put(line: str) -> Calls:
        calls: Calls = []
        start = asyncio.create_subprocess_exec

        async def instead(*command: str, **options: Any) -> asyncio.subprocess.Process:
            calls.append(command)
            # A repository without filters, else.
            return await start("/bin/sh", "-c", line if "status" in command else "exit 1", **options)

        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(asyncio, "create_subprocess_exec", instead)
        return calls

    return put


def runs(pid: Path) -> bool:
    """Return whether a program runs that wrote its number into a file."""
    number = pid.read_text().strip() if pid.exists() else ""
    return bool(number) and Path(f"/proc/{number}").exists()


@pytest.fixture
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


async def test_a_prompt_is_given_the_date_the_folder_and_git(tmp_path: Path, fake_git: FakeGit) -> None:
    fake_git("printf '## main...origin/main [ahead 1]\\n M a.py\\n?? b.py\\n'")
    result = await status(tmp_path)
    assert (result.context_injection_role, result.ephemeral) == ("user", False)
    date, folder, *rest = (result.context_injection or "").splitlines()[1:]
    assert re.fullmatch(r"date: \w+, \d{4}-\d\d-\d\d \d\d:\d\d [+-]\d{4}", date)
    assert folder == f"working directory: {tmp_path}"
    assert rest == ["git branch: main...origin/main [ahead 1]", "git status: 2 changed", "   M a.py", "  ?? b.py"]


async def test_git_runs_nothing_that_a_repository_names(tmp_path: Path, fake_git: FakeGit) -> None:
    calls = fake_git('echo "## locks $GIT_OPTIONAL_LOCKS"')
    shown = await lines(tmp_path, include=["git"])
    assert shown == ["git branch: locks 0", "git status: nothing changed"]
    *_, called = calls
    assert called[:8] == (
        *("/usr/bin/git", "-C", str(tmp_path)),
        *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "status"),
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(tmp_path)], timeout=60, check=True)
    (tmp_path / "new.txt").touch()
    return tmp_path


async def test_a_real_repository_is_read(repository: Path) -> None:
    assert await lines(repository, include=["git"]) == [
        "git branch: No commits yet on trunk",
        "git status: 1 changed",
        "  ?? new.txt",
    ]


def git_in(folder: Path, *arguments: str) -> None:
    options = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *options, *arguments], timeout=60, check=True, capture_output=True)


@pytest.mark.parametrize("setting", ["clean", "process"])
async def test_filters_of_a_repository_are_not_started(repository: Path, setting: str) -> None:
    mark = repository.parent / "started"
    (repository / "new.txt").write_text("one\n")
    git_in(repository, "add", ".")
    git_in(repository, "commit", "-q", "-m", "one")
    (repository / ".git/info/attributes").write_text("* filter=a=b.c\n")
    git_in(repository, "config", f"filter.a=b.c.{setting}", f"touch {mark}; cat")
    git_in(repository, "config", "filter.a=b.c.required", "true")
    (repository / "new.txt").write_text("two\n")
    with contextlib.suppress(subprocess.CalledProcessError):
        git_in(repository, "status", "--porcelain")
    assert mark.exists()
    mark.unlink()
    assert "   M new.txt" in await lines(repository, include=["git"])
    assert not mark.exists()


async def test_each_request_is_given_it_anew_and_ephemeral(tmp_path: Path, no_git: None) -> None:
    result = await status(tmp_path, "provider:request", event="provider:request", include=["working_dir"])
    assert result.ephemeral
    assert (await status(tmp_path, "provider:request")).action == "continue"


async def test_what_is_told_is_a_setting(tmp_path: Path, no_git: None) -> None:
    (shown,) = await lines(tmp_path, include=["platform"])
    assert shown.startswith("platform: ")
    assert (await status(tmp_path, include=[])).action == "continue"


async def test_without_git_the_rest_is_told(tmp_path: Path, no_git: None) -> None:
    assert len(await lines(tmp_path)) == 2


@pytest.mark.parametrize(
    "act", ["exit 128", "echo fatal: not a git repository >&2; exit 128", "echo odd", "true", "echo '## m'; exit 3"]
)
async def test_a_git_that_does_not_answer_is_left_out(act: str, tmp_path: Path, fake_git: FakeGit) -> None:
    fake_git(act)
    assert len(await lines(tmp_path)) == 2


async def test_a_git_that_may_not_be_run_is_left_out(
    tmp_path: Path, fake_git: FakeGit, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_git("echo '## main'")

    async def refused(*command: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refused)
    assert len(await lines(tmp_path)) == 2


async def test_a_git_that_takes_too_long_is_ended(tmp_path: Path, fake_git: FakeGit) -> None:
    pid = tmp_path / "pid"
    fake_git(f"echo $$ > {pid}; exec sleep 1000")
    assert len(await lines(tmp_path, git_timeout=0.5)) == 2
    assert not runs(pid)


async def test_a_git_that_leaves_its_output_to_another_is_not_waited_for(tmp_path: Path, fake_git: FakeGit) -> None:
    pid, heir = tmp_path / "pid", tmp_path / "heir"
    fake_git(f"setsid sleep 1000 & echo $! > {heir}; echo $$ > {pid}; exec sleep 1000")
    try:
        async with asyncio.timeout(60):
            assert len(await lines(tmp_path, git_timeout=0.5)) == 2
        assert not runs(pid) and runs(heir)
    finally:
        os.kill(int(heir.read_text()), signal.SIGKILL)


async def test_a_git_that_prints_without_end_is_cut(tmp_path: Path, fake_git: FakeGit) -> None:
    fake_git("echo '## main'; exec yes '?? file'")
    shown = await lines(tmp_path, include=["git"], max_status_lines=2)
    assert re.fullmatch(r"git status: at least \d+ changed", shown[1])
    assert shown[2:4] == ["  ?? file", "  ?? file"]
    assert re.fullmatch(r"  … and \d+ more", shown[4])


async def test_a_cancelled_event_ends_git(tmp_path: Path, fake_git: FakeGit) -> None:
    pid = tmp_path / "pid"
    fake_git(f"echo $$ > {pid}; exec sleep 1000")
    task = asyncio.ensure_future(git.git_status(tmp_path, 25.0))
    assert await wait_for(lambda: runs(pid), timeout=60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not runs(pid)


async def test_lines_are_printable_and_short() -> None:
    shown = git_lines(GitStatus("main\x1b[2J", ("?? " + "x" * 1000,), False), 5)
    assert shown[0] == "git branch: main�[2J"
    assert len(shown[2]) < 250


async def test_unmounting_ends_it(tmp_path: Path) -> None:
    coordinator = MockCoordinator()
    (await mount(coordinator, {}))()
    assert (await coordinator.hooks.emit("prompt:submit", {})).action == "continue"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"events": "x"},
            "there is no setting `events`; there are event, include, max_status_lines, git_timeout, priority",
        ),
        ({"event": "tool:pre"}, "`event` must be one of prompt:submit, provider:request, not 'tool:pre'"),
        ({"include": "git"}, "`include` must be a list of some of date, working_dir, platform, git, not 'git'"),
        ({"include": ["time"]}, "`include` must be a list"),
        ({"include": [["git"]]}, "`include` must be a list"),
        ({"max_status_lines": -1}, "`max_status_lines` must be a whole number, 0 or more"),
        ({"git_timeout": 60}, "`git_timeout` must be a number of seconds above 0, 25 at most"),
        ({"git_timeout": None}, "`git_timeout` must be a number of seconds"),
        ({"priority": "1"}, "`priority` must be a whole number"),
    ],
)
async def test_a_wrong_setting_is_an_error_that_names_it(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="hooks-status-context: ") as caught:
        await mount(MockCoordinator(), config)
    assert said in str(caught.value)
