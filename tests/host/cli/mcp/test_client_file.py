"""The MCP servers in clients' files: the forms of five clients, what is left alone, and what stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddock.cli.mcp.client_file import MAX_BYTES, ClientFile
from paddock.errors import KindError
from paddock_sources.bounded_toml import read_toml
from support.rows import each_row

LINE = {"command": "/bin/paddock", "args": ["mcp", "run", "x"]}
CLAUDE = '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"TOKEN": "sekrit"}}}}'
OF_PROJECT = '{"numStartups": 3, "projects": {"/src/a": {"mcpServers": {"time": {"command": "uvx", "args": []}}}}}'
VS_CODE = """\
{
  // mine, "quoted"
  "inputs": [{"id": "key", "type": "promptString"}],
  "servers": {
    "time": {"type": "stdio", "command": "uvx", "args": ["mcp-server-time", "http://x//y"],}, /* last */
  },
}
"""
ZED = '{"theme": "One", "context_servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
CODEX = """\
# mine
model = "o"

[mcp_servers.time] # the clock
command = "uvx"
args = ["mcp-server-time"]

[mcp_servers.time.env]
TOKEN = "sekrit"
"""


@each_row(
    ("path", "text", "keys", "folder"),
    [
        ("/src/a/.mcp.json", CLAUDE, "mcpServers.time", "/src/a"),
        ("/h/.config/Claude/claude_desktop_config.json", CLAUDE, "mcpServers.time", "/h"),
        ("/h/.claude.json", OF_PROJECT, "projects./src/a.mcpServers.time", "/src/a"),
        ("/h/.cursor/mcp.json", CLAUDE, "mcpServers.time", "/h"),
        ("/src/a/.vscode/mcp.json", VS_CODE, "servers.time", "/src/a"),
        ("/h/.config/zed/settings.json", ZED, "context_servers.time", "/h"),
        ("/h/.codex/config.toml", CODEX, "mcp_servers.time", "/h"),
    ],
)
def test_each_client_is_read(path: str, text: str, keys: str, folder: str) -> None:
    client = ClientFile.read(text.encode(), Path(path))
    (server,) = client.servers
    assert (".".join(server.keys), str(server.folder), server.command) == (keys, folder, "uvx")
    assert server.problem == "" and client.has_comments == (text is VS_CODE)
    assert "sekrit" not in repr(server)
    if not client.has_comments:
        after = ClientFile.read(client.with_commands({server.keys: LINE}).encode(), Path(path))
        assert after.servers[0].is_protected
        earlier = {"command": server.command, "args": [*server.args]}
        before = after.with_commands({server.keys: earlier})
        assert ClientFile.read(before.encode(), Path(path)).content == client.content


def read(text: str | bytes, name: str = ".mcp.json") -> ClientFile:
    return ClientFile.read(text if isinstance(text, bytes) else text.encode(), Path("/src/a") / name)


@each_row(
    ("entry", "said"),
    [
        ([], "is no table"),
        ({"url": "https://x"}, "is remote"),
        ({"type": "sse", "command": "x"}, "is remote"),
        ({"args": []}, "has no `command`"),
        ({"command": "x", "args": [1]}, "has a `args` that is not understood"),
        ({"command": "x", "env": {"A": {"sekrit": 1}}}, "has a `env` that is not understood"),
        ({"command": "x", "args": ["a"] * 1001}, "has a `args` that is not understood"),
        ({"command": "x", "args": ["\x1b[2J"]}, "has an unprintable character"),
        ({"command": "x", "args": ["${input:key}"]}, "has `${input:key}`, which its client fills in"),
        ({"command": "x", "envFile": ".env"}, "has an `envFile`"),
        ({"command": "x", "env": {"PYTHONPATH": "."}}, "sets `PYTHONPATH`, which would act on Paddock"),
        ({"command": "x", "env": {"LD_PRELOAD": "./x.so"}}, "sets `LD_PRELOAD`"),
        ({"command": "x", "env": {"PATH": "."}}, "sets `PATH`"),
        ({"command": "x", "env": {"LOCALDOMAIN": "example.org"}}, "sets `LOCALDOMAIN`"),
        ({"command": "x", "env": {"TEMP": "."}}, "sets `TEMP`"),
    ],
)
def test_what_cannot_be_taken_over_is_said(entry: object, said: str) -> None:
    (server,) = read(json.dumps({"mcpServers": {"a": entry}})).servers
    assert server.problem.startswith(said) and "sekrit" not in server.problem


def test_usual_variables_and_the_workspace_are_taken_over() -> None:
    entry = {
        "command": "x",
        "args": ["${workspaceFolder}/b"],
        "env": {"GITHUB_TOKEN": "1", "PIPELINE": "2"},
        "cwd": "c",
    }
    (server,) = read(json.dumps({"servers": {"a": entry}}), ".vscode/mcp.json").servers
    assert (server.problem, server.args, str(server.folder)) == ("", ("/src/a/b",), "/src/a/c")
    assert server.env == ("GITHUB_TOKEN", "PIPELINE")


@each_row(
    ("text", "said"),
    [
        ("", "it cannot be read"),
        ('{"mcpServers": {', "it cannot be read"),
        (b"\xff", "it cannot be read"),
        ('{"mcpServers": {"a": 1, "a": 2}}', "key `a` stands twice"),
        ('{"mcpServers": []}', "names no MCP server"),
        ('{"session": {}}', "names no MCP server"),
        ("[" * 100_000, "nested too deeply"),
        ("/*" * 300_000, "it cannot be read"),
        (f'{{"a": {"1" * 5000}}}', "it cannot be read"),
        (json.dumps({"mcpServers": {f"a{i}": {} for i in range(300)}}), "names more than 200"),
        (b" " * (MAX_BYTES + 1), "is larger than 8 MiB"),
    ],
)
def test_a_text_that_is_no_clients_file_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(KindError, match=said):
        read(text)


def test_toml_is_read_within_its_bounds() -> None:
    for text in ("a = ", "[a]\n[a]", f"{'a.' * 100}b = 1"):
        with pytest.raises(KindError):
            read(text, "config.toml")


@each_row(
    "text",
    [
        '{\n  "mcpServers": {\n    "é": {\n      "command": "x"\n    }\n  },\n  "b": 1.5\n}\n',
        '{\n\t"mcpServers": {\n\t\t"é": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}',
        '{\r\n    "mcpServers": {\r\n        "é": {\r\n            "command": "x"\r\n        }\r\n    }\r\n}\r\n',
        '{"mcpServers": {"é": {"command": "x"}}, "b": [1, 2]}\n',
    ],
)
def test_json_keeps_its_order_and_indentation(text: str) -> None:
    client = read(text)
    (server,) = client.servers
    written = client.with_commands({server.keys: LINE})
    assert client.with_commands({server.keys: {"command": "x"}}) == text
    assert list(json.loads(written)) == list(json.loads(text))


def test_toml_keeps_its_comments() -> None:
    client = read(CODEX, "config.toml")
    written = client.with_commands({client.servers[0].keys: LINE})
    assert "# mine\n" in written and "# the clock\n" in written and 'TOKEN = "sekrit"' in written
    assert read_toml(written)["mcp_servers"]["time"] == {**LINE, "env": {"TOKEN": "sekrit"}}
