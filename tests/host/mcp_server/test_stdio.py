"""A client over two pipes: a test's own lines, and the client of the protocol's official SDK in both eras."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from paddock.mcp_server.client_approval import ClientCall

from .scripted import FORM, META, Json, Scripted
from .wire import as_transport, wired

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


def _text(text: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


async def _echo(arguments: Json, call: ClientCall) -> Json:
    return _text(str(arguments.get("say")), structuredContent={"said": arguments.get("say")})


async def _ask(arguments: Json, call: ClientCall) -> Json:
    assert call.elicit is not None
    replies = await asyncio.gather(*(call.elicit(f"May I {act}?", FORM) for act in arguments["acts"]))
    return _text(" ".join(reply.get("content", reply)["answer"] for reply in replies))


class Hanging:
    """A tool that does not end by itself, and says how often it was ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, arguments: Json, call: ClientCall) -> Json:
        self.begun.set()
        try:
            call.progress(1.0, 2.0, "half")
            if call.elicit is not None and arguments.get("asks"):
                await call.elicit("May I?", FORM)
            await asyncio.Event().wait()
            raise AssertionError
        finally:
            self.ended.set()


@asynccontextmanager
async def client_of(served: Scripted, mode: Any, **callbacks: Any) -> AsyncIterator[Client]:
    async with wired(served) as wire, Client(as_transport(wire), mode=mode, **callbacks) as client:
        yield client


@ERAS
async def test_the_official_client_lists_and_calls(mode: str) -> None:
    async with client_of(Scripted(echo=_echo), mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert client.instructions == "be brief" and client.server_info and client.server_info.name == "paddock"
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool(tool.name, {"say": "hi"})
        assert isinstance(result.content[0], types.TextContent)
        assert (result.content[0].text, result.structured_content, result.is_error) == ("hi", {"said": "hi"}, False)
        with pytest.raises(MCPError, match="there is no tool 'nothing'"):
            await client.call_tool("nothing", {})


@ERAS
async def test_the_official_client_gets_prompts_where_they_are_offered(mode: str) -> None:
    served = Scripted()
    served.capabilities = {"prompts": {}}
    async with client_of(served, mode) as client:
        assert [one.name for one in (await client.list_prompts()).prompts] == ["greet"]
        assert (await client.get_prompt("greet")).messages == []
        with pytest.raises(MCPError, match="there is no prompt 'none'"):
            await client.get_prompt("none")


@ERAS
async def test_questions_reach_the_person_one_at_a_time(mode: str) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": "Allow" if "read" in params.message else "Deny"})

    async with client_of(Scripted(ask=_ask), mode, elicitation_callback=answer) as client:
        result = await client.call_tool("ask", {"acts": ["read", "write"]})
    assert result.content[0].text == "Allow Deny"  # type: ignore[union-attr]
    assert asked == ["May I read?", "May I write?"]


@ERAS
async def test_progress_and_a_cancellation_go_each_their_way(mode: str) -> None:
    tool = Hanging()
    told = asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        assert (done, total, message) == (1.0, 2.0, "half")
        told.set()

    async with client_of(Scripted(hang=tool, echo=_echo), mode) as client:
        call = asyncio.ensure_future(client.call_tool("hang", {}, progress_callback=progress))
        await told.wait()
        call.cancel()
        await tool.ended.wait()
        assert (await client.call_tool("echo", {"say": "still here"})).content


async def test_a_change_of_the_tools_reaches_who_listens() -> None:
    served = Scripted(echo=_echo)
    async with client_of(served, "auto") as client, client.listen(tools_list_changed=True) as changes:
        served.functions["more"] = _echo
        served.changed()
        assert type(await anext(changes)).__name__ == "ToolsListChanged"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "more"]


@pytest.mark.parametrize("asks", [False, True], ids=["running", "held"])
async def test_a_client_that_is_gone_ends_its_calls(asks: bool) -> None:
    tool = Hanging()
    async with wired(Scripted(hang=tool)) as wire:
        params = {"name": "hang", "arguments": {"asks": asks}, "_meta": META}
        wire.send({"id": 1, "method": "tools/call", "params": params})
        if asks:
            assert (await wire.next())["result"]["resultType"] == "input_required"
        await tool.begun.wait()
        wire.close()
        await wire.served
        assert tool.ended.is_set()


async def test_a_client_that_does_not_read_is_not_read_either() -> None:
    async with wired(Scripted()) as wire:
        os.set_blocking(wire.outgoing, False)
        sent = 0
        with pytest.raises(BlockingIOError):  # what it does not read stays in the pipe, which is full in the end
            for sent in range(10_000):
                wire.send({"id": sent, "method": "x" * 200})
                await asyncio.sleep(0)
        assert [(await wire.next())["id"] for _ in range(sent)] == [*range(sent)]


async def test_what_a_client_asks_at_once_is_answered_as_it_reads() -> None:
    served = Scripted(**dict.fromkeys("abc", _echo))
    definitions = [{**one, "description": "x" * 4000} for one in served.tools()]
    listed = []

    def tools() -> list[Json]:
        listed.append(1)
        return definitions

    served.tools = tools  # type: ignore[method-assign]
    async with wired(served) as wire:
        wire.reader._transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's own reads on by itself
        for id in range(150):
            wire.send({"id": id, "method": "tools/list", "params": {"_meta": META}})
        for _ in range(100):
            await asyncio.sleep(0)
        assert 1 < len(listed) < 50
        wire.reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert [(await wire.next())["id"] for _ in range(150)] == [*range(150)]


async def test_a_client_that_does_not_read_is_told_of_no_more_progress() -> None:
    async def report(arguments: Json, call: ClientCall) -> Json:
        for number in range(1000):
            call.progress(number, None, "x" * 8000)
            await asyncio.sleep(0)
        return _text("done")

    async with wired(Scripted(report=report)) as wire:
        params = {"name": "report", "_meta": {**META, "progressToken": 1}}
        wire.reader._transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's own reads on by itself
        wire.send({"id": 1, "method": "tools/call", "params": params})
        for _ in range(2000):
            await asyncio.sleep(0)
        wire.reader._transport.resume_reading()  # type: ignore[attr-defined]
        told = [await wire.next()]
        while "result" not in told[-1]:
            told.append(await wire.next())
        assert 1 < len(told) < 100


async def test_what_is_served_may_end_for_good_after_its_last_answer() -> None:
    async def die(arguments: Json, call: ClientCall) -> Json:
        served.end = RuntimeError("it died")
        served.changed()
        await asyncio.sleep(0)
        return _text("the last words")

    served = Scripted(die=die)
    with pytest.raises(RuntimeError, match="it died"):
        async with wired(served) as wire:
            wire.send({"id": 1, "method": "tools/call", "params": {"name": "die", "_meta": META}})
            assert (await wire.next())["result"]["content"][0]["text"] == "the last words"
            await wire.served


async def test_a_refusal_is_heard_by_the_official_client() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with wired("hint: accept the plan") as wire, Client(as_transport(wire), mode="auto"):
            pass
    assert caught.group_contains(MCPError, match="hint: accept the plan")
