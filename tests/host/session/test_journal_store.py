"""The seam behind the journal: any store gets what is noted, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded
from paddock.session.journals.context_journal import ContextJournal
from paddock.session.journals.journal_file import JournalFile
from paddock.session.journals.journal_store import JournalStore
from paddock.session.journals.session_journal import SessionJournal

_MARSHALLER = Marshaller()


def _say(number: int) -> Encoded:
    return _MARSHALLER.encode([[_message(number)], {}])


def _message(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"message {number}"}


def _note(journal: ContextJournal, *said: int | list[int] | None) -> None:
    """Note an added message for a number, set ones for a list, and a clearing for None."""
    for one in said:
        if one is None:
            journal.note("clear", _MARSHALLER.encode([[], {}]), 0)
        elif isinstance(one, list):
            journal.note("set_messages", _MARSHALLER.encode([[[_message(number) for number in one]], {}]), 0)
        else:
            journal.note("add_message", _say(one), 0)


def _kept(store: JournalStore) -> list[dict[str, Any]]:
    """Return the messages that a later journal finds in a store."""
    return ContextJournal(_MARSHALLER, store).messages()


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JournalStore]:
    if request.param == "memory":
        yield JournalStore()
        return
    journal = SessionJournal(JournalFile.create(tmp_path / "s.journal"))
    yield journal
    journal.close()


def test_a_store_has_what_was_noted(store: JournalStore) -> None:
    journal = ContextJournal(_MARSHALLER, store)
    for said, messages in (
        (1, [1]),
        (2, [1, 2]),
        ([3, 4], [3, 4]),
        (5, [3, 4, 5]),
        (None, []),
        (6, [6]),
    ):
        _note(journal, said)
        assert journal.messages() == _kept(store) == [_message(number) for number in messages]


def test_a_later_journal_goes_on_where_the_store_ends(store: JournalStore) -> None:
    first = ContextJournal(_MARSHALLER, store)
    _note(first, 1, 2)
    second = ContextJournal(_MARSHALLER, store)
    assert (second.weight, second.messages()) == (first.weight, first.messages())
    assert second.weight > 0
    _note(second, 3)
    assert _kept(store) == [_message(1), _message(2), _message(3)]


def test_the_same_message_twice_has_two_numbers() -> None:
    journal = ContextJournal(_MARSHALLER, JournalStore())
    message, empty = _say(1), journal.room
    first, second = journal.admit("add_message", message), journal.admit("add_message", message)
    taken = empty - journal.room
    assert first != second and journal.release(first) == taken // 2
    assert journal.release(first) == 0 and empty - journal.room == taken // 2
    journal.note("add_message", message, second)
    assert (journal.weight, empty - journal.room) == (taken // 2, taken // 2)
    assert journal.admit("get_messages", message) == 0
