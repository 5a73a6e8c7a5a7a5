"""A process on the other side of a comparison: it reads a line of JSON for each order and answers with one."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

_ANSWER_SECONDS: Final = 60  # for one block, which takes a second at most; hit only by a hang
_ANSWER_BYTES: Final = 1 << 20


class Child:
    """One process at work; one order at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def running(
        cls, command: Sequence[str | Path], environ: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> AsyncIterator[Child]:
        """Have the command run; it is killed at the end."""
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=environ, cwd=cwd, limit=_ANSWER_BYTES
        )
        try:
            yield cls(process)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def tell(self, **order: object) -> Any:
        """Return the answer to an order; without an order, the next answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        async with asyncio.timeout(_ANSWER_SECONDS):
            if order:
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
                await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"the process ended with {await self._process.wait()} instead of an answer")
        return json.loads(line)
