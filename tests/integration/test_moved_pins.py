"""A lock file that changes under an accepted plan: what Paddock moves stays accepted, all else is asked about once."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import Terminal, paddock
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import lay_out, module_files, repository

pytestmark = pytest.mark.usefixtures("commands_end")

_PLAN = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers:
  - module: provider-mock
    config: {{responses: [{{tool_calls: [{{name: tool_greet, arguments: {{}}}}]}}, "It said {{last_tool_result}}"]}}
tools:
  - {{module: tool-greet, source: '{source}', permissions: {{read: [../other]}}}}
"""
_ASKS = "type the word yes"
_MOVED = "pinned otherwise than you accepted"


class Project:
    """A plan that its operator accepted at a terminal, with a module of a repository that goes on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder.parent / "other").mkdir()
        self.lock = folder / "paddock.lock"
        self.plan = folder / "plan.yaml"
        self.origin: OriginRepository = repository(folder / "good", module_files(answer="'one'"))
        self.source = f"git+file://{self.origin.folder}@main"
        self.plan.write_text(_PLAN.format(source=self.source))

    def accept(self) -> None:
        """Lock what the plan names, which takes the operator's own word, and say yes to it."""
        self.paddock("lock")
        with self.terminal() as terminal:
            terminal.until(_ASKS)
            terminal.type("yes\n")
            assert terminal.exit_code() == 0, terminal.shown

    def terminal(self) -> Terminal:
        return Terminal("run", str(self.plan), "hello", "-C", str(self.folder))

    def answers_yes(self, *shown: str, says: str, asks: str = _ASKS) -> None:
        """Run it at a terminal that shows these texts in this order, and then asks: the answer is yes."""
        with self.terminal() as terminal:
            for text in (*shown, asks):
                terminal.until(text)
            terminal.type("yes\n")
            assert terminal.exit_code() == 0 and f"It said {says}" in terminal.shown, terminal.shown

    def commit(self, answer: str) -> str:
        self.origin.commit(module_files(answer=f"'{answer}'"))
        return self.head()

    def head(self) -> str:
        return self.origin.git("rev-parse", "HEAD").strip()

    def run(self, *options: str) -> tuple[int, dict[str, Any]]:
        done = paddock("run", "plan.yaml", "hello", "--json", *options, cwd=self.folder)
        return done.returncode, json.loads(done.stdout)

    def paddock(self, *args: str) -> None:
        done = paddock(*args, cwd=self.folder)
        assert done.returncode == 0, done.stderr

    def pull(self) -> None:
        """Get the lock file as a colleague has it, who locked the sources as they are now."""
        theirs = self.folder.parent / "theirs"
        theirs.mkdir(exist_ok=True)
        (theirs / "paddock.lock").unlink(missing_ok=True)
        assert paddock("add", self.source, cwd=theirs).returncode == 0
        shutil.copy(theirs / "paddock.lock", self.lock)

    def is_refused(self, *options: str) -> bool:
        code, told = self.run(*options)
        return (code, (told["error"] or {}).get("type"), told["response"]) == (4, "LockMovedError", None)

    def says(self, answer: str) -> None:
        code, told = self.run()
        assert (code, told["response"]) == (0, f"It said {answer}"), told


@pytest.fixture(scope="module")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("moved")


@pytest.fixture(scope="module")
def _kept() -> list[Project]:
    return []


