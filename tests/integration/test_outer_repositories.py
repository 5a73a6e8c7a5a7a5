"""Git works in a linked working tree, and elsewhere with the grant that is named; a lying `.git` shows nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from integration.command_line import require_level
from integration.conftest import WriteModule
from integration.probe import call_once, tool_code
from paddock import Session
from paddock.isolation.compile import Confinement
from paddock.session.tool_call import ToolCallOutcome
from paddock_sandbox.profile import IsolationLevel
from support.examples import repeating

_SECONDS = 60  # for one call; hit only by a hang
_GIT = """
    import subprocess
    told = []
    for command in input.get("commands", []):
        done = subprocess.run(
            ["bash", "-c", command], cwd=input.get("folder"), capture_output=True, text=True, check=False
        )
        told.append([done.returncode, done.stdout + done.stderr])
    for path, text in input.get("write", {}).items():
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
            told.append("written")
        except OSError as error:
            told.append(error.strerror)
    for path in input.get("read", []):
        try:
            with open(path):
                told.append(True)
        except OSError:
            told.append(False)
    return ToolResult(output=told)
"""
_LOOK = ["git log --format=%s", "git status --short -uno", "git diff --stat", "git show HEAD:file", "git branch"]


def _git(folder: Path, *arguments: str) -> str:
    name = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    done = subprocess.run(
        ["git", "-C", str(folder), *name, *arguments], check=True, timeout=60, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture(params=("ns", "landlock", *repeating("bwrap")))
def level(request: pytest.FixtureRequest) -> IsolationLevel:
    """Each level: they put the places that git looks at together in ways of their own."""
    return require_level(request.param)


# What the host judges before any level has its turn.
_judged = pytest.mark.parametrize("level", ["ns", *repeating("bwrap", "landlock")], indirect=True)


@pytest.fixture
def main(home: Path) -> Path:
    """A repository with a commit and a folder in it, in a user's home."""
    main = home / "main"
    (main / "sub").mkdir(parents=True)
    for name in ("file", "sub/part"):
        (main / name).write_text("one\n")
    _git(main, "init", "-q", "-b", "trunk")
    _git(main, "add", ".")
    _git(main, "commit", "-qm", "first")
    return main


@pytest.fixture
def tree(main: Path) -> Path:
    """A linked working tree of it, with a change."""
    tree = main.parent / "tree"
    _git(main, "worktree", "add", "-q", "-b", "side", str(tree))
    (tree / "file").write_text("two\n")
    return tree


class Calls:
    """Calls of a tool that runs git, each in a session of its own; `notes` are those of the last.

    `meanwhile` is done when all is judged and nothing is mounted.
    """

    def __init__(self, source: str, home: Path, level: IsolationLevel) -> None:
        self.notes: tuple[str, ...] = ()
        self.meanwhile: Callable[[], object] = lambda: None
        self._source, self._home, self._level = source, home, level

    async def __call__(self, folder: Path, *commands: str, more: dict[str, Any] | None = None, **granted: Any) -> Any:
        outcome = await self.outcome(folder, *commands, more=more, **granted)
        assert outcome.result.success, outcome.result.error
        return outcome.result.output

    async def outcome(
        self, folder: Path, *commands: str, more: dict[str, Any] | None = None, **granted: Any
    ) -> ToolCallOutcome:
        return await call_once(
            self._source,
            "git",
            {"commands": commands, **(more or {})},
            permissions={"read": ["."], "run": ["git", "bash"], **granted},
            isolation=self._level,
            home=self._home,
            working_dir=folder,
            on_confined=lambda confined: self._note([one for _, one in confined]),
        )

    def _note(self, confined: list[Confinement]) -> None:
        self.notes = tuple(remark for one in confined for remark in one.remarks() if "git does not work" in remark)
        self.meanwhile()


@pytest.fixture
def calls(write_module: WriteModule, home: Path, level: IsolationLevel) -> Calls:
    return Calls(write_module("tool-git", tool_code("git", _GIT)), home, level)


def _outside(folder: Path, *commands: str) -> list[list[Any]]:
    """Return what the commands say outside of any sandbox."""
    told = []
    for command in commands:
        done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
        told.append([done.returncode, done.stdout + done.stderr])
    return told


