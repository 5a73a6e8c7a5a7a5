"""One module for a client by the flags of the client's file, which count once a person accepted them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from integration.command_line import Terminal, paddock
from integration.conftest import WriteModule
from paddock.authorization.consent import ConsentAnswer, PlanReview
from paddock.errors import ConsentRefusedError, Denial, KindError, ModuleDiedError, ModuleLoadError, PolicyRefusedError
from paddock.mcp_server.client_approval import ClientCall
from paddock.mcp_server.flagged_server import FlaggedServer, accept, served
from paddock.mcp_server.served import ServedTools
from paddock.plan.server_flags import ServerFlags

_READER = """
    import asyncio
    import contextvars
    import os

    from amplifier_core.models import ToolResult

    class Reader:
        name = "read"
        title = "Read a file"
        description = "Returns what a file has."
        input_schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        annotations = {"readOnlyHint": True}

        def __init__(self, coordinator):
            self.hooks, self.approval = coordinator.hooks, coordinator.approval_system

        async def execute(self, input):
            if input["path"] == "die":
                os._exit(3)
            if input["path"] == "ask":
                await self.hooks.emit("tool:progress", {"tool_name": "read", "progress": 1, "total": 2, "message": "m"})
                answer = await self.approval.request_approval("Read?", ["Yes", "No"], 60, "deny")
                return ToolResult(output=answer)
            if input["path"] == "ask of its own accord":
                self.may_ask = asyncio.Event()
                self.asking = contextvars.Context().run(asyncio.create_task, self.ask())
                return ToolResult(output="it will")
            if input["path"] == "answer":
                self.may_ask.set()
                return ToolResult(output=await self.asking)
            try:
                with open(input["path"]) as file:
                    return ToolResult(output={"text": file.read()})
            except OSError as error:
                return ToolResult(success=False, error={"type": "OSError", "message": str(error)})

        async def ask(self):
            await self.may_ask.wait()
            return await self.approval.request_approval("Late?", ["Yes", "No"], 60, "deny")

    async def mount(coordinator, config):
        print("to stdout, which is the client's")
        await coordinator.mount("tools", Reader(coordinator))
"""
_SERVER = f"""#!{sys.executable}
import json, socket, sys

TOOL = {{"name": "read", "title": "Read a file", "inputSchema": {{"type": "object"}}}}

def answer(method, params):
    if method == "initialize":
        return {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "x"}}}}
    if method == "tools/list":
        return {{"tools": [TOOL]}}
    try:
        if params["arguments"]["path"] == "net":
            socket.create_connection(("example.org", 80))
        with open(params["arguments"]["path"]) as file:
            return {{"content": [{{"type": "text", "text": f"{{file.read()}} {{sys.argv[1:]}}"}}]}}
    except OSError as error:
        return {{"content": [{{"type": "text", "text": str(error)}}], "isError": True}}

for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") in ("initialize", "tools/list", "tools/call"):
        result = answer(asked["method"], asked["params"])
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
    elif "id" in asked:
        error = {{"code": -32601, "message": "it is not known"}}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "error": error}}), flush=True)
"""
_CALL = ClientCall(None, lambda done, total, message: None)


@pytest.fixture
def secret(home: Path) -> Path:
    return home / ".ssh/id_x"


@pytest.fixture
def flags(write_module: WriteModule, tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> ServerFlags:
    """Flags for a module in the client's folder, which ask for a file outside of it."""
    write_module("tool-reader", _READER)
    monkeypatch.chdir(tmp_path)
    return ServerFlags("./amplifier-module-tool-reader", tmp_path, permissions={"read": [str(secret)]})


@asynccontextmanager
async def _serving(flags: ServerFlags) -> AsyncIterator[tuple[ServedTools, list[Denial]]]:
    refused: list[Denial] = []

    def explain(denials: Sequence[Denial], error: str) -> list[str]:
        refused.extend(denials)
        return ["explained"]

    with anyio.fail_after(200):
        async with served(FlaggedServer(flags, os.environ), explain, lambda value: value) as server:
            yield server, refused


async def _read(flags: ServerFlags, path: Path) -> str:
    """Return what a call returns for a file."""
    async with _serving(flags) as (server, refused):
        answer = await server.call("read", {"path": str(path)}, _CALL)
    if answer["isError"]:
        assert answer["content"][-1]["text"] == "explained" and [one.target for one in refused] == [str(path)]
        return "refused"
    return str(answer["structuredContent"]["text"])


