"""A model's answer: from a vendor's server to the application and a chat's terminal, and a turn with one tool call.

The server is a process of its own that plays a script; each answer's text is the time at which it was sent. Beside it
runs the plan that `paddock init` writes in one plain process on the published package, which makes the same requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from bench.chat import TypedChat
from bench.child import Child
from bench.contract import BUILTIN
from bench.published import published_python
from bench.row import Row, Target
from bench.sampling import Effort, Samples, interleave
from bench.yardstick import plain_call
from paddock import Session
from paddock_sources.builtin import BuiltinSource

_TESTS: Final = Path(__file__).resolve().parents[2]
_ROUNDS: Final = 12
_TURNS: Final = 5  # in one block
_INIT_SECONDS: Final = 60  # for less than one; hit only by a hang
_DELTA: Final = "llm:stream_block_delta"
_KEY: Final = "sk-0123456789abcdef0123456789abcdef"
_CALL: Final = {"name": "read_file", "arguments": {"file_path": "notes.txt"}}
_SCRIPT: Final = {"turns": [{"tool_calls": [_CALL]}, {"text": ["{sent_ns}", " done"]}], "repeat": True}


async def measure_model(effort: Effort) -> list[Row]:
    """Measure over http, and over TLS with a key that the host puts in, each beside one plain process."""
    python = published_python("openai>=1.60,<4")
    with tempfile.TemporaryDirectory() as folder:
        provider = _provider_folder(Path(folder))
        work = Path(folder) / "work"
        work.mkdir()
        rows: list[Row] = []
        yardstick = await plain_call(effort)
        for has_key in (False, True):
            how = "over TLS, a key put in" if has_key else "over http"
            async with _server(Path(folder), has_key) as url:
                plan = _write_plan(work, provider, url, has_key=has_key)
                turns, firsts = await _answers(python, provider, plan, effort.of(_ROUNDS))
            plain = firsts.p50("plain")
            for case, where in (("workers", "at the application"), ("terminal", "on the terminal of a chat")):
                ours = firsts.p50(case)
                rows += [
                    Row(
                        f"a model's first piece {where}, {how}",
                        "From a server's sending of a word to its arrival, beside the published package in process.",
                        "ms",
                        ours,
                        plain,
                    ),
                    yardstick.row(
                        f"  of it added, {where}, {how}",
                        "How much later the word arrives than in the plain process.",
                        "ms",
                        ours - plain,
                        3.0,
                    ),
                ]
            rows.append(
                Row.compared(
                    f"a turn of the plan that `paddock init` writes, {how}, to amplifier-core in process",
                    "A prompt, one tool call and the answer, with all modules in sandboxes, beside one plain process.",
                    "us",
                    turns,
                    ("workers", "plain"),
                    Target(1.4),
                )
            )
        return rows


async def _answers(python: Path, provider: Path, written: Path, rounds: int) -> tuple[Samples, Samples]:
    """Return what turns took in microseconds, and after how many milliseconds the first pieces of answers came."""
    environ = {**os.environ, "OPENAI_API_KEY": _KEY}
    program = Path(__file__).with_name("in_process_child.py")
    arguments = map(json.dumps, (*_in_process(written, provider), {}))
    taken: list[float] = []

    async def note(event: str, data: dict[str, Any]) -> None:
        if str(data["text"]).isdigit():
            taken.append((time.monotonic_ns() - int(data["text"])) / 1e6)

    with TypedChat.started(str(written.parent), written.name, "--trust-plan", environ=environ) as chat:
        async with (
            Child.running([python, program, *arguments], environ, written.parent) as plain,
            Session(written, working_dir=written.parent, trust_plan=True, environ=environ) as session,
        ):
            context = session.coordinator.get("context")
            session.coordinator.hooks.register(_DELTA, note, name="the application")
            await asyncio.to_thread(chat.until_ready)

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
            firsts = await interleave(
                {
                    "workers": first_pieces,
                    "plain": lambda: plain.tell(firsts=_TURNS),
                    "terminal": lambda: asyncio.to_thread(chat.first_pieces, _TURNS),
                },
                rounds,
            )
        await asyncio.to_thread(chat.leave)
    return turns, firsts


@asynccontextmanager
async def _server(folder: Path, has_key: bool) -> AsyncIterator[str]:
    """Have a vendor's server, whose certificate is trusted meanwhile over TLS; yield its address."""
    script = folder / "script.json"
    script.write_text(json.dumps({**_SCRIPT, "key": _KEY if has_key else ""}))
    command = [sys.executable, "-m", "vendors.serve", "--script", script, *(["--tls", folder] if has_key else [])]
    async with Child.running(command, {**os.environ, "PYTHONPATH": str(_TESTS)}) as server:
        told = await server.tell()
        if not has_key:
            yield told["url"]
            return
        before = os.environ.get("SSL_CERT_FILE")
        os.environ["SSL_CERT_FILE"] = told["authority"]  # where the host looks for whom to trust
        try:
            yield told["url"]
        finally:
            del os.environ["SSL_CERT_FILE"]
            if before is not None:
                os.environ["SSL_CERT_FILE"] = before


def _provider_folder(folder: Path) -> Path:
    """Lay out the shipped provider with what it depends on beside it, which saves asking an index for it."""
    sys.path.append(str(_TESTS))
    try:
        from support.vendored import lay_beside
    finally:
        sys.path.remove(str(_TESTS))
    root = folder / "amplifier-module-provider-openai"
    shutil.copytree(BUILTIN / "provider-openai", root, ignore=shutil.ignore_patterns("tests"))
    project = root / "pyproject.toml"
    lines = project.read_text(encoding="utf-8").splitlines()
    project.write_text("\n".join(line for line in lines if not line.startswith("dependencies")), encoding="utf-8")
    lay_beside(root, "openai")
    return root


def _write_plan(folder: Path, provider: Path, url: str, *, has_key: bool) -> Path:
    """Write the plan that `paddock init` writes for a server, its provider with what it depends on beside it."""
    (folder / "notes.txt").write_text("a line\n", encoding="utf-8")
    key = "OPENAI_API_KEY" if has_key else "none"
    options = ["--provider", "server", "--base-url", url, "--model", "small", "--key-variable", key]
    command = [sys.executable, "-c", "from paddock.cli import main; main()", "init", "plan.yaml", "--yes", "--force"]
    subprocess.run([*command, *options], check=True, cwd=folder, capture_output=True, timeout=_INIT_SECONDS)
    plan = yaml.safe_load((folder / "plan.yaml").read_text(encoding="utf-8"))
    plan["providers"][0]["source"] = str(provider)
    path = folder / "plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    return path


def _in_process(written: Path, provider: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the modules of the plan as a plain process has them, with the key, and the folders of their code."""

    def entry(written: Mapping[str, Any]) -> dict[str, Any]:
        config = {**written.get("config", {})}
        if "api_key" in config:
            config["api_key"] = _KEY
        return {"module": written["module"], "config": config}

    plan = json.loads(written.read_text(encoding="utf-8"))
    made: dict[str, Any] = {"session": {kind: entry(plan["session"][kind]) for kind in ("orchestrator", "context")}}
    made |= {section: [entry(one) for one in plan.get(section, [])] for section in ("providers", "tools", "hooks")}
    entries = [*made["session"].values(), *made["providers"], *made["tools"], *made["hooks"]]
    folders = {one["module"]: str(BuiltinSource().resolve(one["module"]).root) for one in entries}
    return made, {**folders, plan["providers"][0]["module"]: str(provider)}
