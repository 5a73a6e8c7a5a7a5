"""Common parts of both tools: checking their input, searching off the loop within a time, answering failures.

`execute` never raises for a failure of the model or the file system; such failures are results. A search that is
cancelled, or whose time is up, ends at its next file; its caller does not wait for that.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from amplifier_core.models import ToolResult

from .deadline import Deadline
from .failure import Failure
from .places import Places
from .settings import Settings

_GRACE_SECONDS = 2.0  # for a search that ends in time to report it; one file may take longer


class SearchTool(ABC):
    """A tool over the folders that may be searched."""

    name: ClassVar[str]
    description: ClassVar[str]
    input_schema: ClassVar[dict[str, Any]]

    def __init__(self, places: Places, settings: Settings) -> None:
        self._places = places
        self._settings = settings

    async def execute(self, input: Mapping[str, Any]) -> ToolResult:
        """Search, and return the results or the reason of a failure."""
        deadline = Deadline(self._settings.timeout)
        try:
            arguments = _checked(self.input_schema, input)
            work = asyncio.to_thread(self._work, arguments, self._places.working_dir, deadline)
            output = await asyncio.wait_for(work, deadline.seconds + _GRACE_SECONDS)
        except Failure as failure:
            return failure.result()
        except TimeoutError:
            message = f"The search took more than {deadline.seconds:g} s. Search fewer files, or for something simpler."
            return Failure("timed_out", message).result()
        finally:
            deadline.stop()
        return ToolResult(success=True, output=output)

    @abstractmethod
    def _work(self, arguments: dict[str, Any], base: Path, deadline: Deadline) -> dict[str, Any]:
        """Do it, in a thread; relative paths are relative to `base`."""


_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}


def _checked(schema: dict[str, Any], given: Any) -> dict[str, Any]:
    """Return the arguments the schema knows, defaults filled in.

    Raises:
        Failure: one is missing, unknown or of the wrong kind. An unknown one would have narrowed the search.
    """
    if not isinstance(given, Mapping):
        raise Failure("invalid_input", "The input must be an object with named arguments.")
    known = schema["properties"]
    if unknown := [str(name) for name in given if name not in known]:
        raise Failure("invalid_input", f"There is no argument `{unknown[0]}`; there are {', '.join(known)}.")
    return {name: _argument(name, about, given.get(name), schema["required"]) for name, about in known.items()}


def _argument(name: str, about: dict[str, Any], value: Any, required: list[str]) -> Any:
    if value is None:
        if name in required:
            raise Failure("invalid_input", f"`{name}` is missing.")
        return about.get("default")
    wanted = about["type"]
    if not isinstance(value, _TYPES[wanted]) or (wanted == "integer" and isinstance(value, bool)):
        raise Failure("invalid_input", f"`{name}` must be of type {wanted}, not {type(value).__name__}.")
    if wanted == "integer" and not about["minimum"] <= value <= about["maximum"]:
        raise Failure("invalid_input", f"`{name}` must be from {about['minimum']} to {about['maximum']}, not {value}.")
    if wanted != "string":
        return value
    text = str(value)
    if not text:
        raise Failure("invalid_input", f"`{name}` must not be empty.")
    if len(text) > about.get("maxLength", len(text)):
        raise Failure("invalid_input", f"`{name}` must have at most {about['maxLength']} characters.")
    if "enum" in about and text not in about["enum"]:
        raise Failure("invalid_input", f"`{name}` must be one of {', '.join(about['enum'])}, not {text!a}.")
    if "\0" in text or any("\ud800" <= one <= "\udfff" for one in text):
        raise Failure("invalid_input", f"`{name}` has a character in it that is none: {text!a}.")
    return value
