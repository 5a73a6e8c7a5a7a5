"""The tool that finds files by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from .deadline import Deadline
from .failure import Failure
from .path_pattern import PathPatterns
from .tool import SearchTool
from .walk import Wanted, files_below

_MOST_RESULTS = 5_000


class Glob(SearchTool):
    """`glob`: the files below a folder whose path fits a pattern."""

    name = "glob"
    description = (
        "Find files by name, sorted by path: `*.md` in the folder itself, `**/*.py` at any depth, `src/**/*.{ts,tsx}`. "
        "Hidden files and what .gitignore names are left out, and links are not followed."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "maxLength": 500, "description": "What paths from the folder look like."},
            "path": {
                "type": "string",
                "default": ".",
                "description": "The folder; a relative path is relative to the working directory.",
            },
            "include_hidden": {"type": "boolean", "default": False, "description": "Return hidden files, too."},
            "include_ignored": {
                "type": "boolean",
                "default": False,
                "description": "Return what .gitignore names, too.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_RESULTS,
                "default": 500,
                "description": "How many files to return at most.",
            },
        },
        "required": ["pattern"],
    }

    def _work(self, arguments: dict[str, Any], base: Path, deadline: Deadline) -> dict[str, Any]:
        place = self._places.locate(arguments["path"], base)
        patterns = PathPatterns(arguments["pattern"], "pattern", place.path)
        if not place.path.is_dir():
            raise Failure("not_a_folder", f"`{arguments['path']}` is not a folder.")
        wanted = Wanted(arguments["include_hidden"], arguments["include_ignored"], patterns.leads_below)
        files: list[str] = []
        output: dict[str, Any] = {"files": files}
        for names in files_below(place.path, wanted, deadline):
            if not patterns.fits(names):
                continue
            if len(files) == arguments["limit"]:
                output["truncated"] = f"there are more than {len(files)} files; narrow the pattern or raise limit"
                break
            files.append(place.shown(names))
        if not deadline.left:
            output["truncated"] = f"stopped after {deadline.seconds:g} s; look in a folder further down"
        return output