@pytest.mark.parametrize("level", ["ns", "bwrap", "landlock"], indirect=True)
async def test_git_works_in_a_linked_working_tree_and_writes_nothing(
    calls: Calls, main: Path, tree: Path, level: IsolationLevel
) -> None:
    """Also where the tree may be written to, which a lock file in it forbids at a level without mounts."""
    head = main / ".git/HEAD"
    writes = {str(head): "ref: refs/heads/x\n", str(main / ".git/hooks/post-checkout"): "#!/bin/sh\n"}
    granted = {} if level == "landlock" else {"write": ["."]}
    *looks, is_seen = await calls(tree, *_LOOK, more={"write": writes, "read": [str(main / "file")]}, **granted)
    outside = _outside(tree, *_LOOK)
    assert outside[0] == [0, "first\n"] and looks[: len(outside)] == outside and calls.notes == ()
    assert not is_seen, "only the repository of the main working tree is to be seen"
    assert "written" not in looks and head.read_text() == "ref: refs/heads/trunk\n"


@_judged
async def test_a_linked_tree_with_relative_paths_works_as_well(calls: Calls, main: Path, tree: Path) -> None:
    own = main / ".git/worktrees/tree"
    (tree / ".git").write_text("gitdir: ../main/.git/worktrees/tree\n")
    (own / "gitdir").write_text("../../../../tree/.git\n")
    told = await calls(tree, *_LOOK)
    assert told[0] == [0, "first\n"] and told == _outside(tree, *_LOOK)


@pytest.mark.exhaustive("landlock")
async def test_a_commit_in_a_linked_tree_takes_the_grant_that_is_named(calls: Calls, main: Path, tree: Path) -> None:
    commit = "git -c user.name=x -c user.email=x@example.com commit -qam second"
    outcome = await calls.outcome(tree, commit)
    assert outcome.result.output[0][0] != 0
    (denial,) = (one for one in outcome.denials if one.operation == "write to")
    assert denial.target == str(main / ".git") and f'"{main}/.git"' in denial.grant
    assert (await calls(tree, commit, write=[str(main / ".git")]))[0] == [0, ""]
    assert _git(tree, "log", "--format=%s") == "second\nfirst\n"


def _gone(main: Path, tree: Path) -> str:
    shutil.rmtree(main)
    return "is not there"


def _names_another_tree(main: Path, tree: Path) -> str:
    (main / ".git/worktrees/tree/gitdir").write_text(f"{main.parent / 'other'}/.git\n")
    return "names no working tree"


def _names_another_repository(main: Path, tree: Path) -> str:
    """As a module would: a folder beside the tree's that says all the right things about a third one."""
    fake = main.parent / "fake/worktrees/tree"
    shutil.copytree(main / ".git/worktrees/tree", fake)
    (fake / "commondir").write_text(f"{main.parent}/.ssh\n")
    (tree / ".git").write_text(f"gitdir: {fake}\n")
    return "names no working tree"


def _looks_like_a_bare_one(main: Path, tree: Path) -> str:
    """A folder of work that a module once made look like git's own, around what others put there since."""
    fake = main.parent / ".ssh"
    shutil.copytree(main / ".git", fake, dirs_exist_ok=True)
    (tree / ".git").write_text(f"gitdir: {fake}/worktrees/tree\n")
    return "may hold more than git's files"


def _leads_through_a_link(main: Path, tree: Path) -> str:
    fake = main.parent / "fake/.git"
    fake.mkdir(parents=True)
    (fake / "worktrees").symlink_to(main / ".git/worktrees")
    (main / ".git/worktrees/tree/commondir").write_text(f"{fake}\n")
    (tree / ".git").write_text(f"gitdir: {fake}/worktrees/tree\n")
    return "names no working tree"


def _is_somebody_elses(main: Path, tree: Path) -> str:
    if os.geteuid() != 0:
        pytest.skip("only root can make a repository somebody else's")
    os.chown(main / ".git", 65534, 65534)
    return "not yours alone"


def _can_be_written_to_by_others(main: Path, tree: Path) -> str:
    (main / ".git").chmod(0o777)
    return "not yours alone"


@_judged
@pytest.mark.parametrize(
    "lie",
    [
        _gone,
        _names_another_tree,
        _names_another_repository,
        _looks_like_a_bare_one,
        _leads_through_a_link,
        _is_somebody_elses,
        _can_be_written_to_by_others,
    ],
)
async def test_a_git_file_alone_shows_nothing(
    lie: Callable[[Path, Path], str], calls: Calls, main: Path, tree: Path, home: Path
) -> None:
    """Nor does one whose repository is gone, lies, or is somebody else's: a note says which."""
    said = lie(main, tree)
    places = [str(main / ".git/HEAD"), str(home / ".ssh/id_x"), str(home / ".ssh/HEAD")]
    told = await calls(tree, "git log", more={"read": places})
    assert told[0][0] != 0 and told[1:] == [False] * len(places)
    (note,) = calls.notes
    assert said in note and ("`read: [" in note) is (said not in ("is not there", "names no working tree"))


