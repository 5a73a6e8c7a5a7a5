"""The tool that writes a whole text file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from amplifier_core import events

from .tool import Artifact, Done, FileTool


class WriteFile(FileTool):
    """`write_file`: make a file, or replace all of one."""

    name = "write_file"
    description = (
        "Write a UTF-8 text file, replacing it if it exists and making missing folders. "
        "To change part of a file, use edit_file."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "file_path": {
                "type": "string",
                "minLength": 1,
                "description": "The file; a relative path is relative to the working directory.",
            },
            "content": {"type": "string", "description": "The whole text of the file."},
        },
        "required": ["file_path", "content"],
    }

    def _work(self, arguments: dict[str, Any], base: Path) -> Done:
        path = self._workspace.locate(arguments["file_path"], "write", base)
        size = self._workspace.write(path, arguments["content"])
        return Done({"file_path": str(path), "bytes": size}, Artifact(events.ARTIFACT_WRITE, path, size))
