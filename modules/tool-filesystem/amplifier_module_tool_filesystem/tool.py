"""Common parts of the file tools: checking their input, running off the loop, answering failures, emitting events.

`execute` never raises for a failure of the model or the file system; such failures are results.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from amplifier_core.models import ToolResult

from .failure import Failure
from .workspace import Workspace


@dataclass(frozen=True, slots=True)
class Artifact:
    """The event for a file that was read or written: its name, the file, and how many bytes."""

    event: str
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Done:
    """A tool's outcome: its output, and the event for hooks, if there is one."""

    output: dict[str, Any]
    artifact: Artifact | None = None


class FileTool(ABC):
    """A tool over a file or folder of the workspace."""

    name: ClassVar[str]
    description: ClassVar[str]
    input_schema: ClassVar[dict[str, Any]]

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def execute(self, input: Mapping[str, Any]) -> ToolResult:
        """Carry out the input, and return the outcome or the failure."""
        try:
            arguments = _checked(self.input_schema, input)
            done = await asyncio.to_thread(self._work, arguments, self._workspace.working_dir)
        except Failure as failure:
            return failure.result()
        if (artifact := done.artifact) is not None:
            about = {"tool": self.name, "path": str(artifact.path), "bytes": artifact.size_bytes}
            await self._workspace.emit(artifact.event, about)
        return ToolResult(success=True, output=done.output)

    @abstractmethod
    def _work(self, arguments: dict[str, Any], base: Path) -> Done:
        """Do it, in a thread; relative paths are relative to `base`."""


_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}


def _checked(schema: dict[str, Any], given: Any) -> dict[str, Any]:
    """Return the arguments the schema knows, defaults filled in; unknown ones are left out.

    Raises:
        Failure: one is missing or of the wrong kind.
    """
    if not isinstance(given, Mapping):
        raise Failure("invalid_input", "The input must be an object with named arguments.")
    arguments: dict[str, Any] = {}
    for name, about in schema["properties"].items():
        value = given.get(name)
        if value is None:
            if name in schema["required"]:
                raise Failure("invalid_input", f"`{name}` is missing.")
            value = about.get("default")
        elif not isinstance(value, _TYPES[about["type"]]) or (about["type"] == "integer" and isinstance(value, bool)):
            raise Failure("invalid_input", f"`{name}` must be of type {about['type']}, not {type(value).__name__}.")
        elif about["type"] == "integer" and value < about.get("minimum", value):
            raise Failure("invalid_input", f"`{name}` must be at least {about['minimum']}, not {value}.")
        elif about["type"] == "integer" and value > about.get("maximum", value):
            raise Failure("invalid_input", f"`{name}` must be at most {about['maximum']}, not {value}.")
        elif value == "" and about.get("minLength"):
            raise Failure("invalid_input", f"`{name}` must not be empty.")
        arguments[name] = value
    return arguments
