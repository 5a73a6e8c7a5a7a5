"""A tool of the server, as it is mounted."""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from amplifier_core.models import ToolResult

from paddock_sdk.mcp.blocks import result_fields
from paddock_sdk.mcp.client import Client, McpError, RefusedError

_READ_ONLY = re.compile("EROFS|Read-only file system")  # the words of node, and those of Python and git

PROGRESS = "tool:progress"
"""The event of a call that tells how far it is: `tool_name`, `progress`, `total` (None if unknown), `message`."""


class McpTool:
    """One tool. It shows what its definition has, and `execute`; `name` is the one that it is mounted as."""

    def __init__(
        self, definition: Mapping[str, Any], name: str, client: Callable[[], Awaitable[Client]], hooks: Any
    ) -> None:
        self.name = name
        self.title = definition.get("title")
        self.description = definition.get("description", "")
        self.input_schema = definition["inputSchema"]
        self.output_schema = definition.get("outputSchema")
        self.annotations = definition.get("annotations")
        self._own_name = definition["name"]
        self._client = client
        self._hooks = hooks

    async def execute(self, input: Mapping[str, Any]) -> ToolResult:
        """Call the tool; what the server reports as an error is a failed result with its text."""
        context = contextvars.copy_context()  # by it the host knows which call an event belongs to
        telling: set[asyncio.Task[Any]] = set()

        def tell(progress: float, total: float | None, message: str) -> None:
            if telling:  # what comes while a report is on its way is dropped: a server may send any number
                return
            data = {"tool_name": self.name, "progress": progress, "total": total, "message": message}
            task = asyncio.get_running_loop().create_task(self._hooks.emit(PROGRESS, data), context=context)
            telling.add(task)
            task.add_done_callback(telling.discard)

        try:
            client = await self._client()
            fields = result_fields(await client.call_tool(self._own_name, dict(input), tell))
            if not fields["success"] and _READ_ONLY.search(fields["error"]["message"]):
                fields["error"]["access"] = "write"  # so that the host explains what was not to be written
            return ToolResult(**fields)
        except RefusedError as error:
            return _failed("refused", f"The MCP server refused the call: {error} (code {error.code}).")
        except McpError as error:
            return _failed("server", str(error))
        finally:
            for task in [*telling]:
                task.cancel()


def _failed(kind: str, message: str) -> ToolResult:
    return ToolResult(success=False, error={"type": kind, "message": message})
