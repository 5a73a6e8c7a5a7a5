"""The journals of sub-sessions beside that of their session: how many stay, and what they take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from paddock.plan.load import load_plan
from paddock.policy.secrets.values import NO_SECRETS
from paddock.session.journals.journal_file import JournalFile, Kind
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.kept_session import Meta
from paddock.session.journals.session_journal import SessionJournal
from paddock.session.session_plan import SessionPlan
from paddock.session.sub_sessions import session_tree
from paddock.session.sub_sessions.session_tree import SessionTree, SubSessionState

_PLAN = load_plan({"session": {"orchestrator": "loop-a", "context": "context-a"}, "agents": {"leaf": {}}})
_RESOURCES: Any = None  # nothing is started here


def _first(folder: Path) -> SessionJournal:
    journal = SessionJournal(JournalFile.create(folder / "s.journal"))
    meta = Meta(paddock="1", session="s", pid=7, plan=None, digest="d", working_dir="/", modules={})
    journal.begin(meta, NO_SECRETS)
    return journal


async def _turn(
    first: SessionJournal, id: str, *, at: int = 1, bytes: int = 10, transcript: bytes | None = None
) -> int:
    """Run a turn of a sub-session, and return how many turns its journal had."""
    tree = SessionTree("s", _RESOURCES, {}, _PLAN.agents, journal=first)
    state = SubSessionState(id, "s", "leaf", SessionPlan.of(_PLAN), 0, "", (), transcript, wishes=b"wished")
    journal = await tree.journal_of(state)
    assert journal is not None
    async with journal.during("x" * bytes):
        pass
    journal.close()
    os.utime(journal.path, (at, at))
    return 0 if journal.kept is None else len(journal.kept.turns)


@pytest.mark.parametrize(
    ("most", "bytes_max", "left"), [(3, 1 << 20, "cde"), (99, 3500, "cde"), (99, 1 << 20, "abcde")]
)
async def test_the_oldest_go_when_another_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, bytes_max: int, left: str
) -> None:
    monkeypatch.setattr(session_tree, "_KEPT_MAX", most)
    monkeypatch.setattr(session_tree, "_JOURNAL_BYTES", bytes_max)
    first = _first(tmp_path)
    for at, id in enumerate("abcde"):
        await _turn(first, id, at=at, bytes=1000)
    assert {*Journals.below(first.path).ids()} == {*left}


async def test_one_that_goes_on_has_what_it_had_and_a_new_one_nothing(tmp_path: Path) -> None:
    first, id = _first(tmp_path), "../odd"
    assert [await _turn(first, id, transcript=said) for said in (None, b"said", b"said", None)] == [0, 1, 2, 0]


async def test_who_started_one_may_go_on_with_it_after_its_host_and_nobody_else(tmp_path: Path) -> None:
    first = _first(tmp_path)
    await _turn(first, "mine")
    assert SessionTree("s", _RESOURCES, {}, _PLAN.agents, journal=first).read_earlier("s", "mine") is None
    first.close()
    tree = SessionTree("s", _RESOURCES, {}, _PLAN.agents, journal=Journals(tmp_path).resumed("s"))
    kept = tree.read_earlier("s", "mine")
    assert kept is not None and kept.spawn is not None and kept.spawn.wishes == b"wished"
    assert tree.read_earlier("another", "mine") is None and tree.read_earlier("s", "\udcff") is None


def test_sub_sessions_count_as_their_session_and_are_removed_with_it(tmp_path: Path) -> None:
    first = _first(tmp_path)
    first.close()
    sub = Journals.below(first.path).create("below")
    sub.append(Kind.ADD, b"x" * 1000)
    sub.close()
    (file,) = Journals(tmp_path)._files()
    assert file.size > 1000
    Journals(tmp_path).delete("s")
    assert list(tmp_path.iterdir()) == []
