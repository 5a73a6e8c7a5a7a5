"""A server by the official SDK. With the argument "older" it knows no `server/discover`, as those of the older era."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

_FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
_QUESTIONS: dict[str, Any] = {
    "sure": types.ElicitRequest(params=types.ElicitRequestFormParams(message="sure?", requested_schema=_FORM)),
    "roots": types.ListRootsRequest(),
}

_changes = InMemorySubscriptionBus()
_stopped: list[int] = []


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def _list(ctx: Any, params: Any) -> types.ListToolsResult:
    names = ["fails", "refuses"] if params and params.cursor else ["echoes", "asks", "changes", "runs", "stopped"]
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": []}
    tools = [types.Tool(name=name, title=name.title(), description="Ünsere", input_schema=schema) for name in names]
    return types.ListToolsResult(tools=tools, next_cursor=None if params and params.cursor else "2")


async def _call(ctx: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    match params.name:
        case "echoes":
            await ctx.session.report_progress(1, 2, "half")
            return types.CallToolResult(
                content=[
                    types.TextContent(type="text", text=params.arguments["text"]),
                    types.ImageContent(type="image", data="AAAA", mime_type="image/png"),
                ],
                structured_content={"given": params.arguments},
            )
        case "asks":
            return await _ask(ctx, params)
        case "changes":
            await _changes.publish(ToolsListChanged())
            if ctx.protocol_version != "2026-07-28":
                await ctx.session.send_tool_list_changed()
            return _text("changed")
        case "runs":
            try:
                await ctx.session.report_progress(0)
                await anyio.sleep_forever()
            finally:
                _stopped.append(1)
        case "stopped":
            return _text(f"{len(_stopped)}")
        case "fails":
            return types.CallToolResult(content=[types.TextContent(type="text", text="broken")], is_error=True)
    raise MCPError(-32602, "no such tool", {"name": params.name})


async def _ask(ctx: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    if ctx.protocol_version != "2026-07-28":
        answer = await ctx.session.elicit_form("sure?", _FORM, related_request_id=ctx.request_id)
        roots = await ctx.session.list_roots()
    elif params.request_state is None:
        return types.InputRequiredResult(input_requests=_QUESTIONS, request_state="asked")
    else:
        answer, roots = params.input_responses["sure"], params.input_responses["roots"]
    return _text(f"{answer.action} {answer.content} {[str(root.uri) for root in roots.roots]}")


async def _prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", description="Greets")])


async def _prompt(ctx: Any, params: Any) -> types.GetPromptResult:
    said = types.TextContent(type="text", text=f"Hello {params.arguments['name']}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])


async def _serve() -> None:
    server: Server[Any] = Server(
        "by-sdk",
        version="3",
        instructions="Be kind.",
        on_list_tools=_list,
        on_call_tool=_call,
        on_list_prompts=_prompts,
        on_get_prompt=_prompt,
        on_subscriptions_listen=ListenHandler(_changes),
    )
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, options)


if __name__ == "__main__":
    if sys.argv[1:] == ["older"]:
        while os.read(0, 1) != b"\n":
            pass  # the question whether it is of the new era
        os.write(1, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}\n')
    anyio.run(_serve)
