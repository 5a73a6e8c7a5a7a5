"""Read a plan's file into plain tables and lists: YAML, JSON or TOML, by its extension.

A file is data: no tag constructs an object, a key that stands twice is an error (the second would silently win), and
size, nesting and the reach of YAML aliases are bounded before anything is built. Every failure is a `PlanError`.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from paddock.errors import PlanError, PlanProblem

from .json_lines import json_lines
from .plain_data import MAX_VALUES
from .positions import Part, Positions
from .toml_lines import toml_lines

_TOML_LINE = re.compile(r"\(at line ([0-9]+), column [0-9]+\)$")
_MAX_BYTES = 1024 * 1024  # some plans carry the instructions of their agents; beyond this it is another kind of file


class _RefusedError(Exception):
    """Raised while parsing, for what the format allows and a plan does not."""

    def __init__(self, problem: str, hint: str = "", line: int | None = None) -> None:
        self.problem = problem
        self.hint = hint
        self.line = line
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Document:
    """What a file holds: its bytes, what they say, and on which line each part of that stands."""

    content: Any
    written: bytes
    positions: Positions


_Parsed = tuple[Any, Callable[[], Part]]
"""What a text says, and what finds its lines when they are wanted."""


def read_document(path: Path) -> Document:
    """Read the file at `path`.

    Raises:
        PlanError: it cannot be read, is too large, of an unknown extension, or malformed.
    """
    parsers: dict[str, Callable[[str], _Parsed]] = {
        ".yaml": _parse_yaml,
        ".yml": _parse_yaml,
        ".json": _parse_json,
        ".toml": lambda text: (tomllib.loads(text), partial(toml_lines, text)),
    }
    parse = parsers.get(path.suffix.lower())
    if parse is None:
        problem = f"`{path.suffix}` is no extension of a plan" if path.suffix else "the file's name has no extension"
        raise _error(path, problem, "plans are .yaml, .yml, .json or .toml files")
    written = _read_bytes(path)
    try:
        content, find_lines = parse(_decoded(path, written))
        return Document(content, written, Positions(str(path), find_lines))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        raise _error(path, f"not YAML: {_yaml_text(error)}", line=line) from error
    except RecursionError as error:
        raise _error(path, "nested too deeply") from error
    except _RefusedError as error:
        raise _error(path, error.problem, error.hint, error.line) from error
    except ValueError as error:  # malformed JSON or TOML, an impossible date, a number too long to convert
        raise _error(path, f"not {path.suffix[1:].upper()}: {error}", line=line_of(error)) from error


def line_of(error: ValueError) -> int | None:
    """Return the line that an error of a JSON or TOML parser is about, if it says so."""
    if isinstance(error, json.JSONDecodeError):
        return error.lineno
    at = _TOML_LINE.search(str(error)) if isinstance(error, tomllib.TOMLDecodeError) else None
    return int(at[1]) if at else None


def _read_bytes(path: Path) -> bytes:
    try:
        # Not blocking: a fifo would otherwise hold the host until somebody writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _error(path, "not a regular file")
            content = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise _error(path, f"cannot be read: {reason}") from error
    if len(content) > _MAX_BYTES:
        raise _error(path, f"larger than {_MAX_BYTES // 1024} KiB")
    return content


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(path, f"not UTF-8 text, at byte {error.start}") from error


def _parse_json(text: str) -> _Parsed:
    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise _RefusedError(f"key `{key}` stands twice in one table", "keep one of the two")
            found[key] = value
        return found

    return json.loads(text, object_pairs_hook=table), partial(json_lines, text)


def _parse_yaml(text: str) -> _Parsed:
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, lambda: Part(1)
        _check_nodes(root)
        return loader.construct_document(root), partial(_yaml_lines, root)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        # How the constructors answer a value that does not fit an explicit tag, as in `!!int ""` or `!!bool maybe`.
        raise _RefusedError("a value does not fit the tag that it is written with", "leave the tag out") from error
    finally:
        loader.dispose()


def _yaml_lines(root: yaml.Node) -> Part:
    """Return the parts of a tree of nodes; what several aliases stand for is one part, on the line of its anchor."""
    found: dict[int, Part] = {}

    def part_of(node: yaml.Node) -> Part:
        known = found.get(id(node))
        if known is not None:
            return known
        part = found[id(node)] = Part(node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = part_of(value)
                # Its own line, not the value's: that may start on a later one, or be an alias of something far away.
                part.parts[str(key.value)] = Part(key.start_mark.line + 1, inner.parts)
        elif isinstance(node, yaml.SequenceNode):
            part.parts.update(enumerate(map(part_of, node.value)))
        return part

    return part_of(root)


def _check_nodes(root: yaml.Node) -> None:
    """Refuse duplicate keys, aliases of what contains them, and too many values once every alias is followed."""
    sizes: dict[int, int | None] = {}  # by identity of node; None: being measured, so meeting it again is a loop

    def size_of(node: yaml.Node) -> int:
        known = sizes.get(id(node), 0)
        if known is None:
            line = node.start_mark.line + 1
            raise _RefusedError(f"what starts on line {line} contains an alias of itself", line=line)
        if known:
            return known
        sizes[id(node)] = None
        size = 1
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            size += sum(size_of(key) + size_of(value) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            size += sum(size_of(item) for item in node.value)
        if size > MAX_VALUES:
            raise _RefusedError(f"more than {MAX_VALUES} values, counting what its aliases stand for")
        sizes[id(node)] = size
        return size

    size_of(root)


def _check_keys(node: yaml.MappingNode) -> None:
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if (key.tag, key.value) in seen:
            line = key.start_mark.line + 1
            problem = f"key `{key.value}` on line {line} stands twice in its table"
            raise _RefusedError(problem, "keep one of the two", line)
        seen.add((key.tag, key.value))


def _yaml_text(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    if mark is None or not problem:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _error(path: Path, problem: str, hint: str = "", line: int | None = None) -> PlanError:
    return PlanError([PlanProblem("", problem, hint, line)], origin=str(path))