@pytest.fixture
def root(_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty folder, the same for each test, with the home and the cache of the operator in it."""
    root = _place / "root"
    (root / "home").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(root / "home"))
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(root / "cache"))
    yield root
    # Not removed: what a cache keeps may be for reading only.
    root.rename(_place / f"of-{tmp_path.name}")


@pytest.fixture
def project(_place: Path, _kept: list[Project], root: Path) -> Project:
    """Return an accepted project, whose first session was run, as the first test that asked for it made it."""
    if not _kept:
        made = Project(root / "project")
        made.accept()
        made.says("one")
        shutil.copytree(root, _place / "kept", symlinks=True)
        _kept.append(made)
    else:
        shutil.copytree(_place / "kept", root, symlinks=True, dirs_exist_ok=True)
    return copy.copy(_kept[0])


def test_what_is_pinned_otherwise_is_asked_about_once(project: Project) -> None:
    # What is no pin of the plan is not asked about.
    elsewhere = project.folder.parent / "elsewhere"
    lay_out(elsewhere / "mine", module_files("tool-mine"))
    assert paddock("add", "./mine", cwd=elsewhere).returncode == 0
    other = (elsewhere / "paddock.lock").read_text()
    project.lock.write_text("# of a colleague\n" + _together(project.lock.read_text(), other, "./mine"))
    project.says("one")

    # A lock that was pulled is.
    before, after = project.head(), project.commit("two")
    project.pull()
    with project.terminal() as terminal:
        terminal.until(_MOVED)
        terminal.until(before[:12])
        terminal.until(after[:12])
        terminal.until(_ASKS)
        terminal.type("stop\n")
        assert terminal.exit_code() == 4 and "It said" not in terminal.shown
    project.answers_yes(_MOVED, says="two")
    project.says("two")

    # A plan that was edited is shown with the pins that moved.
    before, after = project.head(), project.commit("three")
    project.pull()
    project.plan.write_text("# edited\n" + project.plan.read_text())
    project.answers_yes(_MOVED, before[:12], after[:12], asks="type the word yes, no or stop", says="three")
    project.says("three")

    # One that was accepted before pins were kept is asked about once.
    grants = Path(os.environ["HOME"]) / ".config/paddock/grants.toml"
    without = re.sub(r"^pins = \[.*?^\]\n", "", grants.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert without != grants.read_text()
    grants.write_text(without)
    assert project.is_refused()
    project.answers_yes("not known to be accepted", says="three")
    project.says("three")

    # What Paddock itself moves stays accepted.
    project.commit("four")
    locked = project.lock.read_text()
    project.paddock("update")
    assert project.lock.read_text() != locked
    project.says("four")


def test_without_a_terminal_a_pin_that_moved_is_refused_by_name(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = project.head(), project.commit("two")
    project.pull()
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "new"))
    code, told = project.run()
    assert code == 4 and told["error"]["type"] == "LockMovedError", told
    assert f"{before[:12]} -> {after[:12]}" in told["error"]["message"]
    (moved,) = told["error"]["moved"]
    assert (moved["old"]["commit"], moved["new"]["commit"]) == (before, after)
    assert any("--trust-plan" in hint for hint in told["error"]["hints"])
    assert not [*(tmp_path / "new").glob("trees-v2/*")]  # nothing was fetched for it
    for option in ("--offline", "--locked", "--frozen"):
        assert project.is_refused(option)
    code, told = project.run("--trust-plan")
    assert (code, told["response"]) == (0, "It said two")  # plan and lock as they are, this time
    assert project.is_refused()


@pytest.mark.exhaustive
def test_what_paddock_moves_for_a_folder_stays_accepted(root: Path) -> None:
    made = Project(root / "project")
    folder = made.folder / "mine"
    lay_out(folder, module_files(answer="'one'"))
    made.source = "./mine"
    made.plan.write_text(_PLAN.format(source=made.source))
    made.paddock("add", "./mine")
    made.accept()
    for answer, command in [("two", ["lock"]), ("three", ["add", "./mine"]), ("four", ["run", "plan.yaml", "hello"])]:
        lay_out(folder, module_files(answer=f"'{answer}'"))
        before = made.lock.read_text()
        made.paddock(*command)
        assert made.lock.read_text() != before, command
        made.says(answer)


def test_no_command_makes_an_accepted_pin_of_a_moved_one(project: Project) -> None:
    lay_out(project.folder / "mine", module_files("tool-mine"))
    project.paddock("add", "./mine")
    project.commit("two")
    mine = project.lock.read_text()
    project.pull()
    pulled = project.lock.read_text()
    with_mine = _together(pulled, mine, "./mine")
    project.commit("three")
    for command, lock in (
        (("add", "./mine"), pulled),
        (("lock",), pulled),
        (("remove", "./mine"), with_mine),
        (("update",), pulled),
    ):
        project.lock.write_text(lock)
        project.paddock(*command)
        assert project.is_refused(), command


def test_a_pin_that_was_taken_out_is_asked_about(project: Project) -> None:
    kept = project.lock.read_text()
    project.commit("two")
    for act in (project.lock.unlink, lambda: project.lock.write_text("version = 1\n")):
        project.lock.write_text(kept)
        act()
        assert project.is_refused()
    assert "no longer locked" in project.run()[1]["error"]["message"]
    project.answers_yes(_MOVED, says="two")
    project.says("two")


def test_a_forgotten_plan_is_accepted_no_more(project: Project, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(project.plan)
    other = paddock("policy", "forget", "other.yaml", "--json", cwd=project.folder)
    answer = json.loads(other.stdout)
    assert (other.returncode, answer["forgotten"], answer["error"]["type"]) == (1, [], "PlanNotAcceptedError")
    assert "paddock policy show" in other.stderr
    done = paddock("policy", "forget", str(link), "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["plan"], answer["error"]) == (0, str(project.plan), None), done.stderr
    (version,) = answer["forgotten"]
    assert version["digest"].startswith("sha256:") and version["accepted_at"]
    code, answer = project.run()
    assert (code, answer["error"]["type"], answer["response"]) == (4, "PolicyRefusedError", None)
    assert paddock("policy", "forget", "plan.yaml", cwd=project.folder).returncode == 1


def test_an_unaccepted_plan_gets_no_private_source_by_its_lock(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = repository(tmp_path / "outside", module_files(answer="'private'"))
    project.source = f"git+file://{outside.folder}@main"
    project.pull()
    project.plan.write_text(_PLAN.format(source=project.source))
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "new"))
    code, told = project.run()
    assert code in (1, 4) and told["response"] is None, told
    assert project.run("--trust-plan")[1]["response"] == "It said private"


@pytest.mark.exhaustive
def test_commands_at_the_same_time_leave_the_plan_accepted(project: Project) -> None:
    project.commit("two")
    names = [f"mine{number}" for number in range(3)]
    for name in names:
        lay_out(project.folder / name, module_files(f"tool-{name}"))
    commands = [["update"], *(["add", f"./{name}"] for name in names)]
    with ThreadPoolExecutor(len(commands)) as pool:
        began = [pool.submit(paddock, *args, cwd=project.folder) for args in commands]
        code, told = project.run()
        assert (code, told["response"]) in [(0, "It said one"), (0, "It said two")], told
        assert [one.result(60).returncode for one in began] == [0] * len(began)
    assert all(f'"./{name}"' in project.lock.read_text() for name in names)
    project.says("two")


def _together(lock: str, other: str, source: str) -> str:
    """Return the text of a lock file with what another has of a source at its end."""
    (table,) = [one for one in re.split(r"(?=^\[\[module\]\])", other, flags=re.MULTILINE) if f'"{source}"' in one]
    return f"{lock.rstrip()}\n\n{table}"
