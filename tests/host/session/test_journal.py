"""The context's journal: what a fresh context is told, by what it already holds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from paddock.rpc.peer import Encoded
from paddock.session.journals import context_journal as conversation
from paddock.session.journals.context_journal import ContextJournal
from paddock.session.journals.journal_store import JournalStore
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol.methods import HostMethod
from support.scripted_end import ASYNC

from ..rpc.scripted_worker import ScriptedWorker
from .conftest import Hosted, Mount

_MEMBERS = dict.fromkeys(
    ("add_message", "get_messages_for_request", "get_messages", "set_messages", "clear", "set_system_prompt_factory"),
    ASYNC,
)


def _message(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"message {number}"}


_TOLD = [_message(1), _message(2), _message(3)]


def context(worker_messages: list[dict[str, Any]]) -> Mount:
    """Return a `mount` that mounts a context."""

    async def mount(worker: ScriptedWorker) -> None:
        await worker.ask(0, HostMethod.MOUNT, ["context", None, worker.own(5, _MEMBERS)])

    return mount


async def _serve(worker: ScriptedWorker, messages: list[dict[str, Any]], calls: list[tuple[str, Any]]) -> None:
    """Be a context that holds `messages`, and note what it is told."""
    names = list(_MEMBERS)
    while True:
        request = await worker.request_from_host()
        args, kwargs = worker.value(request)
        name = names[request.method]
        given = args[0] if args else next(iter(kwargs.values()), None)
        answer = None
        if name == "get_messages":
            answer = list(messages)
        elif name == "set_messages":
            messages[:] = given
        elif name == "add_message":
            messages.append(given)
        elif name == "clear":
            messages.clear()
        if name != "get_messages":
            calls.append((name, given))
        worker.respond(request.id, answer)


async def _restored(
    hosted: Hosted, journal: ContextJournal, present: list[dict[str, Any]], *, notes_more: bool = False
) -> list[tuple[str, Any]]:
    """Return what a fresh context that holds `present` is told."""
    module, worker = await hosted.start("context", "context-x", context([]))
    handle = module.handle_at("context")
    assert handle is not None
    calls: list[tuple[str, Any]] = []
    serving = asyncio.ensure_future(_serve(worker, list(present), calls))
    await journal.restore(handle, module.ask_mounted, notes_more=notes_more)
    serving.cancel()
    return calls


def _journal(hosted: Hosted, *noted: tuple[str, Any]) -> ContextJournal:
    journal = ContextJournal(hosted.marshaller, JournalStore())
    for method, given in noted:
        journal.note(method, hosted.marshaller.encode([[given] if given is not None else [], {}]), 0)
    return journal


_ADDED = tuple(("add_message", message) for message in _TOLD)


@pytest.mark.parametrize(
    ("noted", "present", "taken"),
    [
        (_TOLD[:2], _TOLD, _TOLD[2:]),
        (_TOLD[:1], _TOLD, _TOLD[1:]),  # as after a full disk
        ([], _TOLD[:1], _TOLD[:1]),
        (_TOLD[1:2], _TOLD, _TOLD[2:]),  # behind messages of earlier sessions
        (_TOLD, _TOLD, []),
        (_TOLD[1:], _TOLD, []),
        ([], _TOLD, []),
        ([_message(9)], _TOLD, []),
    ],
)
async def test_what_a_context_kept_and_its_host_did_not_note_is_noted(
    noted: list[dict[str, Any]], present: list[dict[str, Any]], taken: list[dict[str, Any]], hosted: Hosted
) -> None:
    journal = _journal(hosted, *(("add_message", message) for message in noted))
    assert await _restored(hosted, journal, present, notes_more=True) == []
    assert journal.messages() == [*noted, *taken]


@pytest.mark.parametrize(
    ("noted", "present", "told"),
    [
        pytest.param((), [], [], id="nothing to tell"),
        pytest.param(_ADDED, [], [("set_messages", _TOLD)], id="an empty context is told everything at once"),
        pytest.param(
            _ADDED,
            _TOLD[:1],
            [("add_message", _TOLD[1]), ("add_message", _TOLD[2])],
            id="one that kept a beginning is told the rest",
        ),
        pytest.param(_ADDED, _TOLD, [], id="one that kept everything is told nothing"),
        pytest.param(_ADDED, [_message(9)], [], id="one with messages of its own is left as it is"),
        pytest.param(_ADDED, [*_TOLD[:2], _message(9)], [], id="also when they begin alike"),
        pytest.param(_ADDED, [*_TOLD, _message(4)], [], id="also when it holds more"),
        pytest.param((), [_message(9)], [], id="also when nothing was ever told"),
        pytest.param(
            (*_ADDED, ("set_messages", [_message(7)]), ("add_message", _message(8))),
            [],
            [("set_messages", [_message(7), _message(8)])],
            id="what was set replaces what was added before",
        ),
        pytest.param(
            (*_ADDED, ("clear", None), ("add_message", _message(8))),
            [],
            [("set_messages", [_message(8)])],
            id="what was cleared is not told again",
        ),
        pytest.param((*_ADDED, ("clear", None)), [], [], id="a cleared context stays empty"),
        pytest.param((*_ADDED, ("clear", None)), _TOLD[:1], [], id="and one that comes back with old messages is left"),
        pytest.param((*_ADDED, ("set_messages", [])), [], [], id="setting nothing is clearing"),
        pytest.param(
            (*_ADDED, ("get_messages", None), ("get_messages_for_request", None)),
            [],
            [("set_messages", _TOLD)],
            id="reading changes nothing",
        ),
    ],
)
async def test_a_fresh_context_is_told_what_it_lacks(
    noted: tuple[tuple[str, Any], ...], present: list[dict[str, Any]], told: list[tuple[str, Any]], hosted: Hosted
) -> None:
    assert await _restored(hosted, _journal(hosted, *noted), present) == told


async def test_the_prompts_factory_is_handed_over_again_and_first(hosted: Hosted) -> None:
    _, loop = await hosted.start("orchestrator", "loop-x")
    journal = _journal(hosted, *_ADDED)
    message = Encoded(hosted.marshaller.encode([["factory"], {}]).body)
    journal.note("set_system_prompt_factory", message, 0)
    journal.note("clear", hosted.marshaller.encode([[], {}]), 0)
    calls = await _restored(hosted, journal, [])
    assert calls == [("set_system_prompt_factory", "factory")]
    await loop.round_trip()


_UNREADABLE = [b"\xc1", b"\xc0", b"\x92\x90\x90", b"\x93\x90\x80\x80", b"\x92\xc0\xc0"]
# Around these lies what is around a message, and they are none: nothing, two values, half a table, a text.
_UNREADABLE += [b"\x92\x91" + one + b"\x80" for one in (b"", b"\x80\x80", b"\x81\xa1a", b"\xa1a")]


@pytest.mark.parametrize("body", _UNREADABLE)
async def test_a_call_that_cannot_be_read_is_left_out(body: bytes, hosted: Hosted) -> None:
    journal = _journal(hosted, ("add_message", _message(1)))
    journal.note("add_message", Encoded(body), 0)
    assert journal.messages() == [_message(1)]
    assert await _restored(hosted, journal, []) == [("set_messages", [_message(1)])]


async def test_messages_in_any_form_are_told_again_as_they_were_said(hosted: Hosted) -> None:
    said = [{"role": "tool", "content": [{"at": datetime(2026, 1, 2, tzinfo=UTC), "of": {"a", "b"}}]}, *_TOLD]
    journal = _journal(hosted, ("set_messages", said[:2]), ("add_message", said[2]))
    journal.note("add_message", hosted.marshaller.encode([[], {"message": said[3]}]), 0)
    assert await _restored(hosted, journal, []) == [("set_messages", said)]


async def test_a_context_is_filled_without_a_message_being_decoded(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = _journal(hosted, ("set_messages", _TOLD[:1]), *_ADDED[1:])
    decoded: list[Encoded] = []
    decode = hosted.marshaller.decode
    monkeypatch.setattr(hosted.marshaller, "decode", lambda message: decoded.append(message) or decode(message))
    assert await _restored(hosted, journal, []) == [("set_messages", _TOLD)]
    assert not any(b"message" in bytes(one.body) for one in decoded)


async def test_a_conversation_of_more_than_a_frame_is_told_in_parts(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_TOGETHER", 50)
    monkeypatch.setattr(conversation, "_OPENING", 800)
    told = [("set_messages", _TOLD[:2]), ("add_message", _TOLD[2])]
    assert await _restored(hosted, _journal(hosted, *_ADDED), []) == told


_EARLIER = [_message(8), _message(9)]


@pytest.mark.parametrize(
    ("noted", "present", "added", "is_there"),
    [
        pytest.param(_ADDED, [*_EARLIER, *_TOLD, _message(4)], 4, True, id="it is there"),
        pytest.param(_ADDED, [*_EARLIER, *_TOLD], 4, False, id="it is not"),
        pytest.param(_ADDED, [*_EARLIER, *_TOLD], 3, False, id="the same was said just before"),
        pytest.param(_ADDED, [*_EARLIER, *_TOLD, _message(3)], 3, True, id="and was said again"),
        pytest.param(_ADDED, _TOLD, 3, False, id="the same without earlier ones"),
        pytest.param(_ADDED, [*_TOLD, _message(4)], 4, True, id="it is there without earlier ones"),
        pytest.param(_ADDED, [*_TOLD[:2], _message(4)], 4, False, id="behind less than was noted"),
        pytest.param(_ADDED, [], 4, False, id="nothing is there"),
        pytest.param((), [*_EARLIER, _message(4)], 4, True, id="the first of the session"),
        pytest.param((), _EARLIER, 4, False, id="not the first of the session"),
        pytest.param(
            (("set_messages", [_message(9)]), ("add_message", _message(1))),
            [*_EARLIER, _message(1), _message(4)],
            4,
            True,
            id="what was set was ignored",
        ),
    ],
)
async def test_a_message_is_found_behind_a_conversation_of_earlier_sessions(
    noted: tuple[tuple[str, Any], ...], present: list[dict[str, Any]], added: int, is_there: bool, hosted: Hosted
) -> None:
    module, worker = await hosted.start("context", "context-x", context([]))
    handle = module.handle_at("context")
    assert handle is not None
    serving = asyncio.ensure_future(_serve(worker, present, []))
    journal = _journal(hosted, *noted)
    assert (
        await journal.ends_with(handle, hosted.marshaller.encode([[_message(added)], {}]), module.ask_mounted)
        is is_there
    )
    serving.cancel()


@pytest.mark.parametrize(
    ("present", "warns"),
    [
        ([*_EARLIER, *_TOLD], False),
        ([*_EARLIER, *_TOLD, _message(9)], False),
        ([*_TOLD[:2], _message(9)], True),
        ([*_EARLIER, *_TOLD[:2]], True),
    ],
)
async def test_a_warning_says_that_a_context_lacks_what_it_was_told(
    present: list[dict[str, Any]], warns: bool, hosted: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    assert await _restored(hosted, _journal(hosted, *_ADDED), present) == []
    assert ("came back with messages of its own" in caplog.text) is warns


# --- what is kept for the session

_MOST = 64 * 1024  # of a small conversation; three quarters of it are open to all


def _say(hosted: Hosted, size: int, role: str = "tool", **further: Any) -> Encoded:
    return hosted.marshaller.encode([[{"role": role, "content": "x" * size, **further}], {}])


def _small(hosted: Hosted) -> ContextJournal:
    journal = ContextJournal(hosted.marshaller, JournalStore())
    journal.max_weight = _MOST
    return journal


async def test_what_is_being_told_counts_until_it_is_over(hosted: Hosted) -> None:
    journal = _small(hosted)
    first, second, third = (_say(hosted, 20_000) for _ in range(3))
    one = journal.admit("add_message", first)
    two = journal.admit("add_message", second)
    with pytest.raises(OverLimitError):
        journal.admit("add_message", third)
    room = journal.room
    journal.note("add_message", first, one)
    assert journal.room == room
    journal.release(one)
    assert journal.room == room
    journal.release(two)
    three = journal.admit("add_message", third)
    assert journal.room == room
    journal.note("add_message", third, three)
    journal.note("clear", _say(hosted, 0), 0)
    assert (journal.weight, journal.room) == (0, _MOST * 3 // 4)


@pytest.mark.parametrize(
    ("role", "size", "further", "is_the_sessions", "is_taken"),
    [
        pytest.param("user", 8_000, {}, True, True, id="a prompt"),
        pytest.param("assistant", 8_000, {}, True, True, id="a reply"),
        pytest.param("system", 8_000, {}, True, True, id="a system message"),
        pytest.param("tool", 1_000, {}, True, True, id="a short answer to a tool call"),
        pytest.param("tool", 8_000, {}, True, False, id="a long one"),
        pytest.param("user", 8_000, {"metadata": {"source": "hook"}}, True, False, id="an injection"),
        pytest.param("tool", 8_000, {"metadata": {"source": "hook"}}, True, False, id="an injected result"),
        pytest.param("user", 8_000, {}, False, False, id="a module's that is not the orchestrator"),
        pytest.param("user", 20_000, {}, True, False, id="a prompt of more than there is"),
        pytest.param(["user"], 100, {}, True, False, id="a role that is none"),
    ],
)
async def test_the_last_quarter_is_for_what_the_session_needs_to_go_on(
    role: Any, size: int, further: dict[str, Any], is_the_sessions: bool, is_taken: bool, hosted: Hosted
) -> None:
    journal = _small(hosted)
    for _ in range(3):
        full = _say(hosted, 15_000)
        journal.note("add_message", full, journal.admit("add_message", full, is_the_sessions=False))
    message, room = _say(hosted, size, role, **further), journal.room
    if is_taken:
        journal.note("add_message", message, journal.admit("add_message", message, is_the_sessions))
        assert len(journal.messages()) == 4
    else:
        with pytest.raises(OverLimitError, match="the conversation takes"):
            journal.admit("add_message", message, is_the_sessions)
        assert journal.room == room


async def test_a_shorter_conversation_can_always_be_set(hosted: Hosted) -> None:
    journal = _small(hosted)
    for size, is_the_sessions in ((60_000, True), (55_000, False), (40_000, False)):
        message = hosted.marshaller.encode([[[{"role": "user", "content": "x" * size}]], {}])
        journal.note("set_messages", message, journal.admit("set_messages", message, is_the_sessions))
    for size, is_the_sessions in ((50_000, False), (70_000, True)):
        message = hosted.marshaller.encode([[[{"role": "user", "content": "x" * size}]], {}])
        with pytest.raises(OverLimitError):
            journal.admit("set_messages", message, is_the_sessions)
    assert 40_000 < journal.weight < 50_000
