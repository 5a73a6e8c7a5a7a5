"""The tool that finds files, and lines in them, by their content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from .content import Content, text_of
from .deadline import Deadline
from .dialect import LinePattern, compile_pattern
from .file_types import FILE_TYPES
from .path_pattern import PathPatterns
from .ripgrep import Ripgrep
from .tool import SearchTool
from .walk import Admission, Names, Wanted, files_below, is_ignored

_MAX_OUTPUT_CHARS = 200_000  # about 50 000 tokens
_MOST_CONTEXT = 20
_MOST_RESULTS = 5_000

Lines = list[tuple[int, int, int]]


class Grep(SearchTool):
    """`grep`: lines that match a regular expression, or the files they are in."""

    name = "grep"
    description = (
        "Search the content of files by a regular expression (RE2's: no look-around, no backreferences). "
        "Hidden files, binary files and what .gitignore names are skipped. output_mode: `files_with_matches`, "
        "`content` (lines as `path:number:text`, context lines as `path-number-text`), or `count`."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string",
                "maxLength": 1000,
                "description": "The regular expression, tried on each line.",
            },
            "path": {
                "type": "string",
                "default": ".",
                "description": "The file or folder to search; a relative path is relative to the working directory.",
            },
            "glob": {
                "type": "string",
                "maxLength": 500,
                "description": "Search only files like `*.py`, `*.{ts,tsx}`, or `src/**/*.py` from that folder.",
            },
            "type": {"type": "string", "enum": sorted(FILE_TYPES), "description": "Search only files of this kind."},
            "output_mode": {
                "type": "string",
                "enum": ["files_with_matches", "content", "count"],
                "default": "files_with_matches",
                "description": "What to return: names of files, lines, or the number of lines for each file.",
            },
            "case_insensitive": {"type": "boolean", "default": False, "description": "Take a and A for the same."},
            "literal": {"type": "boolean", "default": False, "description": "Search for the pattern as plain text."},
            "multiline": {
                "type": "boolean",
                "default": False,
                "description": "Let a match span lines: `.` and \\n then match line ends.",
            },
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": _MOST_CONTEXT,
                "default": 0,
                "description": "Lines to show before and after each one, with output_mode `content`.",
            },
            "include_hidden": {"type": "boolean", "default": False, "description": "Search hidden files, too."},
            "include_ignored": {
                "type": "boolean",
                "default": False,
                "description": "Search what .gitignore names, too.",
            },
            "head_limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_RESULTS,
                "default": 200,
                "description": "How many matching lines, or files, to return at most.",
            },
        },
        "required": ["pattern"],
    }

    def _work(self, arguments: dict[str, Any], base: Path, deadline: Deadline) -> dict[str, Any]:
        pattern = compile_pattern(
            arguments["pattern"],
            literal=arguments["literal"],
            case_insensitive=arguments["case_insensitive"],
            multiline=arguments["multiline"],
        )
        place = self._places.locate(arguments["path"], base)
        chosen = _Chosen.of(arguments, place.path)
        search = _Search(pattern, arguments["multiline"], self._settings.max_file_bytes)
        report = _REPORTS[arguments["output_mode"]](arguments)
        for names in self._candidates(place.path, pattern, chosen, arguments, deadline):
            found = search.lines_of(place.file(names))
            if found is not None and not report.add(place.shown(names), *found):
                break
            if not deadline.left:
                break
        output: dict[str, Any] = {"output_mode": arguments["output_mode"], **report.output()}
        if not deadline.left:
            output["truncated"] = f"stopped after {deadline.seconds:g} s; search fewer files"
        elif report.is_full:
            output["truncated"] = "there is more; narrow the search or raise head_limit"
        if search.binary:
            output["binary_files_skipped"] = search.binary
        if search.unread:
            output["unreadable_or_large_files_skipped"] = search.unread
        return output

    def _candidates(
        self, place: Path, pattern: LinePattern, chosen: _Chosen, arguments: dict[str, Any], deadline: Deadline
    ) -> Iterator[Names]:
        """Yield the files to look into, by their names from the place, in order."""
        if not place.is_dir():
            yield ()
            return
        wanted = Wanted(arguments["include_hidden"], arguments["include_ignored"], chosen.enters)
        named = self._named_by_ripgrep(place, pattern, chosen, arguments, deadline)
        if named is None:
            below = files_below(place, wanted, deadline)
        else:
            admission = Admission(place, wanted)
            below = (names for names in sorted(named) if admission.admits(names))
        yield from filter(chosen.fits, below)

    def _named_by_ripgrep(
        self, place: Path, pattern: LinePattern, chosen: _Chosen, arguments: dict[str, Any], deadline: Deadline
    ) -> list[Names] | None:
        ripgrep = Ripgrep.find() if self._settings.ripgrep else None
        if ripgrep is None:
            return None
        flags = {
            "--ignore-case": arguments["case_insensitive"],
            "--multiline": arguments["multiline"],
            "--multiline-dotall": arguments["multiline"],
            "--hidden": arguments["include_hidden"],
            "--no-ignore": arguments["include_ignored"],
            "--no-ignore-parent": is_ignored(place),
        }
        options = [flag for flag, is_set in flags.items() if is_set]
        options += chosen.for_ripgrep
        return ripgrep.files(place, options, pattern.for_ripgrep, deadline)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The files to search, by their names; ripgrep can judge a part of that as well."""

    fits: Callable[[Names], bool]
    enters: Callable[[Names], bool]
    for_ripgrep: tuple[str, ...]

    @classmethod
    def of(cls, arguments: dict[str, Any], place: Path) -> _Chosen:
        kind, glob = arguments["type"], arguments["glob"]
        kinds = () if kind is None else FILE_TYPES[kind]
        patterns = [PathPatterns(f"{{{','.join(kinds)}}}", "type", place, anywhere=True)] if kinds else []
        names = kinds
        if glob is not None:
            patterns.append(PathPatterns(glob, "glob", place, anywhere=True))
            if not kinds and "/" not in glob and glob.replace("*", "a").replace(".", "a").isalnum():
                names = (glob,)
        options = [*(f"--type-add=wanted:{one}" for one in names), *(["--type=wanted"] if names else [])]
        return cls(
            lambda path: all(one.fits(path) for one in patterns),
            lambda path: all(one.leads_below(path) for one in patterns),
            tuple(options),
        )