async def test_flags_of_a_client_count_only_as_they_were_accepted(flags: ServerFlags, secret: Path) -> None:
    for granting in (flags, replace(flags, permissions={"read": ["."]}), replace(flags, config={"env": {"A": "b"}})):
        with pytest.raises(KindError, match="nobody accepted what the server's flags grant it"):
            await _read(granting, secret)
    assert await _read(replace(flags, permissions={}), secret) == "refused", "it starts where it needs no yes"
    await accept(flags, os.environ)
    assert await _read(flags, secret) == "the key"
    # What a repository changes in its file, or has in another folder, is another plan.
    (inside := flags.folder / "inside").mkdir()
    for other in (
        replace(flags, permissions={"read": [str(secret), "/etc/hostname"]}),
        replace(flags, source=f"../{Path(flags.source).name}", folder=inside, permissions={}),  # code from outside
    ):
        with pytest.raises((KindError, PolicyRefusedError), match=r"nobody accepted|policy refuses"):
            await _read(other, secret)


async def test_a_clients_file_chooses_no_folder_with_more_in_it(
    flags: ServerFlags, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The file says which folder that is, by `-C` or as its client does.
    home = replace(flags, source=str(flags.folder / flags.source), folder=secret.parent, permissions={})
    with pytest.raises(KindError, match="nobody accepted that a server works in"):
        await _read(home, secret)
    monkeypatch.chdir(secret.parent.parent)
    monkeypatch.setenv("HOME", str(secret.parent))
    with pytest.raises(KindError, match="nobody accepted that a server works in"):
        await _read(replace(home, folder=Path.cwd()), secret)
    home = replace(home, permissions={"read": ["."]})
    await accept(home, os.environ)
    assert await _read(home, secret) == "the key"


async def test_a_link_that_leads_elsewhere_since_then_is_not_honoured(flags: ServerFlags, secret: Path) -> None:
    link = flags.folder / "notes"
    link.write_text("notes")
    flags = replace(flags, permissions={"read": ["./notes"]})
    await accept(flags, os.environ)
    link.unlink()
    link.symlink_to(secret)
    with pytest.raises(KindError, match="nobody accepted"):
        await _read(flags, secret)


async def test_nothing_is_recorded_when_the_answer_is_no(flags: ServerFlags, secret: Path) -> None:
    class No:
        reviews: list[PlanReview] = []

        async def ask(self, review: PlanReview) -> ConsentAnswer:
            self.reviews.append(review)
            return ConsentAnswer.STOP

    with pytest.raises(ConsentRefusedError):
        await accept(flags, os.environ, consent=No())
    assert No.reviews[0].modules[0].needs_trust == (f"reads {secret}",)
    with pytest.raises(KindError, match="nobody accepted"):
        await _read(flags, secret)


async def test_a_served_tool_has_its_own_definition(flags: ServerFlags) -> None:
    async with _serving(replace(flags, permissions={})) as (server, _):
        assert server.tools() == [
            {
                "name": "read",
                "title": "Read a file",
                "description": "Returns what a file has.",
                "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
                "annotations": {"readOnlyHint": True},
            }
        ]
        with pytest.raises(LookupError):
            await server.call("write", {}, _CALL)
        with pytest.raises(LookupError):
            await server.ask("prompts/list", {})


def _says_the_first(seen: list[object]) -> Callable[[str, Any], Awaitable[dict[str, Any]]]:
    """Return who answers a question with its first choice, and notes it."""

    async def elicit(message: str, schema: Any) -> dict[str, Any]:
        seen.append(message)
        return {"action": "accept", "content": {"answer": schema["properties"]["answer"]["enum"][0]}}

    return elicit


async def test_questions_and_progress_of_a_call_reach_its_client(flags: ServerFlags) -> None:
    seen: list[object] = []
    async with _serving(replace(flags, permissions={})) as (server, _):
        answer = await server.call(
            "read", {"path": "ask"}, ClientCall(_says_the_first(seen), lambda *told: seen.append(told))
        )
        assert answer["content"] == [{"type": "text", "text": "Yes"}]
    assert seen[0] == (1, 2, "m") and "tool-reader" in str(seen[1]) and str(seen[1]).endswith("asks: Read?")


async def test_what_a_module_asks_of_its_own_accord_reaches_no_client(flags: ServerFlags) -> None:
    """Its process was started while a call was served, which has ended since; in a call it reaches the person."""
    seen: list[object] = []
    call = ClientCall(_says_the_first(seen), _CALL.progress)
    async with _serving(replace(flags, permissions={})) as (server, _):
        answers = []
        for path in ("ask", "die", "ask of its own accord", "answer"):
            answer = await server.call("read", {"path": path}, call)
            answers.append(answer["content"][0]["text"])
    assert (answers[0], answers[-1], len(seen)) == ("Yes", "deny", 1)


async def test_a_server_that_died_is_started_again_until_it_died_too_often(flags: ServerFlags, secret: Path) -> None:
    await accept(flags, os.environ)
    async with _serving(flags) as (server, _):
        changes: list[Exception | None] = []
        server.on_change(lambda: changes.append(server.end))
        died = await server.call("read", {"path": "die"}, _CALL)
        assert died["isError"] and "exited with code 3" in died["content"][0]["text"]
        assert server.end is None
        assert (await server.call("read", {"path": str(secret)}, _CALL))["structuredContent"] == {"text": "the key"}
        while server.end is None:
            await server.call("read", {"path": "die"}, _CALL)
    assert isinstance(changes[-1], ModuleDiedError) and changes[-1].exit_code == 5


def test_accepting_shows_what_the_server_would_get_and_needs_a_yes(flags: ServerFlags, secret: Path) -> None:
    words = flags.words("accept")[1:]
    done = paddock(*words)
    assert done.returncode == 1 and f"reads {secret}" in done.stderr and "add `--yes`" in done.stderr
    done = paddock(*words, "--yes", "--", "an argument")
    assert done.returncode == 0 and "it is started with 'an argument'" in done.stderr
    assert "paddock mcp run -C" in done.stdout
    assert "forgotten" in paddock("policy", "forget", flags.source).stdout


def test_a_person_who_types_the_command_is_told_what_it_waits_for(flags: ServerFlags) -> None:
    with Terminal(*replace(flags, permissions={}).words("run")[1:]) as terminal:
        terminal.until("it waits for a client's messages on stdin")
        terminal.type("\x04")
        assert terminal.exit_code() == 0, terminal.shown


async def test_a_changed_tool_is_served_once_a_person_saw_the_change(flags: ServerFlags) -> None:
    program = flags.folder / "server.py"
    program.write_text(_SERVER)
    flags = replace(flags, source="mcp+command:./server.py")
    await accept(flags, os.environ)
    async with _serving(flags) as (server, _):
        assert [one["title"] for one in server.tools()] == ["Read a file"]
    program.write_text(_SERVER.replace("Read a file", "Read the file"))
    async with _serving(flags) as (server, _):
        assert not server.tools()
        with pytest.raises(LookupError, match="differs from the pinned one; `paddock mcp accept"):
            await server.call("read", {}, _CALL)
    done = paddock(*flags.words("accept", "--yes")[1:])
    assert done.returncode == 0 and '+ title: "Read the file"' in done.stderr
    async with _serving(flags) as (server, _):
        assert [one["title"] for one in server.tools()] == ["Read the file"]


async def test_a_client_is_shown_the_line_that_allows_what_was_refused(flags: ServerFlags, secret: Path) -> None:
    (flags.folder / "server.py").write_text(_SERVER)
    (flags.folder / "server.py").chmod(0o700)
    flags = replace(flags, source="mcp+command:./server.py", arguments=("--an", "argument"))
    with pytest.raises(BaseExceptionGroup) as caught:
        await _calls_of_client(flags, secret)
    assert caught.group_contains(MCPError, match=re.escape(flags.line("accept")))
    (first,) = await _calls_of_client(replace(flags, permissions={}), secret)
    assert first["isError"] and flags.line("accept") in first["content"][-1]["text"]
    assert paddock(*flags.words("accept", "--yes")[1:]).returncode == 0
    second, unknown, missing = await _calls_of_client(flags, secret, Path("net"), Path("missing"))
    assert not second["isError"] and second["content"][0]["text"] == "the key ['--an', 'argument']"
    # What the kernel refused the server itself is not known, so the client is shown what the server has.
    said = unknown["content"][-1]["text"]
    assert unknown["isError"] and str(secret) in said and flags.line("accept") in said
    assert missing["isError"] and len(missing["content"]) == 1


async def _calls_of_client(flags: ServerFlags, *paths: Path) -> list[dict[str, Any]]:
    words = ["-c", "from paddock.cli import main; main()", *flags.words("run")[1:]]
    program = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    with anyio.fail_after(200):
        async with Client(stdio_client(program)) as client:
            assert [one.title for one in (await client.list_tools()).tools] == ["Read a file"]
            answers = [await client.call_tool("read", {"path": str(path)}) for path in paths]
    return [answer.model_dump(mode="json", by_alias=True) for answer in answers]


_TELLING = f"""#!{sys.executable}
import json, os, sys

KEY = os.environ["GIVEN"]
FORM = {{"type": "object", "properties": {{"one": {{"type": "string", "enum": [KEY, "n"]}}}}}}
ABOUT = {{"instructions": KEY, "capabilities": {{"tools": {{}}, "prompts": {{}}}}, "serverInfo": {{"name": "x"}}}}

def say(**message):
    print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    id, params = asked.get("id"), asked.get("params", {{}})
    match asked.get("method"):
        case "initialize":
            say(id=id, result={{"protocolVersion": "2025-11-25", **ABOUT}})
        case "tools/list":
            say(id=id, result={{"tools": [{{"name": "tell", "description": KEY}}]}})
        case "prompts/list":
            say(id=id, result={{"prompts": [{{"name": "p", "description": KEY}}]}})
        case "tools/call":
            token = params["_meta"]["progressToken"]
            say(method="notifications/progress", params={{"progressToken": token, "progress": 1, "message": KEY}})
            say(id=1, method="elicitation/create", params={{"message": KEY, "requestedSchema": FORM}})
            sys.stdin.readline()
            say(id=id, result={{"content": [{{"type": "text", "text": KEY}}], "structuredContent": {{KEY: KEY}}}})
        case method if id is not None:
            say(id=id, error={{"code": -32601, "message": KEY}})
"""


async def test_no_text_of_a_server_has_the_value_of_secrets(
    flags: ServerFlags, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside, the same server says the value in each of these."""
    monkeypatch.setenv("KEY", "the-value-of-it")
    (flags.folder / "server.py").write_text(_TELLING)
    config = {"env": {"GIVEN": "${KEY}"}}
    flags = replace(flags, source="mcp+command:./server.py", permissions={"secrets": ["KEY"]}, config=config)
    await accept(flags, os.environ)
    about: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    call = {"name": "tell", "arguments": {}, "_meta": {"progressToken": 1}}
    asked = [("initialize", about), ("tools/list", {}), ("prompts/list", {}), ("prompts/get", {}), ("tools/call", call)]
    sandboxed = [sys.executable, "-c", "from paddock.cli import main; main()", *flags.words("run")[1:]]
    for words, value in ((sandboxed, "[secret KEY]"), ([sys.executable, "server.py"], "the-value-of-it")):
        said = _said(words, asked, {**os.environ, "GIVEN": "the-value-of-it"})
        assert len(said) == 7 and all(value in one for one in said), said
        assert ("the-value-of-it" in "".join(said)) is (words is not sandboxed)


def _said(words: Sequence[str], asked: Sequence[tuple[str, dict[str, Any]]], environ: dict[str, str]) -> list[str]:
    """Return the lines that a server says to these requests; what it asks is declined."""
    with subprocess.Popen(words, env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        lines = []

        def send(**message: Any) -> None:
            print(json.dumps({"jsonrpc": "2.0", **message}), file=server.stdin, flush=True)

        for number, (method, params) in enumerate(asked):
            send(id=f"own {number}", method=method, params=params)
            while not lines or json.loads(lines[-1]).get("id") != f"own {number}":
                lines.append(server.stdout.readline())
                if "method" in (message := json.loads(lines[-1])) and "id" in message:
                    send(id=message["id"], result={"action": "decline"})
        server.stdin.close()
        return lines


async def test_a_start_that_fails_says_what_was_refused_and_the_line(flags: ServerFlags, secret: Path) -> None:
    code = "async def mount(coordinator, config):\n    open(config['path'])\n"
    package = flags.folder / "amplifier-module-tool-reader/amplifier_module_tool_reader/__init__.py"
    package.write_text(code)
    flags = replace(flags, permissions={}, config={"path": str(secret)})
    with pytest.raises(ModuleLoadError) as caught:
        await _read(flags, secret)
    assert caught.value.hints == ("explained",)
