"""What a session's journal keeps once it has grown, and what it leaves out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.rpc.marshal import Marshaller
from paddock.session.journals import session_journal
from paddock.session.journals.journal_file import JournalFile, read_journal
from paddock.session.journals.journal_store import JournalEntry
from paddock.session.journals.kept_session import KeptModule, Meta, kept_session
from paddock.session.journals.session_journal import SessionJournal
from paddock.session.state.session_state import WrittenState

_META = Meta(
    paddock="1",
    session="s",
    pid=7,
    plan=None,
    digest="d",
    working_dir="/",
    modules={"tool-x": KeptModule(kind="tool", source="./x")},
)
_MARSHALLER = Marshaller()


def _said(text: str) -> JournalEntry:
    return JournalEntry("add_message", _MARSHALLER.encode([[{"role": "user", "content": text}], {}]))


async def test_a_journal_that_has_grown_keeps_what_still_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_journal, "_SMALL", 1000)
    journal = SessionJournal(JournalFile.create(tmp_path / "s.journal"))
    journal.begin(_META, NO_SECRETS)
    sizes = []
    for turn in range(100):
        async with journal.during(f"prompt {turn}"):
            journal.append(_said("x" * 100))
            for key in ("one", "two"):
                journal.state([WrittenState(key, "tool-x", f"{turn}".encode() * 50, is_live=False)])
            if turn % 10 == 9:
                journal.replace([_said("all in short")._replace(method="set_messages")])
        sizes.append(journal.path.stat().st_size)
    journal.close()
    kept = kept_session(journal.path, read_journal(journal.path)[0])
    assert [turn.prompt for turn in kept.turns] == [f"prompt {turn}" for turn in range(100)]
    assert {key: one.change for key, one in kept.state.items()} == {"one": b"99" * 50, "two": b"99" * 50}
    assert max(sizes) < 40_000


@pytest.mark.parametrize("value", ["paddock", "prompt", "modules", "1234", "null", "tool-x"])
async def test_a_secret_that_is_a_word_of_the_form_leaves_a_journal_readable(tmp_path: Path, value: str) -> None:
    journal = SessionJournal(JournalFile.create(tmp_path / "s.journal"))
    journal.begin(_META.model_copy(update={"pid": 51234}), SecretValues({"KEY": value}))
    with suppress(ValueError):
        async with journal.during(f"it is {value}"):
            journal.state([WrittenState("one", "tool-x", value.encode(), is_live=False)])
            raise ValueError(value)
    journal.close()
    kept = kept_session(journal.path, read_journal(journal.path)[0])
    assert (kept.metas[0].pid, kept.turns[0].prompt) == (51234, "it is [secret KEY]")
    assert kept.state["one"].change == b"*" * len(value)
