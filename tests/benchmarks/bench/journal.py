"""What keeping a session costs: time of turns and messages, bytes, and what a resume or a restart takes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from bench.contract import plan_of
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.stage import turns_of
from bench.timing import called, timed
from paddock import Session
from paddock.rpc.marshal import Marshaller
from paddock.session.journals.context_journal import ContextJournal
from paddock.session.journals.journal_file import JournalFile, Kind
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.session_journal import SessionJournal

_ROUNDS: Final = 25
_TURNS: Final = 8
_NOTES: Final = 200
_MESSAGES: Final = 10_000  # of the conversation that is resumed
_STARTS: Final = 5
_KILLS: Final = 8
_LONG: Final = {"role": "tool", "tool_call_id": "c1", "content": "a line of a long file\n" * 2_400}  # 50 KB
_LONG_PER_SECOND: Final = 200
_WRITTEN: Final = 600  # long messages, which take three seconds
_MESSAGE: Final = {"role": "user", "content": "What is in this folder, and what of it is new? " * 4}


async def measure_journal(effort: Effort) -> list[Row]:
    """Measure turns, messages, resumes and restarts, each beside the same without a journal or undisturbed."""
    with tempfile.TemporaryDirectory() as folder:
        turns = await _turns(Path(folder), effort.of(_ROUNDS))
        noted = await _notes(Path(folder), effort.of(_ROUNDS))
        stops = {case: await _longest_stop(Path(folder), case, effort.of(_WRITTEN, 20)) for case in ("journal", "none")}
        kept, said = await _bytes(Path(folder), effort.of(_TURNS * 5))
        starts = await _starts(Path(folder), effort.of(_STARTS), effort.of(_MESSAGES, 100))
        context, tool = await _restarts(effort.of(_KILLS), effort.of(_MESSAGES, 100))
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
        Row(
            "longest stop of the loop while long messages are noted",
            f"The longest time without a turn of the loop, with {_LONG_PER_SECOND} messages of 50 KB noted a second; "
            "the reference notes none of them.",
            "ms",
            stops["journal"],
            stops["none"],
            target=Target(50.0),
        ),
        Row(
            "bytes of a turn in the journal, to its conversation as JSON",
            "How much a turn of one tool call adds to the file, beside its messages as JSON.",
            "B",
            kept,
            said,
            kept / said,
            Target(3.0),
        ),
        Row.compared(
            f"context killed at {_MESSAGES} messages, to a plain get_messages",
            "From a call of a context that was just killed to its answer, beside the same call undisturbed.",
            "ms",
            context,
            ("killed", "plain"),
            Target(3.0),
        ),
        Row.compared(
            "tool killed to its next answer, to the start of a session",
            "From a call of a tool that was just killed to its answer, beside the start of a session of five modules.",
            "ms",
            tool,
            ("killed", "start"),
            Target(0.1),
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
            return turns_of(await stack.enter_async_context(_session(journal=journal)), _TURNS)

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
        return await called(lambda: journal.note("add_message", message, 0), _NOTES)()

    try:
        return await interleave({"journal": noted, "write": called(lambda: os.write(bare, body), _NOTES)}, rounds)
    finally:
        os.close(bare)
        store.close()


async def _longest_stop(folder: Path, case: str, messages: int) -> float:
    """Return, in ms, the longest time in which the loop did nothing else while messages came at a steady rate."""
    marshaller = Marshaller()
    store = SessionJournal(JournalFile.create(folder / f"{case}-stops.journal"))
    journal = ContextJournal(marshaller, store)
    longest = 0.0
    is_over = False

    async def watch() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not is_over:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    watching = asyncio.create_task(watch())
    for _ in range(messages):
        message = marshaller.encode([[_LONG], {}])
        if case == "journal":
            journal.note("add_message", message, 0)
        await asyncio.sleep(1 / _LONG_PER_SECOND)
    is_over = True
    await watching
    store.close()
    return longest * 1000


async def _bytes(folder: Path, turns: int) -> tuple[float, float]:
    """Return how many bytes a turn takes in a journal, and how many its messages take as JSON."""
    async with _session(journal=Journals(folder)) as session:
        assert session.journal is not None
        before = session.journal.stat().st_size
        for _ in range(turns):
            await session.execute("What is in this folder, and what of it is new?")
        said = await session.coordinator.get("context").get_messages()
        return (session.journal.stat().st_size - before) / turns, len(json.dumps(said, default=str)) / turns


async def _restarts(rounds: int, messages: int) -> tuple[Samples, Samples]:
    """Return what a call takes of a context and of a tool that were just killed, beside the undisturbed."""
    async with _session() as session:
        context, tool = session.coordinator.get("context"), session.coordinator.get("tools")["trivial"]
        for _ in range(messages):
            await context.add_message(_MESSAGE)

        async def killed(kind: str, act: Callable[[], Awaitable[Any]]) -> list[float]:
            module = next(one for one in session._kernel.runtime.modules.all if one.kind == kind)
            session.lift_quarantine(module.name)  # so that no earlier death is waited for
            process = module.supervisor.process
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
            while module.is_running:
                await asyncio.sleep(0.001)
            return [await timed(act) / 1000]

        async def plain() -> list[float]:
            return [await timed(context.get_messages) / 1000 for _ in range(3)]

        contexts = {"killed": lambda: killed("context", context.get_messages), "plain": plain}
        tools = {"killed": lambda: killed("tool", lambda: tool.execute({})), "start": _started}
        return await interleave(contexts, rounds), await interleave(tools, rounds)


async def _started(**options: Any) -> list[float]:
    """Return how long the start of a session takes, in ms."""
    session = _session(**options)
    lasted = await timed(session.initialize)
    await session.cleanup()
    return [lasted / 1000]


async def _starts(folder: Path, rounds: int, messages: int) -> Samples:
    journals = Journals(folder)
    async with _session(journal=journals) as session:
        pass
    file, *_ = JournalFile.open(journals.path_of(session.session_id))
    body = bytes(Marshaller().encode([[_MESSAGE], {}]).body)
    for _ in range(messages):
        file.append(Kind.ADD, body)
    file.close()

    return await interleave(
        {
            "resume": lambda: _started(journal=journals, resume=session.session_id),
            "start": _started,
        },
        rounds,
    )


def _session(**options: Any) -> Session:
    return Session(plan_of("loop-basic"), trust_plan=True, **options)