async def test_what_is_exchanged_between_judgement_and_mount_shows_nothing(
    calls: Calls, main: Path, tree: Path, home: Path
) -> None:
    """A module of another session may write in the tree, or around the repository."""
    keys = [str(home / ".ssh/id_x"), str(main / ".git/id_x")]
    fake = home / ".ssh/worktrees/tree"
    shutil.copytree(main / ".git/worktrees/tree", fake)
    calls.meanwhile = lambda: (tree / ".git").write_text(f"gitdir: {fake}\n")
    assert (await calls(tree, "true", more={"read": keys}))[1:] == [False, False]

    def exchange() -> None:
        (main / ".git").rename(main / "moved")
        (main / ".git").symlink_to(home / ".ssh")

    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/tree\n")
    calls.meanwhile = exchange
    outcome = await calls.outcome(tree, "true", more={"read": keys})
    assert not outcome.result.success and "symbolic link" in str(outcome.result.error)


@pytest.mark.exhaustive("landlock")
async def test_no_repository_that_a_module_may_write_to_is_shown(
    calls: Calls, main: Path, tree: Path, write_module: WriteModule, level: IsolationLevel
) -> None:
    """The other module of the session may write around it, the third one in it."""
    for place in (main.parent / "main", main / ".git/hooks"):
        plan = {
            "session": {"orchestrator": "loop-basic", "context": "context-simple"},
            "tools": [
                {"module": "tool-git", "source": write_module("tool-git", tool_code("git", _GIT))},
                {"module": "tool-other", "source": write_module("tool-other", tool_code("other", _GIT))},
            ],
        }
        plan["tools"][0]["permissions"] = {"read": ["."], "run": ["git", "bash"]}  # type: ignore[index]
        plan["tools"][1]["permissions"] = {"write": [str(place)]}  # type: ignore[index]
        with anyio.fail_after(_SECONDS):
            async with Session(plan, working_dir=tree, isolation=level, trust_plan=True) as session:
                told = await session.coordinator.get("tools", "git").execute({"commands": ["git log"]})
        assert told.output[0][0] != 0


@pytest.mark.exhaustive("landlock")
async def test_a_repository_that_begins_above_takes_the_grant_that_is_named(calls: Calls, main: Path) -> None:
    """Both by the note before the start, and by the denial after git has looked for it."""
    outcome = await calls.outcome(main / "sub", *_LOOK[:1])
    assert outcome.result.output[0][0] != 0
    (note,) = [one for one in calls.notes if "begins above it" in one]
    assert f"`read: [{main}/.git]`" in note
    (denial,) = [one for one in outcome.denials if one.target == str(main / ".git")]
    assert denial.grant.count(f'"{main}/.git"') == 1
    looks = ["git log --format=%s", "git status --short .", "git show HEAD:sub/part"]
    assert await calls(main / "sub", *looks, read=[".", str(main / ".git")]) == _outside(main / "sub", *looks)
    assert calls.notes == ()


@pytest.mark.exhaustive
@_judged
async def test_objects_that_are_borrowed_take_the_grant_that_is_named(calls: Calls, main: Path, home: Path) -> None:
    _git(home, "clone", "-q", "--shared", str(main), "borrower")
    outcome = await calls.outcome(home / "borrower", *_LOOK[:1])
    assert outcome.result.output[0][0] != 0
    place = f"{main}/.git/objects"
    assert any(f"`read: [{place}]`" in one for one in calls.notes)
    (denial,) = [one for one in outcome.denials if one.target == place]
    assert f'"{place}"' in denial.grant
    assert (await calls(home / "borrower", *_LOOK[:1], read=[".", place]))[0] == [0, "first\n"]
    assert calls.notes == ()


@_judged
async def test_a_plan_that_was_not_accepted_stays_in_its_folder(
    write_module: WriteModule, tree: Path, level: IsolationLevel
) -> None:
    entry = {"module": "tool-git", "source": write_module("tool-git", tool_code("git", _GIT))}
    plan = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "tools": [{**entry, "source": str(shutil.copytree(entry["source"], tree / "module"))}],
    }
    plan["tools"][0]["permissions"] = {"read": ["."], "run": ["git", "bash"]}  # type: ignore[index]
    notes: list[str] = []
    for trust_plan in (False, True):
        with anyio.fail_after(_SECONDS):
            async with Session(
                plan,
                working_dir=tree,
                isolation=level,
                trust_plan=trust_plan,
                on_confined=lambda confined: notes.extend(line for _, one in confined for line in one.remarks()),
            ) as session:
                told = await session.coordinator.get("tools", "git").execute({"commands": ["git log"]})
        assert (told.output[0][0] == 0) is trust_plan
    assert sum("takes an accepted plan" in note for note in notes) == 1
