"""Commands as people start them, one of each kind: each loads what it needs, and begins with what a warm one has.

The other tests of commands have them run in a process that has loaded Paddock already, which hides what one forgets to
load. What becomes templates begins as they do, too.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import click
import psutil
import pytest

from integration.command_line import Terminal, paddock, python, reachable_level
from integration.conftest import WriteModule
from integration.probe import tool_code
from paddock.cli.command_group import LazyCommand
from paddock.cli.commands import paddock as every_command
from paddock.workers.runtime import WorkerRuntime
from support.examples import repeating

_PLAN = """\
session: {orchestrator: loop-basic, context: context-simple}
providers: [{module: provider-mock, config: {fallback: "You said: {prompt}"}}]
tools: [{module: tool-mine, source: ./mine}]
"""
_MINE = tool_code(
    "mine",
    """
    return ToolResult(output="mine")
    """,
)
_APPLICATION = """
import asyncio, sys
from paddock import Session

async def main():
    async with Session("plan.yaml", isolation=sys.argv[1]) as session:
        print(await session.execute("hello"))

asyncio.run(main())
"""
_HANGS = """
    print("begun")
    await asyncio.sleep(3600)
"""
_SECONDS = 200  # for a template to be ready; hit only by a hang
_ELSEWHERE = {"demo", "selftest", "module shell", "module test"}  # each has tests of its own that start it as people do

# What each is given, and what it then says.
_COMMANDS = {
    "run plan.yaml hello": "You said: hello",
    "chat plan.yaml": "You said: hello",
    "batch plan.yaml tasks.jsonl --out results": "results/results.jsonl",
    "call ./mine mine": "mine",
    "doctor": "  landlock",
    "help": "Usage: paddock help",
    "why tool-mine read plan.yaml": "session",
    "init --yes --provider provider-mock new.yaml": "new.yaml is written",
    "add ./mine": "tool-mine is in",
    "remove tool-mine": "tool-mine",
    "list": "tool-mine",
    "policy show": "/etc/paddock/policy.toml",
    "policy check policy.toml": "valid     policy.toml",
    "policy forget plan.yaml": "plan.yaml` is accepted",
    "lock": "nothing of this plan has to be locked",
    "sync": "tool-mine  ready",
    "update": "nothing is locked here",
    "verify": "nothing is locked here",
    "sessions list --json": '"unread"',
    "sessions show last": "there is no session `last`",
    "sessions export last": "there is no session `last`",
    "sessions delete last": "there is no session `last`",
    "sessions lift last tool-mine": "there is no session `last`",
    "mcp pin": "plan.yaml has no MCP server",
    "ps": "no session runs",
    "top": "needs a terminal",
    "logs": "no session runs",
    "end nothing": "no session runs",
    "audit verify": "nothing was recorded here",
    "report last": "no session is recorded that ran in",
    "cache dir": "/paddock",
    "cache size": "0 bytes",
    "cache list": "there is nothing",
    "cache verify": "none is damaged",
    "cache prune": "0 entries",
    "cache clean": "0 entries",
    "mcp accept ./mine --yes": "tool-mine from",
    "mcp serve plan.yaml": '"code":-32700',
    "mcp run ./mine": '"error":{"code":-32700',
    "mcp protect nothing": "cannot be read: no such file",
    "module new tool other": "amplifier-module-tool-other/pyproject.toml",
    "module validate ./mine": "PASSED",
}


def _names(group: click.Group, before: str = "") -> Iterator[str]:
    for name, listed in group.commands.items():
        command = listed.load() if isinstance(listed, LazyCommand) else listed
        if isinstance(command, click.Group):
            yield from _names(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_each_command_is_started_cold() -> None:
    def is_of(name: str, line: str) -> bool:
        return f"{line} ".startswith(f"{name} ")

    names = {*_names(every_command)} - _ELSEWHERE
    assert [name for name in names if sum(is_of(name, line) for line in _COMMANDS) != 1] == []


# One of each kind, and a call below; that each of the others loads what it needs as well, `make test-all` shows.
_STARTED = ("run plan.yaml hello", "add ./mine", "list", "module validate ./mine")


@pytest.mark.exhaustive("module validate", "add", "list")
@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize("line", [*_STARTED, *repeating(*(one for one in _COMMANDS if one not in _STARTED))])
def test_a_command_loads_what_it_needs(
    line: str, tmp_path: Path, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(write_module("tool-mine", _MINE)).rename("mine")
    Path("plan.yaml").write_text(_PLAN)
    Path("policy.toml").touch()
    Path("tasks.jsonl").write_text('{"id": "one", "prompt": "hello"}')
    done = paddock(*line.split(), stdin="hello\n")
    assert _COMMANDS[line] in done.stdout + done.stderr, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.exhaustive
@pytest.mark.usefixtures("cold")
def test_a_program_loads_what_it_needs(tmp_path: Path, write_module: WriteModule) -> None:
    Path(write_module("tool-mine", _MINE)).rename(tmp_path / "mine")
    (tmp_path / "plan.yaml").write_text(_PLAN)
    done = python(_APPLICATION, reachable_level(), cwd=tmp_path, environ={})
    assert (done.returncode, done.stdout) == (0, "You said: hello\n"), done.stderr


def _state(pid: int) -> dict[str, object]:
    """Return what a process began with, as far as it is not the command's own doing."""
    process, proc = psutil.Process(pid), Path(f"/proc/{pid}")
    status = dict(re.findall(r"^(\w+):[ \t]*(.*)$", (proc / "status").read_text(), re.MULTILINE))
    kept = ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapEff", "NoNewPrivs", "Seccomp")
    kinds = {re.match(r"/?\w+", os.readlink(one))[0] for one in (proc / "fd").iterdir()}  # type: ignore[index]
    return {
        **{name: status[name] for name in kept},
        "limits": (proc / "limits").read_text(),
        "cgroup": (proc / "cgroup").read_text(),
        "priority": (process.nice(), process.cpu_affinity(), process.ionice()),
        "folder": process.cwd(),
        "leads": os.getsid(pid) == os.getpgid(pid) == pid,
        "descriptors": kinds,
    }


