"""Mount the tools of an MCP server, which runs as a child of this process and ends with it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .server import Server
from .settings import Settings

__all__ = ["Server", "Settings", "mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Start the server, mount its tools, and return the function that ends it.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
        McpError: the server does not start; the message has its last lines.
    """
    server = Server(coordinator, Settings.of(config or {}), os.environ)
    await server.start()
    return server.close
