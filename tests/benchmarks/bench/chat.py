"""A chat on a terminal: how long it takes until a person can type, and what reaches the terminal of an answer."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.row import Row
from bench.sampling import Effort, interleave
from bench.yardstick import bare_interpreter

_ROUNDS: Final = 10
_READY: Final = b"\x1b[?2004h"  # pastes are told apart from keys: the line takes both from now on
_SENT: Final = rb"\d{10,}"  # nanoseconds of the monotonic clock; no other number of a chat has as many digits
_SECONDS: Final = 60  # for some tenths of a second; hit only by a hang
PADDOCK: Final = [sys.executable, "-c", "from paddock.cli import main; main()"]
_PLAN: Final = """\
session: {orchestrator: loop-streaming, context: context-simple}
providers:
  - module: provider-mock
tools:
  - module: tool-filesystem
    permissions: workspace
"""


async def measure_chat(effort: Effort) -> list[Row]:
    """Measure a chat that is left once its session has started, beside a command that says its version."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.yaml").write_text(_PLAN, encoding="utf-8")

        async def ready() -> list[float]:
            return [await asyncio.to_thread(_until_ready, folder)]

        async def version() -> list[float]:
            return [await asyncio.to_thread(_version, folder)]

        samples = await interleave({"chat": ready, "version": version}, effort.of(_ROUNDS))
        yardstick = await bare_interpreter(effort)
    return [
        yardstick.row(
            "chat ready to type",
            "From the start of `paddock chat` until its session has started and a line can be typed.",
            "ms",
            samples.p50("chat"),
            2000.0,
        ),
        Row(
            "  `paddock --version`, for comparison",
            "A command that starts nothing.",
            "ms",
            samples.p50("version"),
        ),
    ]


class TypedChat:
    """A chat on a terminal, of which a line can be typed; `process` ends with the terminal."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self._process = process

    @classmethod
    @contextmanager
    def started(cls, folder: str, *args: str, environ: Mapping[str, str]) -> Iterator[TypedChat]:
        """Have the command start in `folder`; its processes have ended afterwards."""
        master, slave = pty.openpty()
        try:
            process = subprocess.Popen(
                [*PADDOCK, "chat", *args],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=folder,
                start_new_session=True,
                env={**environ, "TERM": "xterm", "XDG_STATE_HOME": folder},
            )
            try:
                yield cls(master, process)
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait(_SECONDS)
        finally:
            os.close(slave)
            os.close(master)

    def until_ready(self) -> None:
        """Return once a line can be typed."""
        self._until(re.escape(_READY))

    def leave(self) -> None:
        """Leave it, and return once its processes have ended."""
        os.write(self._master, b"\x04")
        while self._process.poll() is None:
            if select.select([self._master], [], [], 0.05)[0]:
                os.read(self._master, 65536)

    def first_pieces(self, turns: int) -> list[float]:
        """Run turns, and return after how many milliseconds pieces are seen whose text is the time they were sent."""
        taken: list[float] = []
        self._type(b"/clear\r")  # else each turn carries those before it
        self.until_ready()
        for _ in range(turns):
            self._type(b"hello\r")
            sent = self._until(_SENT)
            taken.append((time.monotonic_ns() - int(sent)) / 1e6)
            self.until_ready()
        return taken

    def _type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def _until(self, wanted: bytes) -> bytes:
        """Return the first match in what is written from now on."""
        seen = b""
        while (match := re.search(wanted, seen)) is None:
            if not select.select([self._master], [], [], _SECONDS)[0]:
                raise TimeoutError(f"{wanted!r} did not come: {seen!r}")
            seen += os.read(self._master, 65536)
        return match[0]


def _until_ready(folder: str) -> float:
    began = time.perf_counter_ns()
    with TypedChat.started(folder, environ=os.environ) as chat:
        chat.until_ready()
        taken = (time.perf_counter_ns() - began) / 1e6
        chat.leave()
    return taken


def _version(folder: str) -> float:
    began = time.perf_counter_ns()
    subprocess.run([*PADDOCK, "--version"], check=True, cwd=folder, capture_output=True, timeout=_SECONDS)
    return (time.perf_counter_ns() - began) / 1e6
