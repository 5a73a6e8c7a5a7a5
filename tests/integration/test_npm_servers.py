"""MCP servers in packages of npm, run as modules: from a registry on loopback, and from the public one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.command_line import paddock, require_level
from paddock_sandbox.profile import IsolationLevel
from sources.npm_registry import NpmRegistry, archive
from support.registries import NEEDS_NPM, skip_unreached

pytestmark = [
    pytest.mark.usefixtures("in_tmp_path"),
    pytest.mark.exhaustive,  # npm itself takes seconds, and one test asks its registry
    NEEDS_NPM,
]

_SERVER = """
const fs = require("fs"), tool = {name: "act", inputSchema: {type: "object"}};
const about = {protocolVersion: "2025-11-25", capabilities: {tools: {}}, serverInfo: {name: "acts", version: "1"}};
const read = (path) => {
  try { return {content: [{type: "text", text: fs.readFileSync(path, "utf8")}]}; }
  catch (error) { return {content: [{type: "text", text: String(error)}], isError: true}; }
};
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method, params} = JSON.parse(line);
  const said = {initialize: () => about, "tools/list": () => ({tools: [tool]}),
    "tools/call": () => read(params.arguments.path.replace("NEEDED", require.resolve("needed")))}[method];
  if (id === undefined) return;
  const answer = said ? {result: said()} : {error: {code: -32601, message: "unknown"}};
  console.log(JSON.stringify({jsonrpc: "2.0", id, ...answer}));
});
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[NpmRegistry]:
    """A registry of the user's, with a server."""
    with NpmRegistry() as registry:
        registry.add("needed", "1.0.0", {"index.js": "first"})
        registry.add("server-acts", "1.0.0", {"x.js": _SERVER}, bin="x.js", dependencies={"needed": "^1"})
        folder = Path(os.environ["HOME"]) / ".config" / "paddock"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sources.toml").write_text(f'[npm]\nregistry = "{registry.url}"\n')
        yield registry


def test_a_server_is_added_called_updated_and_refused_once_it_changed(registry: NpmRegistry, tmp_path: Path) -> None:
    def told(*args: str) -> str:
        done = paddock(*args)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    Path("plan.yaml").write_text("session: {orchestrator: loop-basic, context: context-simple}\nproviders: []\n")
    added = told("add", "mcp+npm:server-acts", "--to", "plan.yaml", "--yes")
    assert "needed 1.0.0, server-acts 1.0.0" in added and "reads its own files" in added
    assert "tool-mcp-acts version, 1.0.0 mcp+npm:server-acts" in told("list", "plan.yaml")
    secret = tmp_path / "secret"
    secret.write_text("mine")
    call = ("call", "mcp+npm:server-acts", "act")
    refused = paddock(*call, json.dumps({"path": str(secret)}))
    assert refused.returncode == 1, refused.stderr
    (remedy,) = re.findall(r"--allow-read=\S+", refused.stderr)
    registry.requests.clear()
    assert told(*call, json.dumps({"path": str(secret)}), remedy, "--offline", "--locked") == "mine"
    assert (told(*call, '{"path": "NEEDED"}'), registry.requests) == ("first", [])
    registry.add("server-acts", "1.1.0", {"x.js": _SERVER}, bin="x.js", dependencies={"needed": "^1"})
    assert "updated 1.0.0 (no date) → 1.1.0 (no date)" in told("update", "tool-mcp-acts")
    assert "tool-mcp-acts as locked" in told("verify", "plan.yaml")
    told("cache", "clean")
    registry.publish({"name": "needed", "version": "1.0.0"}, archive({"package.json": "{}", "index.js": "other"}))
    changed = paddock(*call, '{"path": "NEEDED"}')
    assert changed.returncode == 1 and "fetching `needed` 1.0.0 failed" in changed.stderr


@pytest.mark.parametrize("isolation", ["ns", "landlock"])
def test_servers_of_npm_s_registry_answer(isolation: IsolationLevel) -> None:
    require_level(isolation)
    Path("a.txt").write_text("hello")
    names = "mcp+npm:@modelcontextprotocol/server-"
    file, at = ("read_text_file", '{"path": "a.txt"}', "--config", '{"args": ["."]}'), ("--isolation", isolation)
    read = paddock("call", f"{names}filesystem@2026.8.31", *file, "--allow-read=.", *at)
    skip_unreached(read)
    assert (read.returncode, "hello" in read.stdout) == (0, True), read.stderr
    said = paddock("call", f"{names}everything@2026.8.31", "echo", '{"message": "hi"}', *at)
    assert (said.returncode, said.stdout) == (0, "Echo: hi\n"), said.stderr
