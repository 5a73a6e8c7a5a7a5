"""What keeping a session costs: a turn and a message with a journal, and the resume of a long conversation."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from bench.contract import plan_of
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from paddock import Session
from paddock.rpc.marshal import Marshaller
from paddock.session.journal import ContextJournal
from paddock.session.journals.journal_file import JournalFile, Kind
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.session_journal import SessionJournal

_ROUNDS: Final = 25
_TURNS: Final = 8
_NOTES: Final = 200
_MESSAGES: Final = 10_000  # of the conversation that is resumed
_STARTS: Final = 5
_MESSAGE: Final = {"role": "user", "content": "What is in this folder, and what of it is new? " * 4}


async def measure_journal(effort: Effort) -> list[Row]:
    """Measure the turn, the message and the resume, each beside the same without a journal."""
    with tempfile.TemporaryDirectory() as folder:
        turns = await _turns(Path(folder), effort.of(_ROUNDS))
        noted = await _notes(Path(folder), effort.of(_ROUNDS))
        starts = await _starts(Path(folder), effort.of(_STARTS), effort.of(_MESSAGES, 100))
    ours, bare = noted.p50("journal"), noted.p50("write")
    return [
        Row.compared(
            "a turn with a journal, to the same without",
            "A turn of one tool call in a session that is kept, beside the same in one that is not.",
            "us",
            turns,
            ("journal", "none"),
            Target(1.04),
        ),
        Row(
            "a message noted, beyond 1.5 bare writes",
            "How much longer it takes to note a message in a journal than one and a half bare writes of its bytes.",
            "us",
            ours - 1.5 * bare,
            bare,
            target=Target(30.0),
        ),
        Row.compared(
            f"resume of {_MESSAGES} messages, to a start with none",
            "From nothing to a session that is open, with a conversation of so many messages, beside a new one.",
            "ms",
            starts,
            ("resume", "start"),
            Target(2.0),
        ),
    ]


async def _turns(folder: Path, rounds: int) -> Samples:
    async with AsyncExitStack() as stack:

        async def case(journal: Journals | None) -> Callable[[], Awaitable[list[float]]]:
            session = await stack.enter_async_context(_session(journal=journal))
            context = session.coordinator.get("context")

            async def block() -> list[float]:
                await context.clear()  # else each turn carries those before it
                return [await _timed(lambda: session.execute("hello")) for _ in range(_TURNS)]

            return block

        return await interleave({"journal": await case(Journals(folder)), "none": await case(None)}, rounds)


async def _notes(folder: Path, rounds: int) -> Samples:
    marshaller = Marshaller()
    store = SessionJournal(JournalFile.create(folder / "notes.journal"))
    message = marshaller.encode([[_MESSAGE], {}])
    body = bytes(message.body)
    bare = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def noted() -> list[float]:
        journal = ContextJournal(marshaller, store)
        journal.note("clear", message, 0)
        return [_taken(lambda: journal.note("add_message", message, 0)) for _ in range(_NOTES)]

    async def written() -> list[float]:
        return [_taken(lambda: os.write(bare, body)) for _ in range(_NOTES)]

    try:
        return await interleave({"journal": noted, "write": written}, rounds)
    finally:
        os.close(bare)
        store.close()


async def _starts(folder: Path, rounds: int, messages: int) -> Samples:
    journals = Journals(folder)
    async with _session(journal=journals) as session:
        pass
    file, *_ = JournalFile.open(journals.path_of(session.session_id))
    body = bytes(Marshaller().encode([[_MESSAGE], {}]).body)
    for _ in range(messages):
        file.append(Kind.ADD, body)
    file.close()

    async def opened(**options: Any) -> list[float]:
        async def once() -> None:
            opening = _session(**options)
            await opening.initialize()
            ended.append(opening)

        ended: list[Session] = []
        taken = await _timed(once)
        for one in ended:
            await one.cleanup()
        return [taken / 1000]

    return await interleave(
        {
            "resume": lambda: opened(journal=journals, resume=session.session_id),
            "start": opened,
        },
        rounds,
    )


def _session(**options: Any) -> Session:
    return Session(plan_of("loop-basic"), trust_plan=True, **options)


async def _timed(act: Callable[[], Awaitable[Any]]) -> float:
    before = time.perf_counter_ns()
    await act()
    return (time.perf_counter_ns() - before) / 1000


def _taken(act: Callable[[], Any]) -> float:
    before = time.perf_counter_ns()
    act()
    return (time.perf_counter_ns() - before) / 1000
