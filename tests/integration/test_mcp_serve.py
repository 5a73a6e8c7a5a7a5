"""`paddock mcp serve` as a client starts it: sandboxed tools, questions and refusals at the client, a clean stdout."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from integration.command_line import paddock
from integration.conftest import WriteModule
from support.examples import repeating
from support.registries import NEEDS_NPM

_SECONDS = 200  # for one conversation; hit only by a hang
_PLAN = """\
session: {orchestrator: loop-basic, context: context-simple}
providers: [{module: provider-mock}]
tools: [{module: tool-mine, source: ./mine, permissions: {read: [./secret.txt]}}]
hooks: [{module: hooks-approval}]
"""
_MINE = """
    import os, sys
    from amplifier_core import ToolResult

    class Mine:
        name = "mine"
        description = "reads a file, and talks a lot"
        input_schema = {"type": "object", "properties": {"path": {"type": "string"}}}

        async def execute(self, input):
            print('{"jsonrpc": "2.0", "id": 1, "result": {"forged": true}}', flush=True)
            os.write(1, b"not a message\\n")
            return ToolResult(output=open(input["path"]).read())

    async def mount(coordinator, config):
        await coordinator.mount("tools", Mine())
"""
_INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture
def plan(tmp_path: Path, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path(write_module("tool-mine", _MINE)).rename("mine")
    Path("plan.yaml").write_text(_PLAN)
    Path("secret.txt").write_text("told")
    return tmp_path / "plan.yaml"


def _lines(*messages: Any) -> str:
    return "".join(one if isinstance(one, str) else json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)


def _served(*options: str, stdin: str) -> subprocess.CompletedProcess[str]:
    """Serve a client that says all at once, over pipes, as any client has them."""
    command = [sys.executable, "-c", "from paddock.cli import main; main()", "mcp", "serve", *options]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_SECONDS, check=False)


@pytest.mark.parametrize("mode", ["auto", *repeating("legacy")])
def test_the_official_client_asks_its_person_and_hears_what_was_refused(mode: Any, plan: Path) -> None:
    asked: list[str] = []
    command = [sys.executable, "-c", "from paddock.cli import main; main()", "mcp", "serve", "-q"]
    parameters = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ}, cwd=plan.parent)

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        chosen = "Deny" if "denied.txt" in params.message else "Allow once"
        return types.ElicitResult(action="accept", content={"answer": chosen})

    async def converse() -> tuple[str, list[tuple[bool | None, str]]]:
        results = []
        with anyio.fail_after(_SECONDS):
            async with Client(stdio_client(parameters), mode=mode, elicitation_callback=answer) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["mine"]
                for path in ("denied.txt", "secret.txt", "/etc/hostname"):
                    result = await client.call_tool("mine", {"path": path})
                    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
                    results.append((result.is_error, "\n".join(texts)))
                return client.protocol_version, results

    version, (denied, allowed, refused) = anyio.run(converse)
    assert version == ("2026-07-28" if mode == "auto" else "2025-11-25")
    assert len(asked) == 3 and all(one.startswith("module `hooks-approval` asks: mine: may it run") for one in asked)
    assert denied[0] and denied[1].startswith("Denied: `mine` was not allowed")
    assert allowed == (False, "told")
    line = 'write in the entry of `tool-mine` in the plan: permissions: {read: ["./secret.txt", "/etc/hostname"]}'
    assert refused[0] and line in refused[1]


def test_stdout_has_messages_only_and_the_end_of_stdin_ends_it(plan: Path) -> None:
    start, called = {"id": 1, "method": "initialize", "params": _INITIALIZE}, {"name": "mine", "arguments": {}}
    stdin = _lines(
        start, "garbage\n", {"id": 2, "method": "tools/list"}, {"id": 3, "method": "tools/call", "params": called}
    )
    done = _served(stdin=stdin)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["id"] for one in said] == [1, None, 2] and done.returncode == 0
    assert [tool["name"] for tool in said[2]["result"]["tools"]] == ["mine"]
    assert "serving 1 tool of plan.yaml" in done.stderr and "Traceback" not in done.stderr


def test_a_plan_that_was_not_accepted_is_the_answer_to_each_request(plan: Path) -> None:
    plan.write_text(_PLAN.replace("./secret.txt", "/var"))
    requests = [{"id": 1, "method": "server/discover"}, {"id": 2, "method": "initialize", "params": _INITIALIZE}]
    done = _served(stdin=_lines(*requests))
    told = {json.loads(line)["error"]["message"] for line in done.stdout.splitlines()}
    ran = paddock("run", "plan.yaml", "hello")
    assert done.returncode == ran.returncode == 4
    (message,) = told
    assert message in done.stderr and message in ran.stderr and "hint: " in message


def test_a_clients_file_widens_no_plan(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same words at a terminal, of `run`, are the person's own."""
    others = tmp_path_factory.mktemp("others")
    (others / "secret.txt").write_text("theirs")
    call = {"name": "mine", "arguments": {"path": "secret.txt"}}
    stdin = _lines(
        {"id": 1, "method": "initialize", "params": _INITIALIZE}, {"id": 2, "method": "tools/call", "params": call}
    )
    plan.write_text(_PLAN.replace("hooks: ", "# "))
    done = _served(str(plan), "-C", str(others), stdin=stdin)
    assert done.returncode == 4 and "theirs" not in done.stdout and "another folder" in done.stdout
    for options in (["--trust-plan"], ["--grant", "tool-mine=safe"], ["--isolation", "none"]):
        assert paddock("mcp", "serve", *options).returncode == 2
        assert paddock("run", *options, "--help").returncode == 0


_TYPESCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const client = new Client({name: "test", version: "1"}, {capabilities: {elicitation: {}}});
const answers = ["Deny", "Allow once"];
client.setRequestHandler(ElicitRequestSchema, async () => ({action: "accept", content: {answer: answers.shift()}}));
const [command, ...args] = process.argv.slice(2);
await client.connect(new StdioClientTransport({command, args, env: process.env}));
const call = {name: "mine", arguments: {path: "secret.txt"}};
const results = [await client.callTool(call), await client.callTool(call)];
const names = (await client.listTools()).tools.map(one => one.name);
console.log(JSON.stringify([names, ...results.map(one => one.content[0].text)]));
await client.close();
"""


@pytest.mark.exhaustive
@NEEDS_NPM
def test_clients_of_other_makers_list_and_call(plan: Path) -> None:
    served = [sys.executable, "-c", "from paddock.cli import main; main()", "mcp", "serve", "-q"]
    (plan.parent / "client.mjs").write_text(_TYPESCRIPT)
    packages = ["@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/inspector@2.12.0"]

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=plan.parent)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("npm", "install", "--no-audit", "--no-fund", *packages)
    names, denied, allowed = json.loads(run("node", "client.mjs", *served))
    assert (names, allowed) == (["mine"], "told") and denied.startswith("Denied: `mine` was not allowed")
    (plan.parent / "served").write_text(f"#!/bin/sh\nexec {shlex.join(served)}\n")
    (plan.parent / "served").chmod(0o700)
    listed = run("npx", "mcp-inspector", "--cli", "./served", "--method", "tools/list")
    assert [tool["name"] for tool in json.loads(listed)["tools"]] == ["mine"]
    plan.write_text(_PLAN.replace("hooks: ", "# "))  # nobody is at that client, so a hook would deny
    call = ["--method", "tools/call", "--tool-name", "mine", "--tool-arg", "path=secret.txt"]
    assert json.loads(run("npx", "mcp-inspector", "--cli", "./served", *call))["content"][0]["text"] == "told"
