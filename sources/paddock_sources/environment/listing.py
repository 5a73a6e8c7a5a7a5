"""List the files that an index has of some projects, each with its hash and address.

A sandboxed program (`file_hashes.py`) parses the answers of the index. This file checks the form of that program's
output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from paddock_sources.commands.command_runner import CommandResult
from paddock_sources.environment.errors import InstallerError
from paddock_sources.environment.task import RESOLVE_SECONDS, Task

FILE_HASHES: Final = Path(__file__).resolve().with_name("file_hashes.py")

_HASH: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of an index; `digest` is hexadecimal, empty where the index gives none."""

    name: str
    digest: str
    url: str


def files_of(names: Iterable[str], task: Task) -> Mapping[str, tuple[IndexFile, ...]]:
    """Return all files that the index has of some projects.

    Raises:
        InstallerError: the index does not answer, or its answer is not understood.
    """
    result = run_program(FILE_HASHES, {**task.index.as_order(), "names": list(names)}, task, timeout=RESOLVE_SECONDS)
    if result.code != 0:
        raise task.failure(result)
    try:
        return _checked(json.loads(result.stdout))
    except (ValueError, RecursionError) as error:
        raise InstallerError(task.attempted, "the index's list of files is not understood") from error


def run_program(
    program: Path,
    order: Mapping[str, object],
    task: Task,
    *,
    timeout: float,
    total: int = 0,
    counts: Callable[[str], bool] = lambda line: False,
) -> CommandResult:
    """Run one of our programs, without the interpreter's own packages, with `order` as its input."""
    argv = (str(task.python.path), "-I", "-S", "-B", str(program))
    return task.run(argv, timeout=timeout, stdin=json.dumps(order).encode(), total=total, counts=counts)


def _checked(listing: Any) -> Mapping[str, tuple[IndexFile, ...]]:
    if not isinstance(listing, dict):
        raise ValueError("not an object")
    for files in listing.values():
        if not isinstance(files, list):
            raise ValueError("not a list")
        for one in files:
            if not (isinstance(one, list) and len(one) == 3 and all(isinstance(part, str) for part in one)):
                raise ValueError("not three texts")
    return {name: tuple(IndexFile(*one) for one in files if _is_usable(*one)) for name, files in listing.items()}


def _is_usable(name: str, digest: str, url: str) -> bool:
    return bool(name) and (not digest or _HASH.fullmatch(digest) is not None) and _is_address(url)


def _is_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False
