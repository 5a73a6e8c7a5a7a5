"""What the contract costs across processes: an event beside the published package's, a turn beside a plain process.

The published package is fetched from the package index into a folder of its own, once; without it there is nothing to
compare with, which is an error of the measurement and no missed target.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from bench.hooks import EVENT_DATA
from bench.row import Row, Target
from bench.sampling import interleave
from bench.stage import MODULES, Stage
from paddock import Session
from paddock_sdk.in_process.session import AmplifierSession

_PUBLISHED: Final = "amplifier-core==2.0.2"
_PUBLISHED_FOLDER: Final = Path(__file__).resolve().parent.parent.parent.parent / ".bench" / "published" / _PUBLISHED
_BUILTIN: Final = Path(__file__).resolve().parent.parent.parent.parent / "modules"
_ROUNDS: Final = 25
_EVENTS: Final = 20
_TURNS: Final = 8
_ANSWER_SECONDS: Final = 30  # for one block of events, which takes milliseconds; hit only by a hang
_HEARD_ELSEWHERE: Final = "bench:elsewhere"


async def measure_contract(stage: Stage) -> list[Row]:
    """Measure an event, a turn, reads and the import."""
    return [*await _measure_emit(stage), *await _measure_turn(), *await _measure_reads()]


async def _measure_emit(stage: Stage) -> list[Row]:
    await stage.start("hook", "hooks-nod", {"event": _HEARD_ELSEWHERE, "handlers": 1})
    hooks = stage.coordinator.hooks
    async with _published() as child:

        async def ours() -> list[float]:
            return [await _timed(lambda: hooks.emit(_HEARD_ELSEWHERE, EVENT_DATA)) for _ in range(_EVENTS)]

        async def theirs() -> list[float]:
            taken: list[float] = json.loads(await _asked(child, str(_EVENTS)))
            return taken

        samples = await interleave({"ours": ours, "published": theirs}, _ROUNDS)
    return [
        Row(
            "an event heard in another process, to amplifier-core in process",
            "us",
            samples.p50("ours"),
            samples.p50("published"),
            samples.ratio("ours", "published"),
            Target(0.5),
        )
    ]


@asynccontextmanager
async def _published() -> AsyncIterator[Process]:
    """Run a process that has the published package, fetched if it was not yet."""
    if not _PUBLISHED_FOLDER.exists():
        _fetch_published()
    command = [sys.executable, "-S", str(Path(__file__).with_name("published_child.py")), json.dumps(EVENT_DATA)]
    environ = {"PYTHONPATH": str(_PUBLISHED_FOLDER)}
    child = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environ)
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def _fetch_published() -> None:
    """Install the published package beside its folder and rename it there, so that what is there is whole."""
    _PUBLISHED_FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_PUBLISHED_FOLDER.parent) as beside:
        site = Path(beside, "site")
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(site), _PUBLISHED]
        subprocess.run(install, check=True)
        site.rename(_PUBLISHED_FOLDER)


async def _asked(child: Process, line: str) -> bytes:
    assert child.stdin is not None and child.stdout is not None
    async with asyncio.timeout(_ANSWER_SECONDS):
        child.stdin.write(f"{line}\n".encode())
        await child.stdin.drain()
        return await child.stdout.readline()


async def _measure_turn() -> list[Row]:
    plan = _plan("loop-basic")
    async with Session(plan, trust_plan=True) as session, _in_process(plan) as plain:
        turns: dict[str, Callable[[str], Awaitable[Any]]] = {"workers": session.execute, "plain": plain.execute}
        context = {"workers": session.coordinator.get("context"), "plain": plain.coordinator.get("context")}

        async def run(where: str) -> list[float]:
            await context[where].clear()  # else each turn carries those before it
            return [await _timed(lambda: turns[where]("hello")) / 1000 for _ in range(_TURNS)]

        samples = await interleave({where: (lambda where=where: run(where)) for where in turns}, _ROUNDS)
    ours, plain_ms = samples.p50("workers"), samples.p50("plain")
    return [
        Row("a turn with one tool call, five kinds of modules", "ms", ours, plain_ms, None),
        Row("  of it Paddock's: what a plain process does without", "ms", ours - plain_ms, None, None, Target(3.0)),
    ]


async def _measure_reads() -> list[Row]:
    taken: list[dict[str, float]] = []
    for _ in range(5):
        async with Session(_plan("loop-reading"), trust_plan=True) as session:
            taken.append(json.loads(await session.execute("")))
    best = {name: sorted(one[name] for one in taken)[len(taken) // 2] for name in taken[0]}
    imported = best.pop("import") / 1e6
    slowest = max(best, key=lambda name: best[name])
    return [
        Row(f"a read of mirrored state, the slowest: {slowest}", "us", best[slowest] / 1000, None, None, Target(2.0)),
        Row("importing the contracts in a forked worker", "ms", imported, None, None, Target(2.0)),
    ]


def _plan(loop: str) -> dict[str, Any]:
    def entry(module: str, config: dict[str, Any] | None = None) -> dict[str, Any]:
        own = MODULES / module
        return {"module": module, "source": str(own) if own.exists() else f"builtin:{module}", "config": config or {}}

    return {
        "session": {"orchestrator": entry(loop), "context": entry("context-simple")},
        "providers": [entry("provider-turns")],
        "tools": [entry("tool-trivial", {"name": "trivial"})],
        "hooks": [entry("hooks-nod", {"event": "tool:post", "handlers": 1})],
    }


class _Folders:
    """The contract's resolver for modules in these two folders."""

    def resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> _Folder:
        own = MODULES / module_id
        return _Folder(own if own.exists() else _BUILTIN / module_id)


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def resolve(self) -> Path:
        return self._path


@asynccontextmanager
async def _in_process(plan: dict[str, Any]) -> AsyncIterator[AmplifierSession]:
    """Yield a session of the same modules in this process, on the same implementation of the contract."""
    session = AmplifierSession(plan)
    session.coordinator.mount_points["module-source-resolver"] = _Folders()
    async with session:
        yield session


async def _timed(act: Callable[[], Awaitable[Any]]) -> float:
    before = time.perf_counter_ns()
    await act()
    return (time.perf_counter_ns() - before) / 1000
