"""Read a plan's file into plain tables and lists: YAML, JSON or TOML, by its extension.

A file is data: no tag constructs an object, a key that stands twice is an error (the second would silently win), and
size, nesting and the reach of YAML aliases are bounded before anything is built. Every failure is a `PlanError`.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from paddock.errors import PlanError, PlanProblem

from .plain_data import MAX_VALUES

_MAX_BYTES = 1024 * 1024  # some plans carry the instructions of their agents; beyond this it is another kind of file


class _RefusedError(Exception):
    """Raised while parsing, for what the format allows and a plan does not."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(problem)


def read_document(path: Path) -> Any:
    """Return the content of the file at `path`.

    Raises:
        PlanError: it cannot be read, is too large, of an unknown extension, or malformed.
    """
    parsers: dict[str, Callable[[str], Any]] = {
        ".yaml": _parse_yaml,
        ".yml": _parse_yaml,
        ".json": _parse_json,
        ".toml": tomllib.loads,
    }
    parse = parsers.get(path.suffix.lower())
    if parse is None:
        problem = f"`{path.suffix}` is no extension of a plan" if path.suffix else "the file's name has no extension"
        raise _error(path, problem, "plans are .yaml, .yml, .json or .toml files")
    text = _read_text(path)
    try:
        return parse(text)
    except yaml.YAMLError as error:
        raise _error(path, f"not YAML: {_yaml_text(error)}") from error
    except RecursionError as error:
        raise _error(path, "nested too deeply") from error
    except _RefusedError as error:
        raise _error(path, error.problem, error.hint) from error
    except ValueError as error:  # malformed JSON or TOML, an impossible date, a number too long to convert
        raise _error(path, f"not {path.suffix[1:].upper()}: {error}") from error


def _read_text(path: Path) -> str:
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
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(path, f"not UTF-8 text, at byte {error.start}") from error


def _parse_json(text: str) -> Any:
    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise _RefusedError(f"key `{key}` stands twice in one table", "keep one of the two")
            found[key] = value
        return found

    return json.loads(text, object_pairs_hook=table)


def _parse_yaml(text: str) -> Any:
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check_nodes(root)
        return loader.construct_document(root)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        # How the constructors answer a value that does not fit an explicit tag, as in `!!int ""` or `!!bool maybe`.
        raise _RefusedError("a value does not fit the tag that it is written with", "leave the tag out") from error
    finally:
        loader.dispose()


def _check_nodes(root: yaml.Node) -> None:
    """Refuse duplicate keys, aliases of what contains them, and too many values once every alias is followed."""
    sizes: dict[int, int | None] = {}  # by identity of node; None: being measured, so meeting it again is a loop

    def size_of(node: yaml.Node) -> int:
        known = sizes.get(id(node), 0)
        if known is None:
            raise _RefusedError(f"what starts on line {node.start_mark.line + 1} contains an alias of itself")
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
            raise _RefusedError(f"key `{key.value}` on line {line} stands twice in its table", "keep one of the two")
        seen.add((key.tag, key.value))


def _yaml_text(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    if mark is None or not problem:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def _error(path: Path, problem: str, hint: str = "") -> PlanError:
    return PlanError([PlanProblem("", problem, hint)], origin=str(path))
