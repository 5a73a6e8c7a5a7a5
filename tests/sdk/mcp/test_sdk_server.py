"""Our client and the official one get the same of a server by the official SDK, in both eras."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock_sdk.mcp import messages
from paddock_sdk.mcp.client import Client, Json, Reactions, RefusedError

pytestmark = pytest.mark.exhaustive  # the SDK takes half a second to import in each server, and here

_SERVER = [sys.executable, str(Path(__file__).with_name("sdk_server.py"))]
_CALLS: list[tuple[str, Json]] = [("echoes", {"text": "Grüße \U0001f600"}), ("asks", {}), ("fails", {})]


async def _by_the_sdk(mode: Any, progress: list[Any]) -> list[Any]:
    import mcp_types as types
    from mcp import Client as Official
    from mcp import StdioServerParameters

    async def accept(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"ok": True})

    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv", name="srv")])

    async def report(*seen: Any) -> None:
        progress.append(seen)

    server = StdioServerParameters(command=_SERVER[0], args=_SERVER[1:])
    async with Official(server, mode=mode, elicitation_callback=accept, list_roots_callback=roots) as client:
        first = await client.list_tools()
        found: list[Any] = [first.tools + (await client.list_tools(cursor=first.next_cursor)).tools]
        found += [await client.call_tool(name, dict(given), progress_callback=report) for name, given in _CALLS]
        return [*found, await client.list_prompts(), await client.get_prompt("greet", {"name": "Ada"})]


@pytest.mark.parametrize(("era", "mode"), [(messages.MODERN, "auto"), ("2025-11-25", "legacy")])
async def test_both_clients_get_the_same(era: str, mode: str) -> None:
    import mcp_types as types

    lines: list[Any] = []
    changed = asyncio.Event()

    async def accept(params: Json) -> Json:
        assert params["message"] == "sure?"
        return {"action": "accept", "content": {"ok": True}}

    reactions = Reactions(
        accept, lambda: [{"uri": "file:///srv", "name": "srv"}], changed.set, lambda *line: lines.append(line)
    )
    client = await Client.start([*_SERVER, *(["older"] if mode == "legacy" else [])], reactions)
    try:
        assert (client.version, client.server, client.instructions) == (era, "by-sdk 3", "Be kind.")
        progress: list[Any] = []
        found: list[Any] = [[types.Tool.model_validate(one) for one in await client.list_tools()]]
        for name, given in _CALLS:
            result = await client.call_tool(name, given, lambda *report: progress.append(report))
            found.append(types.CallToolResult.model_validate(result))
        found.append(types.ListPromptsResult.model_validate(await client.ask("prompts/list", {})))
        greeting = await client.ask("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
        found.append(types.GetPromptResult.model_validate(greeting))
        official: list[Any] = []
        assert found == await _by_the_sdk(mode, official)
        assert progress == official == [(1, 2, "half")]

        with pytest.raises(RefusedError, match="no such tool") as refused:
            await client.call_tool("refuses", {})
        assert (refused.value.code, refused.value.data) == (-32602, {"name": "refuses"})
        await client.call_tool("changes", {})
        await asyncio.wait_for(changed.wait(), 30)

        runs = asyncio.Event()
        running = asyncio.create_task(client.call_tool("runs", {}, lambda *report: runs.set()))
        await asyncio.wait_for(runs.wait(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await client.call_tool("stopped", {}))["content"][0]["text"] == "1"
        assert not [text for stream, text in lines if stream == "stdout"]
    finally:
        await client.close()
