"""A file of tasks: a JSON object a line, read twice and never held.

First every line is checked, so that nothing runs of a file with a mistake in it. Then tasks are read one by one, as
they are begun. Ids are compared in a database among the temporary files, and nothing of a task stays in memory.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import ValidationError

from paddock.batch.task import Task
from paddock.errors import KindError
from paddock.text import reason_of

_LINE_MAX: Final = 8 << 20  # bytes
_FORM: Final = 'write one JSON object a line, as in {"id": "a1", "prompt": "Say hello."}'


class TaskFileError(KindError):
    """Raised for a file of tasks that cannot be used; it names the line, from 1, and what to do."""

    def __init__(self, path: Path, line: int | None, problem: str, hint: str) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__("TaskFileError", f"{where}: {problem}", hints=[hint])


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` parts of a file, by the numbers of its lines; `number` is counted from 1."""

    number: int = 1
    count: int = 1

    def has(self, line: int) -> bool:
        """Whether a line, counted from 1, falls to this part."""
        return (line - 1) % self.count == self.number - 1

    @property
    def suffix(self) -> str:
        """What the names of this part's files end with, before their type; nothing where there is only one part."""
        return "" if self.count == 1 else f"-{self.number}-of-{self.count}"


WHOLE: Final = Shard()


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A file whose every line was checked.

    Attributes:
        path: where it is; paths in its tasks are relative to its folder.
        shard: which part of it counts.
        digest: of its content.
        count: the number of tasks in this part.
        lines: the number of all its lines.
    """

    path: Path
    shard: Shard
    digest: str
    count: int
    lines: int

    @classmethod
    def checked(cls, path: Path, shard: Shard) -> Self:
        """Return the file at a path, once each of its lines is a task, and no two have one id; blocks.

        Raises:
            TaskFileError: it cannot be read, or has a mistake.
        """
        content = hashlib.sha256()
        count = last = 0
        with closing(sqlite3.connect("")) as ids:
            ids.execute("CREATE TABLE ids (id TEXT PRIMARY KEY, line INTEGER) WITHOUT ROWID")
            for last, line in _lines(path, content.update):
                id = _parsed(path, last, line).id
                try:
                    ids.execute("INSERT INTO ids VALUES (?, ?)", (id, last))
                except sqlite3.IntegrityError:
                    (first,) = ids.execute("SELECT line FROM ids WHERE id = ?", (id,)).fetchone()
                    problem = f"the id `{id}` is that of line {first} too"
                    raise TaskFileError(path, last, problem, "give it another one") from None
                count += shard.has(last)
        if not last:
            raise TaskFileError(path, None, "there is no task in it", _FORM)
        return cls(path, shard, f"sha256:{content.hexdigest()}", count, last)

    def tasks(self) -> Iterator[tuple[int, Task]]:
        """Yield the tasks of this part with the numbers of their lines; blocks.

        Raises:
            TaskFileError: the file has changed since it was checked.
        """
        content = hashlib.sha256()
        for number, line in _lines(self.path, content.update):
            if self.shard.has(number):
                yield number, _parsed(self.path, number, line)
        if f"sha256:{content.hexdigest()}" != self.digest:
            hint = "leave the file as it is while its tasks run, and give other tasks another folder"
            raise TaskFileError(self.path, None, "it was changed while its tasks ran", hint)


def _lines(path: Path, content: Callable[[bytes], object]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers; `content` gets all of them."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LINE_MAX + 1):
                number += 1
                content(line)
                if len(line) > _LINE_MAX:
                    problem = f"the line has more than {_LINE_MAX >> 20} MiB"
                    raise TaskFileError(path, number, problem, "hand long text over as a file, in `files`")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise TaskFileError(path, None, f"it cannot be read: {reason_of(error)}", "name a file of tasks") from error


def _parsed(path: Path, number: int, line: bytes) -> Task:
    try:
        return Task.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise TaskFileError(path, number, f"`{place}`: {said}" if place else said, _FORM) from error
