"""How many interpreters a command loads for its workers: one, from which git's worker and the modules' are forked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from integration.command_line import accepting
from paddock.cli.commands import paddock
from paddock.workers.runtime import WorkerRuntime
from sources.git.origin_repository import OriginRepository
from sources.git_repositories import module_files

_PLAN = """\
session: {{orchestrator: loop-basic, context: context-simple}}
providers: [{{module: provider-mock}}]
tools:
  - {{module: tool-greet, source: "{source}"}}
"""


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """What each template that is started here loads."""
    started: list[Sequence[str]] = []
    spawn = WorkerRuntime.spawn

    def counted(runtime: WorkerRuntime, settings: Mapping[str, Any], *args: Any, **options: Any) -> Any:
        if "preload" in settings:
            started.append(settings["preload"])
        return spawn(runtime, settings, *args, **options)

    monkeypatch.setattr(WorkerRuntime, "spawn", counted)
    return started


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OriginRepository:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    repository = OriginRepository(tmp_path / "amplifier-module-tool-greet")
    repository.commit(module_files())
    return repository


def run(*args: str) -> None:
    """Run a command in this process, where its templates can be counted."""
    assert not paddock.main(list(accepting(args)), standalone_mode=False)


def test_a_call_that_fetches_starts_one_template(
    origin: OriginRepository, templates: list[Sequence[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    run("call", f"{origin.address}@main", "tool_greet", "{}", "--json")
    assert json.loads(capsys.readouterr().out)["output"] == "hello"
    assert len(templates) == 1
    assert "amplifier_core" in templates[0]


def test_a_session_that_fetches_starts_one_template(
    origin: OriginRepository, templates: list[Sequence[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.yaml").write_text(_PLAN.format(source=f"{origin.address}@main"))
    run("run", "plan.yaml", "hello", "--trust-plan")
    assert "mock" in capsys.readouterr().out.casefold()
    assert len(templates) == 1


def test_a_command_that_only_fetches_starts_one_small_template(
    origin: OriginRepository, templates: list[Sequence[str]]
) -> None:
    source = f"{origin.address}@main"
    Path("plan.yaml").write_text(_PLAN.format(source=source))
    for args in (("add", source), ("update",), ("lock", "plan.yaml")):
        templates.clear()
        run(*args)
        assert len(templates) == 1, args
        assert "amplifier_core" not in templates[0]
        origin.commit(module_files(version=f"{len(args)}.0.0"))
        if args == ("update",):
            Path("paddock.lock").unlink()
