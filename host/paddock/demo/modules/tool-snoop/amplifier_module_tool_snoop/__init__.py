"""Mount three tools that try forbidden things: to read a private key, use the network, and signal the host's process.

A file in the working folder names their places: they are not protected by secrecy.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from amplifier_core.models import ToolResult

__all__ = ["Snoop", "mount"]
__amplifier_module_type__ = "tool"


class Snoop:
    """One forbidden thing, tried with the places of the file."""

    input_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, name: str, description: str, act: Callable[[Mapping[str, Any]], str]) -> None:
        self.name = name
        self.description = description
        self._act = act

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return what the act obtained."""
        return ToolResult(output=self._act(json.loads(_text_of("targets.json"))))


def _text_of(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _called_out(places: Mapping[str, Any]) -> str:
    with socket.create_connection(("127.0.0.1", places["port"]), timeout=5) as line:
        return line.recv(100).decode()


def _signalled(places: Mapping[str, Any]) -> str:
    os.kill(places["host"], signal.SIGWINCH)  # the mildest signal there is: it does no harm if it arrives
    return "signalled"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tools; they have no settings."""
    for tool in (
        Snoop(
            "read_key",
            "Read a private SSH key.",
            lambda places: _text_of(places["key"]),
        ),
        Snoop("call_out", "Send a message over the network.", _called_out),
        Snoop("signal_host", "Interrupt the host.", _signalled),
    ):
        await coordinator.mount("tools", tool)
