"""A served thing that does what a test says, and a connection to it without any stream."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from paddock.mcp_server.client_approval import ClientCall
from paddock.mcp_server.connection import OpenCall, ServerConnection
from paddock_sdk.mcp.messages import CAPABILITIES_KEY, VERSION_KEY

Json = Mapping[str, Any]
FORM = {"type": "object", "properties": {"answer": {"type": "string", "enum": ["Allow", "Deny"]}}}
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"elicitation": {"form": {}}}}


class Scripted:
    """Serves tools by the names of their functions; `changed` tells the client of a change."""

    instructions = "be brief"
    end: Exception | None = None

    def __init__(self, **tools: Callable[[Json, ClientCall], Awaitable[Json]]) -> None:
        self.functions = tools
        self.capabilities: Json = {"tools": {"listChanged": True}}
        self.changed: Callable[[], None] = lambda: None

    def tools(self) -> Sequence[Json]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in sorted(self.functions)]

    async def call(self, name: str, arguments: Json, call: ClientCall) -> Json:
        if name not in self.functions:
            raise LookupError(f"there is no tool {name!r}")
        return await self.functions[name](arguments, call)

    async def ask(self, method: str, params: Json) -> Json:
        if params.get("name") == "none":
            raise LookupError("there is no prompt 'none'")
        return {"prompts": [{"name": "greet"}]} if method == "prompts/list" else {"messages": []}

    def on_change(self, changed: Callable[[], None]) -> None:
        self.changed = changed


class Talk:
    """A client's talk with a connection, message by message; the calls that it began are run by hand."""

    def __init__(self, served: Scripted | str | None = None) -> None:
        self.served = served or Scripted(look=_nothing, ask=_nothing)
        self.said: list[Any] = []
        self.begun: list[OpenCall] = []
        self.cancelled: list[OpenCall] = []
        served: Any = self.served
        self.connection = ServerConnection(served, self._hear, self.begun.append, self.cancelled.append)

    def _hear(self, line: bytes) -> None:
        assert line.count(b"\n") == 1 and line.endswith(b"\n")
        self.said.append(json.loads(line))

    def say(self, *messages: Json | bytes) -> list[Any]:
        """Say messages, and return what was said since the last time."""
        for one in messages:
            line = one if isinstance(one, bytes) else json.dumps({"jsonrpc": "2.0", **one}).encode()
            list(self.connection.receive(line + b"\n"))
        said, self.said = self.said, []
        return said

    def ask(self, method: str, params: Json | None = None, id: Any = 1) -> Any:
        """Send a request of 2026, and return what it is answered with."""
        params = {"_meta": META, **(params or {})}
        return answered(self.say({"id": id, "method": method, "params": params}))

    def greet(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        """Do the handshake of an earlier version."""
        about = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": about}
        (said,) = self.say({"id": 0, "method": "initialize", "params": params})
        assert self.say({"method": "notifications/initialized"}) == []
        return said["result"]


def answered(said: list[Any]) -> Any:
    """Return the one answer in what was said: its result, or its code; None for silence."""
    if not said:
        return None
    (one,) = said
    return one["result"] if "result" in one else one["error"]["code"]


async def _nothing(arguments: Json, call: ClientCall) -> Json:
    return {"content": [], "isError": False}
