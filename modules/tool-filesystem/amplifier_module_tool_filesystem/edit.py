"""The tool that changes part of a text file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from amplifier_core import events

from .failure import Failure
from .tool import Artifact, Done, FileTool

_PLACES_NAMED = 10  # of an ambiguous text; enough to distinguish them


class EditFile(FileTool):
    """`edit_file`: replace one text in a file by another."""

    name = "edit_file"
    description = (
        "Replace text in a UTF-8 file. old_string must match exactly, white space included, and occur once; "
        "add surrounding lines to make it unique, or set replace_all. Line numbers from read_file are not part of it."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "file_path": {
                "type": "string",
                "minLength": 1,
                "description": "The file; a relative path is relative to the working directory.",
            },
            "old_string": {"type": "string", "minLength": 1, "description": "The text to replace."},
            "new_string": {"type": "string", "description": "The text to put in its place."},
            "replace_all": {
                "type": "boolean",
                "default": False,
                "description": "Replace every occurrence instead of requiring exactly one.",
            },
        },
        "required": ["file_path", "old_string", "new_string"],
    }

    def _work(self, arguments: dict[str, Any], base: Path) -> Done:
        old, new = arguments["old_string"], arguments["new_string"]
        if old == new:
            raise Failure("invalid_input", "`old_string` and `new_string` are the same: there is nothing to change.")
        path = self._workspace.locate(arguments["file_path"], "write", base)  # first: who may write may read as well
        self._workspace.locate(arguments["file_path"], "read", base)
        with self._workspace.writing:
            text, version = self._workspace.read(path)
            if "\r\n" in text:  # line ends of Windows, which read_file does not show
                # A text that occurs as given is used so; in a file with line ends of both kinds, so is its replacement.
                if old not in text and "\r" not in old:
                    old, new = old.replace("\n", "\r\n"), _windows(new)
                elif "\n" not in text.replace("\r\n", ""):
                    new = _windows(new)
            places = _places(text, old)
            if not places:
                raise Failure(
                    "no_match", f"`old_string` does not occur in `{path}`; read the file and copy it exactly."
                )
            if len(places) > 1 and not arguments["replace_all"]:
                raise Failure("ambiguous", _ambiguous(text, places, path))
            replacements = text.count(old)
            size = self._workspace.write(path, text.replace(old, new), version)
        output = {"file_path": str(path), "replacements": replacements, "bytes": size}
        return Done(output, Artifact(events.ARTIFACT_WRITE, path, size))


def _windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _places(text: str, wanted: str) -> list[int]:
    """Return the first places of the text, overlapping ones included: either of those could be meant."""
    places: list[int] = []
    at = text.find(wanted)
    while at >= 0 and len(places) <= _PLACES_NAMED:
        places.append(at)
        at = text.find(wanted, at + 1)
    return places


def _ambiguous(text: str, places: list[int], path: Path) -> str:
    named = places[:_PLACES_NAMED]
    lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in named)
    times = f"{len(places)} times" if len(places) == len(named) else f"more than {len(named)} times"
    return (
        f"`old_string` occurs {times} in `{path}` (lines {lines}); "
        "add surrounding text to make it unique, or set replace_all."
    )
