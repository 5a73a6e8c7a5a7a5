"""A folder whose code was changed since it was locked: a person is told at every run that runs other code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from integration.command_line import paddock
from integration.conftest import WriteModule

_TOOL = """
    from amplifier_core import ToolResult

    class Say:
        name = "say"
        description = "says a word"

        async def execute(self, input):
            return ToolResult(output="{word}")

    async def mount(coordinator, config):
        await coordinator.mount("tools", Say())
"""
_PLAN = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers: [{{module: provider-mock}}]
tools: [{{module: tool-say, source: {source}}}]
"""


class Folder:
    """A working directory with a locked tool, and a plan of it."""

    def __init__(self, work: Path, write_module: WriteModule) -> None:
        self.work = work
        self._write = write_module
        self.source = self.says("first")
        (work / "plan.yaml").write_text(_PLAN.format(source=self.source))
        added = paddock("add", self.source, "--yes", cwd=work)
        assert added.returncode == 0, added.stderr

    def says(self, word: str) -> str:
        return self._write("tool-say", _TOOL.format(word=word))

    def told(self, *command: str) -> tuple[str, list[str]]:
        """Run a command; return its output and what it tells of changed code."""
        done: subprocess.CompletedProcess[str] = paddock(*command, cwd=self.work)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), [line for line in done.stderr.splitlines() if "since it was locked" in line]


@pytest.fixture
def folder(tmp_path: Path, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("PADDOCK_CACHE_DIR", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    return Folder(work, write_module)


@pytest.mark.exhaustive("command0")
@pytest.mark.parametrize("command", [("call", "{}", "say", "{{}}"), ("run", "plan.yaml", "hello", "--trust-plan")])
def test_changed_code_of_a_locked_folder_is_told_of_in_one_line(folder: Folder, command: tuple[str, ...]) -> None:
    words = tuple(word.format(folder.source) for word in command)
    assert folder.told(*words)[1] == []
    for word in ("second", "third") if command[0] == "call" else ("second",):
        folder.says(word)
        output, (line,) = folder.told(*words)
        assert line.startswith("warning: ") and folder.source in line
        assert "--locked" in line and "--frozen" in line
        if command[0] == "call":
            assert output == word
        assert folder.told(*words)[1] == []


def test_a_lock_that_is_frozen_runs_what_was_locked(folder: Folder) -> None:
    folder.says("second")
    assert folder.told("call", folder.source, "say", "{}", "--frozen") == ("first", [])


def test_a_link_in_place_of_a_locked_folder_is_told_of(folder: Folder) -> None:
    place, elsewhere = Path(folder.source), Path(folder.source).with_name("elsewhere")
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    assert folder.told("call", folder.source, "say", "{}") == ("first", [])  # the same code, wherever it is
    folder.says("second")
    assert folder.told("call", folder.source, "say", "{}", "--frozen") == ("first", [])
    refused = paddock("call", folder.source, "say", "{}", "--locked", cwd=folder.work)
    assert refused.returncode != 0 and "is not what was locked" in refused.stderr
    output, (line,) = folder.told("call", folder.source, "say", "{}")
    assert output == "second" and folder.source in line
    assert folder.told("call", folder.source, "say", "{}") == ("second", [])
