"""Mount `chatter`: a tool that writes megabytes to stdout and stderr, from Python and from C."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

__all__ = ["Chatter", "mount"]
__amplifier_module_type__ = "tool"

_LINE = "the quick brown fox jumps over the lazy dog, and would like everyone to know about it\n"


class Chatter:
    """Prints four times `bytes_each`: through `sys.stdout`, `sys.stderr`, `os.write` and the C library."""

    name = "chatter"
    description = "Print a great deal to stdout and stderr."
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, bytes_each: int) -> None:
        self._text = (_LINE * (bytes_each // len(_LINE) + 1))[:bytes_each]

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return the number of bytes that were printed."""
        data = self._text.encode()
        for stream in (sys.stdout, sys.stderr):
            stream.write(self._text)
            stream.flush()
        _write_all(os.write, 1, data)
        _write_all(_c_write, 2, data)
        return ToolResult(output=4 * len(data))


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool; `bytes_each` is the one setting, 2 MiB by default."""
    await coordinator.mount("tools", Chatter(int((config or {}).get("bytes_each", 2 * 1024 * 1024))))


def _c_write(descriptor: int, data: bytes) -> int:
    return int(ctypes.CDLL(None).write(descriptor, data, len(data)))


def _write_all(write: Any, descriptor: int, data: bytes) -> None:
    while data:
        data = data[write(descriptor, data) :]