@dataclass(slots=True)
class _Search:
    """Looks into files, and counts those that are passed over: binary ones with a match, and unreadable ones."""

    pattern: LinePattern
    multiline: bool
    max_bytes: int
    binary: int = 0
    unread: int = 0

    def lines_of(self, path: str) -> tuple[bytes, Lines] | None:
        """Return the matching lines of a file; None if there are none."""
        content = Content.of(path, self.max_bytes)
        if content is None:
            self.unread += 1
            return None
        matching = content.matching_lines(self.pattern.compiled, multiline=self.multiline)
        if content.is_binary:
            self.binary += next(matching, None) is not None
            return None
        lines = list(matching)
        return (content.data, lines) if lines else None


@dataclass(slots=True)
class _Report(ABC):
    """The results, up to a number of results and of characters."""

    arguments: dict[str, Any]
    is_full: bool = False
    results: int = 0
    characters: int = 0
    found: list[Any] = field(default_factory=list)

    @abstractmethod
    def add(self, name: str, data: bytes, lines: Lines) -> bool:
        """Add the matches in a file; False once there is no more room."""

    @abstractmethod
    def output(self) -> dict[str, Any]:
        """Return the results."""

    def _has_room(self, characters: int) -> bool:
        self.is_full = self.is_full or (
            self.results >= self.arguments["head_limit"] or self.characters + characters > _MAX_OUTPUT_CHARS
        )
        if self.is_full:
            return False
        self.results += 1
        self.characters += characters
        return True


class _Files(_Report):
    def add(self, name: str, data: bytes, lines: Lines) -> bool:
        if self._has_room(len(name)):
            self.found.append({"file": name, "count": len(lines)})
        return not self.is_full

    def output(self) -> dict[str, Any]:
        if self.arguments["output_mode"] == "count":
            return {"counts": self.found}
        return {"files": [one["file"] for one in self.found]}


class _Content(_Report):
    def add(self, name: str, data: bytes, lines: Lines) -> bool:
        context = self.arguments["context"]
        around = _Context(data) if context else None
        shown_to = 0  # the number of the last line of this file that is shown
        for index, (number, start, end) in enumerate(lines):
            following = lines[index + 1][0] if index + 1 < len(lines) else None
            group = [f"{name}:{number}:{text_of(data[start:end])}"]
            first = number
            if around is not None:
                before = around.before(start, number, min(context, number - 1 - shown_to))
                room = context if following is None else min(context, following - 1 - number)
                after = around.after(end, number, room)
                first = number - len(before)
                group = [
                    *(f"{name}-{at}-{text_of(line)}" for at, line in before),
                    *group,
                    *(f"{name}-{at}-{text_of(line)}" for at, line in after),
                ]
                if self.found and first != shown_to + 1:
                    group.insert(0, "--")
                shown_to = number + len(after)
            if not self._has_room(sum(map(len, group)) + len(group)):
                return False
            self.found += group
        return True

    def output(self) -> dict[str, Any]:
        return {"content": "\n".join(self.found), "matching_lines": self.results}


@dataclass(frozen=True, slots=True)
class _Context:
    """The lines around one."""

    data: bytes

    def before(self, start: int, number: int, count: int) -> list[tuple[int, bytes]]:
        """Return so many lines before the one that starts there."""
        found: list[tuple[int, bytes]] = []
        while count > len(found) and start > 0:
            begin = self.data.rfind(b"\n", 0, start - 1) + 1
            found.append((number - len(found) - 1, self.data[begin : start - 1]))
            start = begin
        return found[::-1]

    def after(self, end: int, number: int, count: int) -> list[tuple[int, bytes]]:
        """Return so many lines after the one that ends there."""
        found: list[tuple[int, bytes]] = []
        while count > len(found) and end + 1 < len(self.data):
            stop = self.data.find(b"\n", end + 1)
            stop = len(self.data) if stop < 0 else stop
            found.append((number + len(found) + 1, self.data[end + 1 : stop]))
            end = stop
        return found


_REPORTS: dict[str, type[_Report]] = {"files_with_matches": _Files, "count": _Files, "content": _Content}
