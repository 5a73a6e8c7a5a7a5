"""The tool that reads a text file, or part of a large one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from amplifier_core import events

from .failure import Failure
from .tool import Artifact, Done, FileTool

_MAX_LINES = 2_000  # by default; a model can ask for more
_MAX_LINE_CHARS = 2_000  # minified files have lines without end
_MAX_OUTPUT_CHARS = 400_000  # about 100 000 tokens: more than most models can take in at once


class ReadFile(FileTool):
    """`read_file`: the lines of a file, each with its number."""

    name = "read_file"
    description = (
        "Read a UTF-8 text file. Returns its lines, each preceded by its number and a tab. "
        "Use offset and limit to read a large file in parts; `next_offset` says where to go on."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "file_path": {
                "type": "string",
                "minLength": 1,
                "description": "The file; a relative path is relative to the working directory.",
            },
            "offset": {"type": "integer", "minimum": 1, "default": 1, "description": "The first line to read."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "default": _MAX_LINES,
                "description": "How many lines to read at most.",
            },
        },
        "required": ["file_path"],
    }

    def _work(self, arguments: dict[str, Any], base: Path) -> Done:
        path = self._workspace.locate(arguments["file_path"], "read", base)
        text, _ = self._workspace.read(path)
        lines = text.removeprefix("\ufeff").split("\n")
        if lines[-1] == "":
            lines.pop()  # the last newline ends a line, it does not begin one
        first = arguments["offset"]
        if first > max(len(lines), 1):
            raise Failure("invalid_input", f"`{path}` has {len(lines)} lines; line {first} is past its end.")
        shown = _numbered(lines, first, arguments["limit"])
        output: dict[str, Any] = {
            "file_path": str(path),
            "content": "\n".join(shown),
            "total_lines": len(lines),
            "lines_returned": len(shown),
        }
        if (following := first + len(shown)) <= len(lines):
            output["next_offset"] = following
        return Done(output, Artifact(events.ARTIFACT_READ, path, len(text.encode("utf-8"))))


def _numbered(lines: list[str], first: int, limit: int) -> list[str]:
    shown: list[str] = []
    room = _MAX_OUTPUT_CHARS
    for number, line in enumerate(lines[first - 1 : first - 1 + limit], start=first):
        text = line.removesuffix("\r")
        if len(text) > _MAX_LINE_CHARS:
            text = f"{text[:_MAX_LINE_CHARS]}… [{len(text) - _MAX_LINE_CHARS} more characters]"
        entry = f"{number:6}\t{text}"
        room -= len(entry) + 1
        if room < 0:
            break
        shown.append(entry)
    return shown
