"""What it costs to see a session: a turn with a trace, and the report of a session of many calls."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from bench.chat import PADDOCK
from bench.contract import plan_of
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.stage import turns_of
from bench.yardstick import pass_block
from paddock import Session
from paddock.rpc.trace import Trace
from paddock.session.journals.journal_file import JournalFile, Kind
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.kept_session import Call, Result, encoded

_ROUNDS: Final = 25
_TURNS: Final = 8
_CALLS: Final = 1000  # of the session that is reported
_REPORTS: Final = 5
_SECONDS: Final = 60  # for a command; hit only by a hang


async def measure_seen(effort: Effort) -> list[Row]:
    """Measure a turn with a trace beside one without, and the report of a long session beside a bare interpreter."""
    turns = await _turns(effort.of(_ROUNDS))
    reports = await _reports(effort.of(_REPORTS))
    return [
        Row.compared(
            "a turn with a trace, to the same without",
            "A turn of one tool call in a session whose calls are traced, beside the same in one whose are not.",
            "us",
            turns,
            ("trace", "none"),
            Target(1.1),
        ),
        Row.compared(
            f"`paddock report` of {_CALLS} calls, to `python -c pass`",
            "The whole command, which reads the session's record, its journal and the audit log, and writes the page.",
            "ms",
            reports,
            ("report", "pass"),
            Target(60.0),
        ),
    ]


async def _turns(rounds: int) -> Samples:
    async with AsyncExitStack() as stack:

        async def case(trace: Trace | None) -> Callable[[], Awaitable[list[float]]]:
            return turns_of(
                await stack.enter_async_context(Session(plan_of("loop-basic"), trust_plan=True, trace=trace)), _TURNS
            )

        return await interleave({"trace": await case(Trace()), "none": await case(None)}, rounds)


async def _reports(rounds: int) -> Samples:
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "XDG_STATE_HOME": folder}
        journals = Journals(environ=environ)
        async with Session(plan_of("loop-basic"), trust_plan=True, environ=environ, journal=journals) as session:
            await session.execute("hello")
        file, *_ = JournalFile.open(journals.path_of(session.session_id))
        for number in range(1000, 1000 + _CALLS):
            file.append(Kind.CALL, encoded(Call(call=number, module="tool-echo", tool="echo"), b"\x90"))
            file.append(Kind.RESULT, encoded(Result(call=number), b"\xc0"))
        file.close()
        page = Path(folder) / "report.html"

        def report() -> float:
            before = time.perf_counter()
            command = [*PADDOCK, "report", session.session_id, "-o", str(page)]
            subprocess.run(command, env=environ, check=True, timeout=_SECONDS, capture_output=True)
            page.unlink()
            return (time.perf_counter() - before) * 1000

        async def reported() -> list[float]:
            return [await asyncio.to_thread(report)]

        return await interleave({"report": reported, "pass": pass_block}, rounds)
