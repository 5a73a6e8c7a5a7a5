"""The seam behind the journal: any store gets what is noted, in its order, and none can lose it for the session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded
from paddock.session.journal import ContextJournal
from paddock.session.journal_store import JournalStore, MemoryStore

from .twin_store import TwinStore

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


async def _finish(store: TwinStore) -> None:
    """Let a slow store do all that it is handed, one step after another."""
    while store.is_working:
        store.finish()
        await asyncio.sleep(0)  # the writer is told by the loop, and hands over the next


@pytest.mark.parametrize("make", [MemoryStore, TwinStore])
def test_a_store_that_is_done_at_once_has_what_was_noted(make: Callable[[], JournalStore]) -> None:
    store = make()
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
        numbers = [entry.number for entry in store.load()]
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("make", [MemoryStore, TwinStore])
def test_a_later_journal_goes_on_where_the_store_ends(make: Callable[[], JournalStore]) -> None:
    store = make()
    first = ContextJournal(_MARSHALLER, store)
    _note(first, 1, 2)
    second = ContextJournal(_MARSHALLER, store)
    assert (second.weight, second.messages()) == (first.weight, first.messages())
    assert second.weight > 0
    _note(second, 3)
    assert _kept(store) == [_message(1), _message(2), _message(3)]
    first_number, *later = [entry.number for entry in store.load()]
    assert all(number > first_number for number in later) and len({*later}) == 2


async def test_a_slow_store_gets_all_in_order_and_one_step_at_a_time() -> None:
    store = TwinStore(is_slow=True)
    journal = ContextJournal(_MARSHALLER, store)
    before = asyncio.all_tasks()
    _note(journal, 1, 2, 3)
    assert (store.steps, store.kept) == (1, []) and asyncio.all_tasks() == before
    assert journal.messages() == [_message(1), _message(2), _message(3)]
    store.finish()
    await asyncio.sleep(0)
    assert store.steps == 2 and _kept(store) == [_message(1)]
    assert journal.messages() == [_message(1), _message(2), _message(3)]
    _note(journal, 4)
    await _finish(store)
    assert _kept(store) == journal.messages() == [_message(number) for number in (1, 2, 3, 4)]
    assert (store.steps, journal.failure) == (4, None)


async def test_what_no_longer_counts_is_not_handed_to_a_slow_store() -> None:
    store = TwinStore(is_slow=True)
    journal = ContextJournal(_MARSHALLER, store)
    _note(journal, *range(50), None, 50, 51, [60, 61], 62)
    assert journal.messages() == [_message(60), _message(61), _message(62)]
    await _finish(store)
    assert _kept(store) == journal.messages()
    assert store.steps == 3  # the first message, those that were set, and the last


async def test_settled_waits_for_a_slow_store() -> None:
    store = TwinStore(is_slow=True)
    journal = ContextJournal(_MARSHALLER, store)
    await journal.settled()  # nothing was noted
    _note(journal, 1, 2)
    settling = asyncio.ensure_future(journal.settled())
    for kept in ([1], [1, 2]):
        await asyncio.sleep(0)
        assert not settling.done()
        store.finish()
        await asyncio.sleep(0)
        assert _kept(store) == [_message(number) for number in kept]
    await settling
    _note(journal, 3)
    settling = asyncio.ensure_future(journal.settled())
    await asyncio.sleep(0)
    settling.cancel()  # the store's work is not cancelled with the wait
    await asyncio.wait([settling])
    await _finish(store)
    assert _kept(store) == journal.messages() and journal.failure is None


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("fails_at", [1, 2])
async def test_a_store_that_fails_gets_nothing_more_and_nothing_is_lost(
    is_slow: bool, fails_at: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = TwinStore(is_slow=is_slow, fails_at=[fails_at])
    journal = ContextJournal(_MARSHALLER, store)
    _note(journal, 1, 2)
    await _finish(store)
    await journal.settled()
    assert isinstance(journal.failure, OSError)
    _note(journal, 3)
    assert _kept(store) == [_message(number) for number in range(1, fails_at)]
    assert journal.messages() == [_message(1), _message(2), _message(3)]
    _note(journal, [4], 5)
    assert journal.messages() == [_message(4), _message(5)]
    assert store.steps == fails_at
    (said,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "the disk is full" in said.message


async def test_a_store_whose_work_is_cancelled_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    store = TwinStore(is_slow=True)
    journal = ContextJournal(_MARSHALLER, store)
    _note(journal, 1, 2)
    store.cancel()
    await journal.settled()
    assert isinstance(journal.failure, asyncio.CancelledError) and "it was cancelled" in caplog.text
    assert (store.steps, journal.messages()) == (1, [_message(1), _message(2)])


def test_the_same_message_twice_has_two_numbers() -> None:
    journal = ContextJournal(_MARSHALLER, MemoryStore())
    message, empty = _say(1), journal.room
    first, second = journal.admit("add_message", message), journal.admit("add_message", message)
    taken = empty - journal.room
    assert first != second and journal.release(first) == taken // 2
    assert journal.release(first) == 0 and empty - journal.room == taken // 2
    journal.note("add_message", message, second)
    assert (journal.weight, empty - journal.room) == (taken // 2, taken // 2)
    assert journal.admit("get_messages", message) == 0


_ACTS = st.one_of(
    st.integers(0, 9), st.lists(st.integers(0, 9), max_size=2), st.none(), st.just("finish"), st.just("turn")
)


@given(st.lists(_ACTS, max_size=12), st.booleans(), st.booleans(), st.lists(st.integers(1, 8), max_size=1))
def test_whatever_a_store_does_the_session_knows_all(
    acts: list[Any], is_slow: bool, shows_early: bool, fails_at: list[int]
) -> None:
    async def play() -> None:
        store = TwinStore(is_slow=is_slow, fails_at=fails_at, shows_early=shows_early)
        journal = ContextJournal(_MARSHALLER, store)
        expected: list[int] = []
        seen = [[]]  # what the conversation was, after each change
        for act in acts:
            if act == "finish":
                if store.is_working:
                    store.finish()
                    await asyncio.sleep(0)
            elif act == "turn":
                await asyncio.sleep(0)
            else:
                _note(journal, act)
                expected = [*expected, act] if isinstance(act, int) else list(act or ())
                seen.append(expected)
            assert journal.messages() == [_message(number) for number in expected]
            assert _kept(store) in [[_message(number) for number in one] for one in seen]
        await _finish(store)
        assert journal.messages() == [_message(number) for number in expected]
        if journal.failure is None:
            assert _kept(store) == journal.messages()

    asyncio.run(play())
