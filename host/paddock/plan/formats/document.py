"""Read a plan's file into plain tables and lists: YAML or JSON, by its extension.

Plans were also written in TOML. Such a file is read to be converted, and refused everywhere else.

A file is data: no tag constructs an object, a key that stands twice is an error (the second would silently win), and
size, nesting and the expansion of YAML aliases are bounded before anything is built. Every failure is a `PlanError`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from paddock.errors import PlanError, PlanProblem
from paddock.plan.formats.toml_lines import toml_lines
from paddock.plan.problems import YamlError
from paddock.plan.source_map import Positions, SourceNode
from paddock.text import reason_of
from paddock_sources.bounded_toml import TomlError, read_toml
from paddock_sources.similar_names import near

YAML_EXTENSIONS: Final = frozenset({".yaml", ".yml"})
EXTENSIONS: Final = YAML_EXTENSIONS | {".json", ".toml"}  # the last is that of a plan to convert
_MAX_BYTES = 1024 * 1024  # some plans carry the instructions of their agents; beyond this it is another kind of file
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s"{}\[\],:]+')


class KeyTwiceError(Exception):
    """Raised while parsing JSON, for a key that its table already contains."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key `{key:.40}` stands twice in one table")


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file: its bytes, its value, and the line of each part."""

    content: Any
    written: bytes
    positions: Positions


_Parsed = tuple[Any, Callable[[], SourceNode]]
"""The value of a text, and a function that finds its lines when they are needed."""


def read_document(path: Path, written: bytes | None = None, *, converts: bool = False) -> Document:
    """Read the file at `path`, or the text `written` for it; one in TOML only if it `converts` the plan.

    Raises:
        PlanError: it cannot be read, is too large, of another extension, or malformed.
    """
    parsers: dict[str, Callable[[str], _Parsed]] = {
        ".yaml": _parse_yaml,
        ".yml": _parse_yaml,
        ".json": _parse_json,
        ".toml": lambda text: (read_toml(text), partial(toml_lines, text)),
    }
    suffix = path.suffix.lower()
    parse = parsers.get(suffix)
    if parse is None:
        problem = f"`{path.suffix}` is no extension of a plan" if path.suffix else "the file's name has no extension"
        if not path.suffix and written is None and not path.exists():
            problem = "there is no such file"
        problem = "is a folder" if path.is_dir() else problem
        raise _error(path, problem, "plans are .yaml, .yml or .json files")
    if written is None:
        written = _read_bytes(path)
    if suffix == ".toml" and not converts:
        raise _error(path, "is in TOML, and plans are in YAML or JSON", f"`{conversion_of(path)}`")
    if len(written) > _MAX_BYTES:
        raise _error(path, f"larger than {_MAX_BYTES // 1024} KiB")
    try:
        content, find_lines = parse(_decoded(path, written))
        return Document(content, written, Positions(str(path), find_lines))
    except YamlError as error:
        raise _error(path, error.problem, error.hint, error.line) from error
    except TomlError as error:
        raise _error(path, error.problem, line=error.line) from error
    except KeyTwiceError as error:
        raise _error(path, str(error), "keep one of the two") from error
    except RecursionError as error:
        raise _error(path, "nested too deeply") from error
    except ValueError as error:  # malformed JSON, or a number too long to convert
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise _error(path, f"not JSON: {error}", line=line) from error


def conversion_of(path: Path) -> str:
    """Return the command that writes the plan at `path` as YAML."""
    return shlex.join(["paddock", "init", "--from", str(path)])


def _read_bytes(path: Path) -> bytes:
    try:
        # Not blocking: a fifo would otherwise hold the host until another process writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _error(path, "not a regular file")
            return file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _error(path, f"cannot be read: {reason_of(error)}", _instead_of(path)) from error


def _instead_of(path: Path) -> str:
    """Return, as a hint, a plan beside `path` with almost its name, or how to write one; empty if the file exists."""
    if os.path.lexists(path):
        return ""
    with suppress(OSError):
        beside = sorted(one for one in os.listdir(path.parent) if Path(one).suffix.lower() in EXTENSIONS)
        if close := near(path.name, beside):
            return f"did you mean `{path.with_name(close[0])}`?"
    plan = path if path.suffix.lower() in YAML_EXTENSIONS else path.with_suffix(".yaml")
    return f"`{shlex.join(['paddock', 'init', str(plan)])}` writes a plan"


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(path, f"not UTF-8 text, at byte {error.start}") from error


def table_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the table of these keys and values, for a parser of JSON.

    Raises:
        KeyTwiceError: a key stands twice; the second would silently win.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise KeyTwiceError(key)
        found[key] = value
    return found


def _parse_json(text: str) -> _Parsed:
    return json.loads(text, object_pairs_hook=table_of), partial(json_lines, text)


def _parse_yaml(text: str) -> _Parsed:
    # Only here, because loading the parser takes longer than reading most plans, and a call of one tool has no plan.
    from paddock.plan.formats.bounded_yaml import read_yaml, yaml_lines

    content, root = read_yaml(text)
    return content, partial(yaml_lines, root) if root is not None else lambda: SourceNode(1)


def _error(path: Path, problem: str, hint: str = "", line: int | None = None) -> PlanError:
    return PlanError([PlanProblem("", problem, hint, line)], origin=str(path))


def json_lines(text: str) -> SourceNode:
    """Return the parts of a valid JSON text; a value of a table has the line of its key."""
    pieces = _pieces(text)

    def part(piece: str, line: int) -> SourceNode:
        found = SourceNode(line)
        if piece == "{":
            while (key := next(pieces))[0] != "}":
                value, _ = next(pieces)
                found.parts[json.loads(key[0])] = part(value, key[1])
        elif piece == "[":
            while (item := next(pieces))[0] != "]":
                found.parts[len(found.parts)] = part(*item)
        return found

    return part(*next(pieces))


def _pieces(text: str) -> Iterator[tuple[str, int]]:
    """Yield each piece of a JSON text with its line, but for what only separates two."""
    line, last = 1, 0
    for match in _TOKEN.finditer(text):
        line, last = line + text.count("\n", last, match.start()), match.start()
        yield match[0], line
