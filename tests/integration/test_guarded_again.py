"""What a user replaces while a session runs is guarded again, told of, and costs nobody anything."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from escape.ordinary_user import as_ordinary_user, home_of_its_own, require_root
from integration.conftest import OpenSession, WriteModule
from integration.probe import tool_code
from paddock import Session
from paddock.workers.mount_guard import SessionGuard
from paddock.workers.process import ModuleProcess
from paddock_sandbox.profile import Mount
from paddock_sandbox.syscalls import call

_EXCHANGE = 2  # from <linux/fs.h>
_SECONDS = 60  # for what is awaited; hit only by a hang

_WRITER = tool_code(
    "write",
    """
    path = input.get("append") or input.get("make") or os._exit(3)
    try:
        if "make" in input:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a") as file:
            file.write("# by the module")
    except OSError as error:
        return ToolResult(output=error.strerror)
    return ToolResult(output="written")
    """,
)


def _git(folder: Path, *arguments: str) -> str:
    options = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *options, *arguments]
    return subprocess.run(command, check=True, timeout=100, capture_output=True, text=True).stdout


def _repository(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "-q", "-b", "main")
    (folder / "file").write_text("one\n")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "one")


def _tool(write_module: WriteModule) -> dict[str, object]:
    return {
        "module": "tool-write",
        "source": write_module("tool-write", _WRITER),
        "permissions": {"write": ["."]},
    }


async def _append(session: Session, path: Path) -> str:
    result = await session.coordinator.get("tools", "write").execute({"append": str(path)})
    return str(result.output)


async def _told_of(session: Session, path: Path, what: str = "") -> str:
    """Return what people are told of a path, once they are, and that it is this."""
    with anyio.fail_after(_SECONDS):
        while not (lines := [one for one in session.changes if one.startswith(f"{path} ") and what in one]):
            await anyio.sleep(0.01)
    (line,) = lines
    return line


async def _guarded_again(session: Session, path: Path) -> None:
    """Return once people are told of a replaced file, which the module cannot write to."""
    await _told_of(session, path)
    assert await _append(session, path) == "Read-only file system"


def _by_renaming(path: Path, text: str) -> None:
    new = path.with_name("saved by an editor")
    new.write_text(text)
    os.replace(new, path)


def _by_a_backup(path: Path, text: str) -> None:
    path.rename(path.with_name(f"{path.name}~"))
    path.write_text(text)


def _by_removing(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def _by_exchanging(path: Path, text: str) -> None:
    other = path.with_name("other")
    other.write_text(text)
    call("renameat2", -100, os.fsencode(other), -100, os.fsencode(path), _EXCHANGE)


_WAYS = (_by_renaming, _by_a_backup, _by_removing, _by_exchanging)


async def test_a_file_that_an_editor_saves_is_guarded_again(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    (work / ".vscode").mkdir(parents=True)
    (work / ".envrc").write_text("one\n")
    (work / ".exrc").write_text("one\n")
    (work / ".mcp.json").write_text("a new line\n")
    async with open_session(tools=[_tool(write_module)]) as session:
        assert await _append(session, work / ".envrc") == "Read-only file system"
        for number in range(2 * len(_WAYS)):
            text = f"two lines{'!' * number}\n"
            _WAYS[number // 2](work / ".envrc", text)
            line = await _told_of(session, work / ".envrc", f"4 bytes before and {len(text)} now")
            assert await _append(session, work / ".envrc") == "Read-only file system", text
        assert line == (
            f"{work}/.envrc was replaced during the run, with other content, 4 bytes before and 17 now; "
            "it was guarded again at once"
        )
        assert (work / ".envrc").read_text() == "two lines!!!!!!!\n"
        assert await _append(session, work / "beside") == "written"

        _by_renaming(work / ".mcp.json", "a new line\n")
        assert "with the same content" in await _told_of(session, work / ".mcp.json")
        (status,) = [one for one in session.modules if one.module == "tool-write"]
        assert status.restarts == 0

        # It starts again although something guarded is gone.
        (work / ".vscode").rmdir()
        (work / ".exrc").unlink()
        await session.coordinator.get("tools", "write").execute({})
        assert await _append(session, work / "file") == "written"
        (work / ".exrc").write_text("two\n")
        await _guarded_again(session, work / ".exrc")
    lines = (tmp_path / "state/paddock/audit.jsonl").read_text().splitlines()
    logged = [one for one in map(json.loads, lines) if one["event"] == "guarded.replaced"]
    assert {one["problem"] for one in logged} == {""}
    logged = [one for one in logged if one["module"] == "tool-write"]  # others may write around that folder
    assert {one["path"] for one in logged} >= {str(work / ".envrc"), str(work / ".mcp.json")}


async def test_what_is_saved_while_a_module_starts_is_told_to_be_so(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".envrc").write_text("one\n")
    follow = SessionGuard.follow

    async def follow_late(
        self: SessionGuard, name: str, process: ModuleProcess, mounts: Sequence[Mount], unheld: Sequence[Mount] = ()
    ) -> None:
        if name == "tool-write":  # its mounts are made, and nobody has looked at them yet
            _by_renaming(work / ".envrc", "two lines\n")
        await follow(self, name, process, mounts, unheld)

    monkeypatch.setattr(SessionGuard, "follow", follow_late)
    async with open_session(tools=[_tool(write_module)]) as session:
        assert await _append(session, work / ".envrc") == "Read-only file system"
        assert await _told_of(session, work / ".envrc") == (
            f"{work}/.envrc was replaced during the run, while nothing watched it; it was guarded again at once"
        )


async def test_a_guarded_folder_that_is_replaced_is_guarded_again(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    """So is one whose surroundings are replaced, and one that the module makes after its user removed it."""
    work = tmp_path / "work"
    for name in ("app", "a/b/app"):
        _repository(work / name)
    (work / ".vscode").mkdir()
    (work / ".vscode/tasks.json").write_text("{}")
    for name in (".husky", ".idea"):
        (work / name).mkdir()
    (work / ".envrc").write_text("one\n")
    async with open_session(tools=[_tool(write_module)]) as session:
        (work / "app/.git").rename(work / "app/.git-old")
        _git(work / "app", "init", "-q")
        shutil.rmtree(work / ".vscode")
        (work / ".vscode").mkdir()
        (work / ".vscode/settings.json").write_text("{}")
        await _told_of(session, work / ".vscode", "different in settings.json")
        await _told_of(session, work / "app/.git")
        for path in (work / ".vscode/settings.json", work / "app/.git/config", work / "app/.git-old/config"):
            assert await _append(session, path) == "Read-only file system"

        shutil.copytree(work / "a", tmp_path / "copy", symlinks=True)
        shutil.rmtree(work / "a")
        (tmp_path / "copy").rename(work / "a")
        await _told_of(session, work / "a/b/app/.git")
        assert await _append(session, work / "a/b/app/.git/config") == "Read-only file system"
        assert await _append(session, work / "a/b/app/file") == "written"

        # A name that is no text ends no guard.
        (work / ".idea").rmdir()
        (tmp_path / "other").mkdir()
        os.close(os.open(os.fsencode(tmp_path / "other") + b"/\xff", os.O_CREAT))
        (tmp_path / "other").rename(work / ".idea")
        assert r"different in \xff" in await _told_of(session, work / ".idea")
        _by_renaming(work / ".envrc", "two\n")
        await _guarded_again(session, work / ".envrc")

        (work / ".husky").rmdir()
        result = await session.coordinator.get("tools", "write").execute({"make": str(work / ".husky/pre-commit")})
        line = await _told_of(session, work / ".husky")
        assert await _append(session, work / ".husky/pre-commit") == "Read-only file system"
    assert result.output in ("written", "Read-only file system")
    at_the_end = [one for one in session.changes if one.startswith(f"{work / '.husky'} ")]
    assert result.output != "written" or "pre-commit" in line or any("pre-commit" in one for one in at_the_end)


@pytest.mark.parametrize("is_there", [True, False])
async def test_the_plan_and_the_lock_are_guarded_though_another_keeps_the_folder(
    tmp_path: Path, write_module: WriteModule, is_there: bool
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    if is_there:
        (work / "paddock.lock").write_text("version = 1\n")
    plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}, "tools": [_tool(write_module)]}
    (work / "plan.json").write_text(json.dumps(plan))
    folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY)  # as a module can that may read it
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        async with Session(work / "plan.json", working_dir=work, trust_plan=True) as session:
            assert await _append(session, work / "paddock.lock") == "Read-only file system"
            assert await _append(session, work / "other") == "written"
            for name in ("plan.json", "paddock.lock"):
                _by_renaming(work / name, (work / name).read_text())
                await _guarded_again(session, work / name)
    finally:
        os.close(folder)


async def test_a_user_works_on_in_repositories_of_any_name(
    tmp_path: Path, open_session: OpenSession, write_module: WriteModule
) -> None:
    """Nothing of theirs opens, and none ends a guard."""
    work, refused = tmp_path / "work", "Read-only file system"
    names = (b"app", b"\xff", b"a\rb", b"a b\n", "\u2028\\".encode())
    app, *_ = repositories = [Path(os.fsdecode(os.fsencode(work) + b"/" + name)) for name in names]
    _repository(app)
    for other in repositories[1:]:
        shutil.copytree(app, other)
    _git(tmp_path, "init", "-q", "--bare", "remote.git")
    (work / ".envrc").write_text("one\n")
    async with open_session(tools=[_tool(write_module)]) as session:
        for repository in repositories:
            assert await _append(session, repository / ".git/config") == refused, repository
            assert await _append(session, repository / "file") == "written", repository
        _git(app, "config", "core.editor", "true")
        _git(app, "commit", "-q", "-am", "two")
        _git(app, "remote", "add", "origin", str(tmp_path / "remote.git"))
        _git(app, "push", "-q", "-u", "origin", "main")
        _git(app, "checkout", "-q", "-b", "other")
        for name in ("config", "hooks/post-commit", "index"):
            assert await _append(session, app / ".git" / name) == refused, name
        assert session.changes == ()
        _by_renaming(work / ".envrc", "two\n")
        await _guarded_again(session, work / ".envrc")
    (change,) = session.changes
    assert change.startswith(f"{work / '.envrc'} ")
    assert "by the module" not in _git(app, "config", "--list")


@pytest.mark.exhaustive
def test_it_is_so_for_an_ordinary_user() -> None:
    """And what a module closes to its host is guarded when the module opens it."""
    refused = "Read-only file system"
    saved, closed = _as_a_user()
    assert saved == {
        "before": [refused] * 2,
        "after": [refused] * 2,
        "told": ["it was guarded again at once"] * 2,
    }
    in_a_part, in_all_of_it = closed.pop("next life")
    assert in_a_part == refused
    # Without a folder that it may enter the worker does not start; nothing of that life was open.
    assert in_all_of_it == refused or "Permission denied" in in_all_of_it
    assert closed == {"next session": [refused] * 3, "told": []}


def _as_a_user() -> list[dict[str, list[str]]]:
    require_root()
    tests = Path(__file__).resolve().parents[1]
    with home_of_its_own() as home:
        code = f"sys.path.insert(0, {str(tests)!r})\nfrom integration.guarding import main\nmain(sys.argv[1])"
        done = as_ordinary_user(code, str(home), home=home, seconds=_SECONDS * 4)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
