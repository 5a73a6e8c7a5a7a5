"""A preset that means more or less than when a plan was accepted: through the command line, with a table of presets."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from integration.command_line import Terminal, accepting, paddock, python
from integration.conftest import WriteModule
from paddock_sources.manifest.permission_request import PRESETS

pytestmark = pytest.mark.usefixtures("commands_end")

_Meaning = Mapping[str, tuple[str, ...]]

_LOOK = """
    from pathlib import Path

    from amplifier_core import ToolResult

    class Look:
        name = "look"
        description = "reads one file and writes another"

        def __init__(self, config):
            self.config = config

        def act(self, act):
            try:
                act()
                return "yes"
            except OSError:
                return "no"

        async def execute(self, input):
            reads = self.act(lambda: Path(self.config["reads"]).read_text())
            writes = self.act(lambda: Path(self.config["writes"]).write_text("x"))
            return ToolResult(output=f"reads {reads}, writes {writes}")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Look(config))
"""
_PLAN = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers:
  - module: provider-mock
    config: {{responses: [{{tool_calls: [{{name: look, arguments: {{}}}}]}}, "It {{last_tool_result}}"]}}
tools:
  - module: tool-look
    source: {source}
    config: {{reads: {outside}/note, writes: {work}/made}}
    permissions: {preset}
  - {{module: tool-todo, permissions: {{read: [{outside}/other]}}}}
"""
_PATCHED = """\
from paddock_sources.manifest import permission_request
permission_request.PRESETS = {table!r}
permission_request.PRESETS_VERSION = {version}
from paddock.cli import main
main()
"""
_ASKS = "type the word yes"


class Project:
    """A folder to work in, with a plan whose tool has the preset `workspace`, and notes outside the folder."""

    def __init__(self, folder: Path) -> None:
        self.work, self.outside, self.plan = folder / "work", folder / "outside", folder / "plan.yaml"
        self.source = folder / "tool-look"
        self.more: _Meaning = {"read": (".", str(self.outside)), "write": (".",)}
        self.less: _Meaning = {"read": (".",)}

    def make(self, source: str) -> None:
        """Lay it out, with a copy of this source of its tool, and accept its plan with the first meanings."""
        shutil.copytree(source, self.source)
        self.work.mkdir()
        (self.outside / "other").mkdir(parents=True)
        (self.outside / "note").write_text("a note")
        self.write("workspace")
        assert "reads no, writes yes" in self.answers(None, "yes")

    def write(self, preset: str) -> None:
        """Write the plan; `preset` is that of its tool."""
        self.plan.write_text(_PLAN.format(source=self.source, outside=self.outside, work=self.work, preset=preset))

    def program(self, second: _Meaning | None) -> str:
        """Return the command as one in which `workspace` has a second meaning."""
        meanings = {1: PRESETS["workspace"][1], **({2: second} if second is not None else {})}
        return _PATCHED.format(table={**PRESETS, "workspace": meanings}, version=max(meanings))

    def arguments(self, *options: str) -> list[str]:
        return [*accepting(["run", str(self.plan), "hello", "-C", str(self.work), *options])]

    def run(self, second: _Meaning | None, *options: str) -> tuple[str, str]:
        """Run the plan without a terminal, and return the answer and what was said beside it."""
        done: subprocess.CompletedProcess[str] = python(
            self.program(second), *self.arguments("--json", *options), cwd=self.work, environ={}
        )
        assert done.returncode == 0, done.stderr
        answer: str = json.loads(done.stdout)["response"]
        return answer, done.stderr

    def answers(self, second: _Meaning | None, word: str, *shown: str) -> str:
        """Run the plan on a terminal that shows these texts in this order and asks; return all that comes after."""
        with Terminal(*self.arguments(), program=self.program(second)) as terminal:
            for text in (*shown, _ASKS):
                terminal.until(text)
            terminal.type(f"{word}\n")
            assert terminal.exit_code() == 0, terminal.shown
            return terminal.shown


@pytest.fixture(scope="module")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("meanings")


@pytest.fixture
def project(
    _place: Path, tmp_path: Path, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """A project whose plan was accepted with the first meanings, as the first test that asked for it made it."""
    root, kept = _place / "root", _place / "kept"
    monkeypatch.setenv("HOME", str(root / "home"))
    made = Project(root)
    if kept.is_dir():
        shutil.copytree(kept, root, symlinks=True)
    else:
        (root / "home").mkdir(parents=True)
        made.make(write_module("tool-look", _LOOK))
        shutil.copytree(root, kept, symlinks=True)
    yield made
    root.rename(tmp_path / "root")


def _accepted(project: Project) -> str:
    return (project.plan.parent / "home/.config/paddock/grants.toml").read_text()


def test_more_is_asked_about_and_until_then_the_old_meaning_holds(project: Project) -> None:
    assert "presets" not in _accepted(project), "an older Paddock reads the file"
    answer, said = project.run(project.more)
    assert answer == "It reads no, writes yes"
    assert f"tools[0] keeps its preset as you accepted it, without read `{project.outside}`" in said
    looked = python(
        project.program(project.more),
        *("why", "tool-look", "read", str(project.outside / "note"), "--plan", str(project.plan), "-C"),
        str(project.work),
        cwd=project.work,
        environ={},
    )
    assert "refused: `tool-look` may not read" in looked.stdout, (looked.stdout, looked.stderr)
    shown = ("would be given", f"read `{project.outside}`, which its preset grants by now", "You accepted it before")
    assert "reads no, writes yes" in project.answers(project.more, "no", *shown)
    assert "reads yes, writes yes" in project.answers(project.more, "yes", *shown)
    answer, said = project.run(project.more)
    assert answer == "It reads yes, writes yes" and "preset" not in said
    assert "presets = 2" in _accepted(project)


def test_less_takes_effect_at_once_and_is_said_once(project: Project) -> None:
    answer, said = project.run(project.less)
    assert answer == "It reads no, writes no"
    assert said.count("preset `workspace` no longer grants write `.`") == 1
    answer, said = project.run(project.less)
    assert answer == "It reads no, writes no" and "no longer grants" not in said


@pytest.mark.exhaustive("grant")
@pytest.mark.parametrize("options", [("--trust-plan",), ("--grant", "tool-look=workspace")], ids=["plan", "grant"])
def test_what_is_trusted_for_one_run_means_what_it_means_now(project: Project, options: tuple[str, ...]) -> None:
    news = f"preset `workspace` by now grants read `{project.outside}`"
    answer, said = project.run(project.more, *options)
    assert answer == "It reads yes, writes yes" and said.count(news) == 1
    answer, said = project.run(project.more, *options)
    assert answer == "It reads yes, writes yes" and news not in said
    assert project.run(project.more)[0] == "It reads no, writes yes", "it was for one run"


def test_what_a_preset_gains_and_loses_is_neither_gained_nor_kept(project: Project) -> None:
    for _ in range(2):
        answer, said = project.run({"read": (".", str(project.outside))})
        assert answer == "It reads no, writes no"
        assert f"without read `{project.outside}`" in said
    assert "preset `workspace`" not in said


def test_an_edited_plan_is_asked_about_as_one_and_has_todays_meaning(project: Project) -> None:
    project.plan.write_text(project.plan.read_text() + "# edited\n")
    assert "reads yes, writes yes" in project.answers(project.more, "yes", "tool-look", "once accepted")
    assert paddock("policy", "show").returncode == 0
