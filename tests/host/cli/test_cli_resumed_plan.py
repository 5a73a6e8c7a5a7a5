"""The session to go on with, and its plan where the command line names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.cli.options import plan_and_prompt
from paddock.session.journals.journal_file import Kind
from paddock.session.journals.journal_folder import Journals, UnknownSessionError
from paddock.session.journals.kept_session import Meta, Turn, encoded


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a session that had the plan `other.yaml` there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    plan = work / "other.yaml"
    plan.touch()
    began = Meta(paddock="1", session="s-12", pid=7, plan=str(plan), digest="d", working_dir=str(work), modules={})
    journal = Journals().create("s-12")
    journal.append(Kind.META, encoded(began))
    journal.append(Kind.TURN, encoded(Turn(prompt="hello")))
    journal.close()
    return work


def test_a_session_brings_the_plan_that_it_had(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "plan.yaml").touch()
    assert plan_and_prompt([], "last").plan == "other.yaml"
    assert plan_and_prompt(["go on, please"], "s-12").plan == "other.yaml"
    assert plan_and_prompt(["plan.yaml", "go on"], "last").plan == "plan.yaml"
    assert plan_and_prompt(["go on, please"]).plan == "plan.yaml"
    monkeypatch.chdir(folder.parent)
    assert plan_and_prompt(["go on"], "last", folder).plan == str(folder / "other.yaml")
    assert plan_and_prompt([], "s-12").plan == str(folder / "other.yaml")


def test_a_command_to_paste_goes_on_with_the_session(folder: Path) -> None:
    assert plan_and_prompt(["more"], "last").run == "paddock run other.yaml more --resume last"
    assert plan_and_prompt(["more"]).run == "paddock run plan.yaml more"


def test_a_session_that_is_not_there_brings_no_plan(folder: Path) -> None:
    with pytest.raises(UnknownSessionError):
        plan_and_prompt([], "nosuch")
    assert plan_and_prompt(["other.yaml"], "nosuch").plan == "other.yaml"  # the session's start reports it


def test_too_little_of_an_id_is_said_to_be_that(folder: Path) -> None:
    with pytest.raises(UnknownSessionError) as caught:
        Journals().find("s-1")
    assert caught.value.hints[0] == "of an id, 4 characters at least stand for it"
