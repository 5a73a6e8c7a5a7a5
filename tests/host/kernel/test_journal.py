"""The context's journal: what a fresh context is told, by what it already holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.kernel.journal import ContextJournal
from paddock.rpc.handle import Encoded
from paddock_sdk.protocol.methods import HostMethod

from ..rpc.scripted_worker import ASYNC, ScriptedWorker
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


async def _restored(hosted: Hosted, journal: ContextJournal, present: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return what a fresh context that holds `present` is told."""
    module, worker = await hosted.start("context", "context-x", context([]))
    handle = module.handle_at("context")
    assert handle is not None
    calls: list[tuple[str, Any]] = []
    serving = asyncio.ensure_future(_serve(worker, list(present), calls))
    await journal.restore(handle)
    serving.cancel()
    return calls


def _journal(hosted: Hosted, *noted: tuple[str, Any]) -> ContextJournal:
    journal = ContextJournal(hosted.router)
    for method, given in noted:
        journal.note(method, hosted.values.encode([[given] if given is not None else [], {}]))
    return journal


_ADDED = tuple(("add_message", message) for message in _TOLD)


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
    message = Encoded(hosted.values.encode([["factory"], {}]).body)
    journal.note("set_system_prompt_factory", message)
    journal.note("clear", hosted.values.encode([[], {}]))
    calls = await _restored(hosted, journal, [])
    assert calls == [("set_system_prompt_factory", "factory")]
    await loop.round_trip()


async def test_messages_given_by_name_count_as_well(hosted: Hosted) -> None:
    journal = ContextJournal(hosted.router)
    journal.note("add_message", hosted.values.encode([[], {"message": _message(1)}]))
    journal.note("add_message", hosted.values.encode([[_message(2)], {}]))
    assert journal.messages() == [_message(1), _message(2)]
    journal.note("set_messages", hosted.values.encode([[], {"messages": [_message(3)]}]))
    assert journal.messages() == [_message(3)]


@pytest.mark.parametrize("body", [b"\xc1", b"\xc0", b"\x92\x90\x90", b"\x93\x90\x80\x80", b"\x92\xc0\xc0"])
async def test_a_call_that_cannot_be_read_is_left_out(body: bytes, hosted: Hosted) -> None:
    journal = _journal(hosted, ("add_message", _message(1)))
    journal.note("add_message", Encoded(body))
    assert journal.messages() == [_message(1)]


@pytest.mark.parametrize(
    ("present", "is_there"),
    [
        ([*_TOLD, _message(4)], True),
        (_TOLD, False),
        ([*_TOLD[:2], _message(4)], False),
        ([], False),
    ],
)
async def test_a_message_counts_as_added_only_when_it_is_there_beyond_what_was_noted(
    present: list[dict[str, Any]], is_there: bool, hosted: Hosted
) -> None:
    module, worker = await hosted.start("context", "context-x", context([]))
    handle = module.handle_at("context")
    assert handle is not None
    serving = asyncio.ensure_future(_serve(worker, present, []))
    journal = _journal(hosted, *_ADDED)
    assert await journal.ends_with(handle, hosted.values.encode([[_message(4)], {}])) is is_there
    serving.cancel()
