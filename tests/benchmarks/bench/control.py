"""What it costs that a session can be watched: one look at it, and the wait of a session that nobody looks at."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from bench.contract import plan_of
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.stage import turns_of
from bench.timing import repeated
from paddock import Session
from paddock.session import operated

_ROUNDS: Final = 25
_TURNS: Final = 8
_WAIT_SECONDS: Final = 0.5


async def measure_control(effort: Effort) -> list[Row]:
    """Measure a status through the socket beside a turn, and a session's wait with a socket and without."""
    with tempfile.TemporaryDirectory() as folder:
        with _sockets_in(folder):
            looks = await _looks(Path(folder), effort.of(_ROUNDS))
            waits = await _waits(effort.of(_ROUNDS))
        with _sockets_in(f"{folder}/none"):  # where no socket can be made
            waits_without = await _waits(effort.of(_ROUNDS))
    return [
        Row.compared(
            "a look at a session, to a turn with one tool call",
            "A status asked for and read at the control socket, with the figures of all processes, beside a turn.",
            "us",
            looks,
            ("look", "turn"),
            Target(0.15),
        ),
        Row(
            "a second of a session that nobody looks at",
            "Processor time that the host takes while its session waits, beyond that of one without a control socket.",
            "ms",
            max(0.0, waits - waits_without),
            waits_without,
            target=Target(0.1),
        ),
    ]


@contextmanager
def _sockets_in(folder: str) -> Iterator[None]:
    with patch.object(operated, "control_folder", lambda environ: Path(folder)):
        yield


async def _looks(folder: Path, rounds: int) -> Samples:
    async with Session(plan_of("loop-basic"), trust_plan=True) as session:
        socket = next(folder.glob("*.sock"))  # noqa: ASYNC240
        look = repeated(lambda: _status(socket), _TURNS)
        return await interleave({"look": look, "turn": turns_of(session, _TURNS)}, rounds)


async def _status(socket: Path) -> None:
    reader, writer = await asyncio.open_unix_connection(socket, limit=1 << 23)
    writer.write(b'{"get": "status"}\n')
    assert json.loads(await reader.readline())["modules"]
    writer.close()


async def _waits(rounds: int) -> float:
    """Return the least processor time of this process, in ms, for a second in which its session does nothing."""
    taken = []
    async with Session(plan_of("loop-basic"), trust_plan=True):
        for _ in range(max(2, rounds // 5)):
            before = time.process_time()
            await asyncio.sleep(_WAIT_SECONDS)
            taken.append((time.process_time() - before) / _WAIT_SECONDS * 1000)
    return min(taken)