def test_a_warm_command_begins_with_what_a_cold_one_has(
    tmp_path: Path, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_module("tool-hangs", tool_code("hangs", _HANGS))
    states = []
    mask = os.umask(0o027)
    try:
        for _ in range(2):
            with Terminal("call", source, "hangs") as terminal:
                terminal.until("begun")
                states.append(_state(terminal.pid))
            request.getfixturevalue("cold")
    finally:
        os.umask(mask)
    assert states[0] == states[1] and (states[0]["Umask"], states[0]["folder"]) == ("0027", str(tmp_path))


def _is_ready(pid: int, what: str) -> bool:
    """Return whether a process has done the last that it does before it waits for its first request."""
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    return "Umask:\t0077" in status and (what == "guard" or bool(ignored & 1 << signal.SIGCHLD - 1))


@pytest.mark.parametrize("what", ["control", "guard"])  # a template and a mount guard, as settings call their sockets
def test_a_warm_template_begins_with_what_a_cold_one_has(
    what: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    runtime = WorkerRuntime.locate()
    more = {"preload": runtime.preload, "shared": [], "cgroups": None} if what == "control" else {}
    states = []
    for _ in range(2):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, open(tmp_path / "stderr", "wb") as stderr:
            with theirs:
                settings = {what: theirs.fileno(), "host": os.getpid(), **more}
                template = runtime.spawn(settings, [theirs.fileno()], stderr.fileno())
            deadline = time.monotonic() + _SECONDS
            while not _is_ready(template.pid, what):
                assert time.monotonic() < deadline
            environ = Path(f"/proc/{template.pid}/environ").read_bytes()
            states.append((type(template).__name__, {**_state(template.pid), "environment": environ}))
        while template.poll() is None:
            assert time.monotonic() < deadline
        request.getfixturevalue("cold")
    (warm, of_warm), (cold, of_cold) = states
    assert (warm, cold) == ("WarmTemplate", "Popen")
    assert of_warm == of_cold
