"""What an operator sees of a session that runs, and does to it, from another process; and what its modules cannot."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from integration.command_line import Terminal, paddock, require_level
from integration.conftest import OpenSession, WriteModule
from integration.probe import called, probed
from paddock.session.operated import SessionEndedError
from paddock.state_folder import control_folder

_ASKING = """
    import asyncio, json, socket, sys

    from amplifier_core.models import ToolResult

    class Asking:
        description = "asks what it is told to"

        def __init__(self, name):
            self.name = name

        async def execute(self, input):
            if "say" in input:
                print(input["say"], flush=True)
            if "wait" in input:
                await asyncio.sleep(input["wait"])
            return ToolResult(output=asked(input["ask"]) if "ask" in input else "done")

    def asked(path):
        try:
            line = socket.socket(socket.AF_UNIX)
            line.connect(path)
            try:
                line.sendall(b'{"get": "status"}\\n')
            except BrokenPipeError:
                pass  # it was refused at once
            return line.makefile().readline()
        except OSError as error:
            return repr(error)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Asking(config["name"]))
"""
_SAME_OUTSIDE = """
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
line.sendall(b'{"get": "status"}\\n')
print(line.makefile().readline())
"""
_HOSTILE = "\x1b[2J\u202egpj.\x07"

Tool = Callable[..., dict[str, Any]]


@pytest.fixture
def tool(write_module: WriteModule) -> Tool:
    """Return the entry of a tool of a name, with what else it is to have."""

    def entry(name: str, **more: object) -> dict[str, Any]:
        return {
            "module": f"tool-{name}",
            "source": write_module(f"tool-{name}", _ASKING),
            "config": {"name": name},
        } | more

    return entry


async def _command(*args: str) -> subprocess.CompletedProcess[str]:
    return await anyio.to_thread.run_sync(partial(paddock, *args))


async def test_no_module_is_served_at_the_socket_of_its_session(tool: Tool, open_session: OpenSession) -> None:
    tools = [tool(level, isolation=require_level(level)) for level in ("ns", "landlock", "none")]
    async with open_session(tools=tools) as session:
        path = str(control_folder() / f"{os.getpid()}.sock")
        said = {entry["config"]["name"]: await probed(session, entry["config"]["name"], ask=path) for entry in tools}
        outside = await anyio.to_thread.run_sync(
            partial(subprocess.run, [sys.executable, "-c", _SAME_OUTSIDE, path], capture_output=True, check=True)
        )
    assert json.loads(outside.stdout)["session"] == session.session_id
    assert json.loads(said["none"]) == {"error": "you are a process of a module"}
    assert "Error" in said["ns"] and "Error" in said["landlock"]


async def test_an_operator_sees_a_module_reads_it_and_ends_it(tool: Tool, open_session: OpenSession) -> None:
    async with open_session(tools=[tool("busy"), tool("idle")]) as session:
        turn = asyncio.create_task(called(session, "busy", say=f"hello {_HOSTILE}", wait=3600))
        while True:
            seen = json.loads((await _command("ps", "--json")).stdout)
            (one,) = [one for one in seen["sessions"] if one["session"] == session.session_id]
            rows = {row["module"]: row for row in one["modules"]}
            if rows["tool-busy"]["state"] == "busy":
                break
        assert one["turn"] == 1 and one["pid"] == os.getpid() and rows["tool-idle"]["state"] == "idle"
        assert rows["tool-busy"]["call"] == "execute" and rows["tool-busy"]["memory_max"] == 256 << 20
        assert 0 < rows["tool-busy"]["memory_bytes"] < 256 << 20 and rows["tool-busy"]["tasks"] >= 1
        shown = (await _command("ps")).stdout
        assert "tool-busy" in shown and "busy" in shown
        printed = await _command("logs", "tool-busy", "--session", session.session_id)
        assert printed.stdout == "tool-busy | hello \\x1b[2J\\u202egpj.\\x07\n"
        assert "no running session has a module" in (await _command("logs", "tool-none")).stderr

        assert (await _command("end", "tool-busy")).returncode == 0
        assert "an operator ended it" in (await turn)["error"]["message"]
        rows = {row.module: row for row in session.modules}
        assert "an operator ended it" in rows["tool-busy"].exit_reports[0].describe()
        assert await probed(session, "busy") == "done"  # it was started again
        gone = (await _command("logs", "tool-busy")).stderr
        assert f"tool-busy: {len(f'hello {_HOSTILE}'.encode()) + 1} earlier bytes are not kept" in gone

        ended = json.loads((await _command("end", session.session_id[:8], "--json")).stdout)
        assert ended["ended"] == {"session": session.session_id, "module": None}
        with pytest.raises(SessionEndedError, match="the session is over: an operator ended it") as refused:
            await probed(session, "idle")
        assert refused.value.exit_code == 5 and refused.value.hints == ("it was not kept: start a new one",)
    lines = map(json.loads, (control_folder().parent / "audit.jsonl").read_text().splitlines())
    acts = [(line["event"], line.get("module")) for line in lines if "peer_pid" in line]
    assert acts == [("module.ended_by_operator", "tool-busy"), ("session.ended_by_operator", None)]
    assert session.session_id not in (await _command("ps", "--json")).stdout


class _Person:
    """Is asked, and does not answer."""

    def __init__(self) -> None:
        self.is_asked = anyio.Event()
        self.has_left = anyio.Event()

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.is_asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.has_left.set()
        raise AssertionError


async def test_an_end_during_a_question_says_so_and_takes_it_back(tool: Tool, open_session: OpenSession) -> None:
    person = _Person()
    answers = [{"tool_calls": [{"name": "idle", "arguments": {}}]}]
    async with open_session(
        orchestrator={"module": "loop-basic"},
        providers=[{"module": "provider-mock", "config": {"responses": answers}}],
        hooks=[{"module": "hooks-approval"}],
        tools=[tool("idle")],
        approval=person,
    ) as session:
        turn = asyncio.create_task(session.execute("go on"))
        await person.is_asked.wait()
        done = await _command("end", session.session_id)
        assert done.returncode == 0 and "1 question of its modules was open" in done.stderr
        with pytest.raises(Exception, match="the session is over: an operator ended it"):
            await turn
        await person.has_left.wait()


async def test_top_is_drawn_until_a_key_quits_it(tool: Tool, open_session: OpenSession) -> None:
    def watch() -> int:
        with Terminal("top", environ={"COLUMNS": "80", "LINES": "24"}, seconds=60) as terminal:
            terminal.until("tool-idle")
            terminal.until("q: quit")
            terminal.type("q")
            return terminal.exit_code()

    async with open_session(tools=[tool("idle")]):
        assert await anyio.to_thread.run_sync(watch) == 0
    refused = await _command("top")
    assert refused.returncode == 1 and "`paddock ps`" in refused.stderr
