"""The tool that lists a folder's contents."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from .failure import Failure, from_os_error
from .listing import listing
from .pattern import PathPattern
from .tool import Done, FileTool

_MAX_ENTRIES = 1_000  # by default; a model can ask for fewer or more
_MOST_ENTRIES = 10_000  # some 200 000 tokens
MAX_VISITED = 200_000  # entries that a pattern is tried on: a few seconds


class ListDirectory(FileTool):
    """`list_directory`: the entries of a folder, or those below it that fit a pattern."""

    name = "list_directory"
    description = (
        "List a folder: files with their size, folders, links; sorted by name. With pattern, list what fits it below "
        "the folder: `*.md` in the folder itself, `**/*.py` at any depth. Links are not followed."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "minLength": 1,
                "default": ".",
                "description": "The folder; a relative path is relative to the working directory.",
            },
            "pattern": {
                "type": "string",
                "minLength": 1,
                "default": "*",
                "description": "What to list, relative to the folder: `*` and `?` within a name, `**` for any folders.",
            },
            "include_hidden": {
                "type": "boolean",
                "default": False,
                "description": "List names that begin with a dot, too.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_ENTRIES,
                "default": _MAX_ENTRIES,
                "description": "How many entries to list at most.",
            },
        },
        "required": [],
    }

    def _work(self, arguments: dict[str, Any], base: Path) -> Done:
        folder = self._workspace.locate(arguments["path"], "read", base)
        pattern = PathPattern(arguments["pattern"], folder)
        try:
            found = listing(
                folder,
                pattern,
                hidden=arguments["include_hidden"],
                limit=arguments["limit"],
                max_visited=MAX_VISITED,
            )
        except NotADirectoryError as error:
            raise Failure("not_a_folder", f"`{folder}` is not a folder; read it with read_file.") from error
        except OSError as error:
            raise from_os_error(error, f"list `{folder}`") from error
        output: dict[str, Any] = {"path": str(folder), "entries": found.entries}
        if found.cut_by == "limit":
            output["truncated"] = f"there are more than {arguments['limit']} entries; narrow the pattern or raise limit"
        elif found.cut_by == "visited":
            output["truncated"] = f"stopped after {MAX_VISITED} entries; list a folder further down"
        return Done(output)
