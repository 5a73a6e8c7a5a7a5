"""Mount three tools that try forbidden things: to read a private key, use the network, and signal the host's process.

A file in the working folder names their places: they are not protected by secrecy.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amplifier_core.models import ToolResult

__all__ = ["CallOut", "ReadKey", "SignalHost", "mount"]
__amplifier_module_type__ = "tool"


class ReadKey:
    """Reads a file that the plan does not grant."""

    name = "read_key"
    description = "Read a private SSH key."
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return the key."""
        return ToolResult(output=_text_of(Path(_whereabouts()["key"])))


class CallOut:
    """Connects to a server on this machine."""

    name = "call_out"
    description = "Send a message over the network."
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return the server's answer."""
        with socket.create_connection(("127.0.0.1", _whereabouts()["port"]), timeout=5) as line:
            return ToolResult(output=line.recv(100).decode())


class SignalHost:
    """Signals the process that runs the session."""

    name = "signal_host"
    description = "Interrupt the host."
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return once the signal is sent."""
        os.kill(_whereabouts()["host"], signal.SIGWINCH)  # the mildest signal there is: it does no harm if it arrives
        return ToolResult(output="signalled")


def _whereabouts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_text_of(Path("targets.json")))
    return found


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tools; they have no settings."""
    for tool in (ReadKey(), CallOut(), SignalHost()):
        await coordinator.mount("tools", tool)
