"""A model's answer: from the server of a vendor to the application, and a whole turn with one tool call.

The server is a process of its own that plays a script; each answer's text is the time at which it was sent. Beside it
runs the same plan in one plain process on the published package, which makes the same requests.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.child import Child
from bench.contract import BUILTIN
from bench.published import published_python
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.stage import MODULES
from paddock import Session

_TESTS: Final = Path(__file__).resolve().parents[2]
_ROUNDS: Final = 12
_TURNS: Final = 5  # in one block
_DELTA: Final = "content_block:delta"
_KEY: Final = "sk-0123456789abcdef0123456789abcdef"
_CALL: Final = {"name": "trivial", "arguments": {}}
_SCRIPT: Final = {"turns": [{"tool_calls": [_CALL]}, {"text": ["{sent_ns}", " done"]}], "repeat": True}


async def measure_model(effort: Effort) -> list[Row]:
    """Measure over http, and over TLS with a key that the host puts in, each beside one plain process."""
    python = published_python("openai>=1.60,<4")
    with tempfile.TemporaryDirectory() as folder:
        provider = _provider_folder(Path(folder))
        rows: list[Row] = []
        for has_key in (False, True):
            how = "over TLS, a key put in" if has_key else "over http"
            async with _server(Path(folder), has_key) as (url, authority):
                turns, firsts = await _answers(python, provider, url, authority, effort.of(_ROUNDS))
            ours, plain = firsts.p50("workers"), firsts.p50("plain")
            rows += [
                Row(f"a model's first piece at the application, {how}", "ms", ours, plain),
                Row("  of it added to amplifier-core in process", "ms", ours - plain, target=Target(3.0)),
                Row(
                    f"a turn with a model and one tool call, {how}, to amplifier-core in process",
                    "ms",
                    turns.p50("workers") / 1000,
                    turns.p50("plain") / 1000,
                    turns.ratio("workers", "plain"),
                    Target(1.4),
                ),
            ]
        return rows


async def _answers(
    python: Path, provider: Path, url: str, authority: str | None, rounds: int
) -> tuple[Samples, Samples]:
    """Return what turns took in microseconds, and after how many milliseconds the first pieces of answers came."""
    folders = _folders(provider)
    environ = {**os.environ, "OPENAI_API_KEY": _KEY}
    program = Path(__file__).with_name("in_process_child.py")
    plain_plan = _plan({}, url, has_key=False)
    arguments = map(json.dumps, (plain_plan, {name: str(path) for name, path in folders.items()}, {}))
    taken: list[float] = []

    async def note(event: str, data: dict[str, Any]) -> None:
        if str(data["delta"]).isdigit():
            taken.append((time.monotonic_ns() - int(data["delta"])) / 1e6)

    async with (
        Child.running([python, program, *arguments], environ) as plain,
        Session(_plan(folders, url, has_key=authority is not None), trust_plan=True, environ=environ) as session,
    ):
        context = session.coordinator.get("context")
        session.coordinator.hooks.register(_DELTA, note, name="the application")

        async def workers() -> list[float]:
            await context.clear()  # else each turn carries those before it
            durations: list[float] = []
            for _ in range(_TURNS):
                before = time.perf_counter_ns()
                await session.execute("hello")
                durations.append((time.perf_counter_ns() - before) / 1000)
            return durations

        async def first_pieces() -> list[float]:
            taken.clear()
            await workers()
            return list(taken)

        turns = await interleave({"workers": workers, "plain": lambda: plain.tell(turns=_TURNS)}, rounds)
        firsts = await interleave({"workers": first_pieces, "plain": lambda: plain.tell(firsts=_TURNS)}, rounds)
    return turns, firsts


@asynccontextmanager
async def _server(folder: Path, has_key: bool) -> AsyncIterator[tuple[str, str | None]]:
    """Have a vendor's server; yield its address, and over TLS the file of the certificate, trusted meanwhile."""
    script = folder / "script.json"
    script.write_text(json.dumps({**_SCRIPT, "key": _KEY}))
    command = [sys.executable, "-m", "vendors.serve", "--script", script, *(["--tls", folder] if has_key else [])]
    async with Child.running(command, {**os.environ, "PYTHONPATH": str(_TESTS)}) as server:
        told = await server.tell()
        if not has_key:
            yield told["url"], None
            return
        before = os.environ.get("SSL_CERT_FILE")
        os.environ["SSL_CERT_FILE"] = told["authority"]  # where the host looks for whom to trust
        try:
            yield told["url"], told["authority"]
        finally:
            del os.environ["SSL_CERT_FILE"]
            if before is not None:
                os.environ["SSL_CERT_FILE"] = before


def _provider_folder(folder: Path) -> Path:
    """Lay out the shipped provider with what it depends on beside it, which saves asking an index for it."""
    sys.path.append(str(_TESTS))
    try:
        from vendored import lay_beside
    finally:
        sys.path.remove(str(_TESTS))
    root = folder / "amplifier-module-provider-openai"
    shutil.copytree(BUILTIN / "provider-openai", root, ignore=shutil.ignore_patterns("tests"))
    project = root / "pyproject.toml"
    lines = project.read_text(encoding="utf-8").splitlines()
    project.write_text("\n".join(line for line in lines if not line.startswith("dependencies")), encoding="utf-8")
    lay_beside(root, "openai")
    return root


def _folders(provider: Path) -> dict[str, Path]:
    return {
        "loop-streaming": BUILTIN / "loop-streaming",
        "context-simple": BUILTIN / "context-simple",
        "provider-openai": provider,
        "tool-trivial": MODULES / "tool-trivial",
        "hooks-nod": MODULES / "hooks-nod",
    }


def _plan(folders: Mapping[str, Path], url: str, *, has_key: bool) -> dict[str, Any]:
    """Return the plan; without folders, as a plain process reads it: with the key, and no permissions."""

    def entry(module: str, config: dict[str, Any], permissions: dict[str, Any] | None = None) -> dict[str, Any]:
        made: dict[str, Any] = {"module": module, "config": config}
        if folders:
            made |= {"source": str(folders[module]), "permissions": permissions or {}}
        return made

    place = url.partition("://")[2].partition("/")[0]
    secret = {"name": "OPENAI_API_KEY", "inject": place} if has_key else "OPENAI_API_KEY"
    granted = {"net": [place], "env": ["OPENAI_API_KEY=${OPENAI_API_KEY}"], "secrets": [secret]}
    return {
        "session": {"orchestrator": entry("loop-streaming", {}), "context": entry("context-simple", {})},
        "providers": [entry("provider-openai", {"base_url": url, "default_model": "small"}, granted)],
        "tools": [entry("tool-trivial", {"name": "trivial"})],
        "hooks": [entry("hooks-nod", {"event": "tool:post", "handlers": 1})],
    }
