"""Clients whose servers are started through Paddock: a person accepts them, on a terminal, and a client starts them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from integration.command_line import Terminal, paddock
from support.registries import skip_unreached

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """The file of a client that has one server, a program beside it."""
    (tmp_path / "own").write_text("#!/bin/sh\n")
    (tmp_path / "own").chmod(0o755)
    (tmp_path / "data").mkdir()
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"own": {"command": "./own", "args": ["data"], "env": {"TOKEN": "x"}}}}))
    return path


def test_a_person_accepts_each_server_before_it_is_written(client: Path) -> None:
    before = client.read_bytes()
    with Terminal("mcp", "protect", ".mcp.json", "--write") as terminal:
        terminal.until("type the word yes or stop, and Enter:")
        assert client.read_bytes() == before
        terminal.type("stop\n")
        assert terminal.exit_code() == 4, terminal.shown
    assert client.read_bytes() == before
    with Terminal("mcp", "protect", ".mcp.json", "--write") as terminal:
        asked = terminal.until("type the word yes or stop, and Enter:")
        assert "data" in asked and "TOKEN" in asked
        terminal.type("yes\n")
        assert terminal.exit_code() == 0, terminal.shown
    entry = json.loads(client.read_bytes())["mcpServers"]["own"]
    assert entry["args"][:2] == ["mcp", "run"] and entry["env"] == {"TOKEN": "x"}
    # What is written is what was accepted: accepting the same flags again asks nobody, and takes no value of TOKEN.
    done = paddock("mcp", "accept", *entry["args"][2:])
    line = shlex.join(["paddock", *entry["args"]])
    assert done.returncode == 0 and f"\n  {line}\n" in done.stdout, done.stderr


# What a client starts, a tool of that, and what the answer has. Those of npm need npm here.
_REAL = {
    "git": (["uvx", "mcp-server-git@2026.10.19", "--repository", "."], "git_log", {"repo_path": "."}, "Message: first"),
    "files": (
        ["npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."],
        "read_text_file",
        {"path": "note.txt"},
        "a note",
    ),
}


@pytest.mark.exhaustive
def test_servers_of_the_registries_work_in_a_client_after_two_commands(tmp_path: Path) -> None:
    Path("note.txt").write_text("a note")
    subprocess.run(["git", "init", "-q"], check=True)
    author = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    rows = {name: row for name, row in _REAL.items() if shutil.which("npm") or row[0][0] != "npx"}
    servers = {name: {"command": command[0], "args": command[1:]} for name, (command, *_) in rows.items()}
    Path(".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    for options in ([], ["--write", "--yes"]):
        program = [Path(sys.executable).with_name("paddock"), "mcp", "protect", ".mcp.json", *options]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        skip_unreached(done)
        assert done.returncode == 0, done.stderr
    written = json.loads(Path(".mcp.json").read_text())["mcpServers"]
    for name, (_, tool, arguments, has) in rows.items():
        assert has in anyio.run(_called, written[name], tool, arguments), name


async def _called(entry: dict[str, Any], tool: str, arguments: dict[str, Any]) -> str:
    """Return the text of a tool's result, from a server that is started as its client does."""
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"])
    async with Client(stdio_client(parameters)) as client:
        result = await client.call_tool(tool, arguments)
    return " ".join(one.text for one in result.content if isinstance(one, TextContent))
