"""What became of each task so far, on disk before anything that depends on it.

A folder of results has two files of JSON lines, for each shard its own. The results have one line a task. The ledger
says what may have happened: its first record names the plan and the file of tasks; then a task is `claimed` before its
session begins, `acted` before the first call of a module that can act outside the task's folder, `released` where
its attempt was ended on purpose before anything acted, and `done`, `failed` or `lost` at its end.

A line counts once it ends: the beginning of one, which a crash left, is cut off. One process at a time has them.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, ValidationError

from paddock.batch.place import StaleAttemptError
from paddock.batch.result import Act, TaskResult
from paddock.batch.task import Task
from paddock.batch.task_file import TaskFile
from paddock.errors import KindError
from paddock.text import escaped_line, reason_of

_PIECE: Final = 1 << 16  # bytes


class LedgerError(KindError):
    """Raised for a folder of results that cannot be used; it says why, and what to do."""

    def __init__(self, path: Path, problem: str, hint: str) -> None:
        super().__init__("LedgerError", f"`{path}` {problem}", hints=[hint])


class _Head(BaseModel):
    """The first record of a ledger: what it is about."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    version: Literal[1] = 1
    plan: str
    tasks: str
    shards: int


class Record(BaseModel):
    """Any other record; `line` is the task's in the file of tasks, from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    what: Literal["claimed", "acted", "released", "done", "failed", "lost"]
    line: int
    id: str
    attempt: int
    node: str = ""
    module: str = ""
    tool: str = ""


@dataclass(slots=True)
class OpenTask:
    """A task that was claimed and has no result.

    Attributes:
        id: the task's.
        number: of the last attempt, from 1.
        node: where that was made.
        runs: whether that attempt may still act.
        tries: the attempts that were not released.
        acted: what may have acted, in all attempts.
    """

    id: str = ""
    number: int = 0
    node: str = ""
    runs: bool = False
    tries: int = 0
    acted: list[Act] = field(default_factory=list)

    @property
    def has_acted(self) -> bool:
        """Whether the last attempt may have acted."""
        return any(act.attempt == self.number for act in self.acted)

    def check(self, attempt: int) -> None:
        """Raise `StaleAttemptError` unless this is the attempt that may act."""
        if not self.runs or self.number != attempt:
            raise StaleAttemptError(f"attempt {attempt} was given up")


class Lines:
    """A file of JSON lines that this process alone appends to; its first `synced` bytes outlive a power failure."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it, and cut off what a crash left of a last line; blocks.

        Raises:
            LedgerError: another process has it, or it cannot be written.
        """
        self.path = path
        self._turn = asyncio.Lock()
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._size = _whole(self._descriptor)
                os.ftruncate(self._descriptor, self._size)
                os.fdatasync(
                    self._descriptor
                )  # what a killed process wrote may not be there yet, and counts from now on
                self.synced = self._size
            except BaseException:
                os.close(self._descriptor)
                raise
        except BlockingIOError as error:
            raise LedgerError(path, "is in use: another `paddock batch` runs there", "wait for its end") from error
        except OSError as error:
            raise LedgerError(path, f"cannot be written: {reason_of(error)}", "name another folder") from error

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines; blocks."""
        with self.path.open("rb") as file:
            yield from file

    def clear(self) -> None:
        """Remove all lines."""
        os.ftruncate(self._descriptor, 0)
        self._size = self.synced = 0

    def write(self, value: Mapping[str, Any]) -> None:
        """Add a line; it outlives this process, and a power failure once `sync` has returned.

        Raises:
            OSError: there is no room for all of it; then nothing of it is kept.
        """
        line = json.dumps(value).encode() + b"\n"
        if os.write(self._descriptor, line) < len(line):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size += len(line)

    async def sync(self) -> None:
        """Have all that was written before be on the disk. Those that wait for a turn share the next one.

        Raises:
            OSError: it may not be.
        """
        size = self._size
        async with self._turn:
            if self.synced < size:
                reached = self._size
                await anyio.to_thread.run_sync(os.fdatasync, self._descriptor)
                self.synced = reached

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._descriptor)


class Ledger:
    """The ledger and the results of one shard in one folder; `close` releases them.

    Attributes:
        lines: the file of the ledger.
        kept: the file of the results.
        counts: how many tasks have a result of each status.
    """

    def __init__(self, out: Path, tasks: TaskFile, plan: str, *, resumes: bool) -> None:
        """Open them, and read what happened so far; blocks. `plan` is the digest of the plan.

        Raises:
            LedgerError: they are of another plan, of other tasks, in use or damaged; or there are some, and the run is
                not said to go on with them.
        """
        self._ended = bytearray(tasks.lines + 1)  # by the number of the line
        self._open: dict[int, OpenTask] = {}
        self.counts: Counter[str] = Counter()
        suffix = tasks.shard.suffix
        with ExitStack() as files:
            try:
                out.mkdir(parents=True, exist_ok=True)
                _refuse_other_shards(out, tasks)
            except OSError as error:
                raise LedgerError(out, f"cannot be written: {reason_of(error)}", "name another folder") from error
            self.lines = files.enter_context(closing(Lines(out / f"ledger{suffix}.jsonl")))
            self.kept = files.enter_context(closing(Lines(out / f"results{suffix}.jsonl")))
            self._read(_Head(plan=plan, tasks=tasks.digest, shards=tasks.shard.count), resumes=resumes)
            self._files = files.pop_all()

    def close(self) -> None:
        """Let another run have them."""
        self._files.close()

    def has_ended(self, line: int) -> bool:
        """Whether the task in a line has its result."""
        return bool(self._ended[line])

    def of(self, line: int) -> OpenTask:
        """Return what is known of a task that has no result."""
        return self._open.get(line) or OpenTask()

    async def claim(self, line: int, task: Task, node: str) -> int:
        """Note that an attempt at a task begins, and return its number."""
        one = self._open.setdefault(line, OpenTask(task.id))
        one.number += 1
        one.tries += 1
        one.node, one.runs = node, True
        await self._note("claimed", line, task.id, one.number, node=node)
        return one.number

    async def act(self, line: int, task: Task, attempt: int, module: str, tool: str) -> None:
        """Note that a module may act outside the task's folder from now on.

        Raises:
            StaleAttemptError: the attempt was given up, or has ended.
        """
        one = self.of(line)
        one.check(attempt)
        module, tool = escaped_line(module), escaped_line(tool)  # places have them from modules
        one.acted.append(Act(attempt=attempt, module=module, tool=tool))
        await self._note("acted", line, task.id, attempt, module=module, tool=tool)
        one.check(attempt)  # it may have been given up meanwhile

    def give_up(self, line: int) -> OpenTask:
        """Refuse from now on what the attempt at a task that runs may still say; return what is known of the task."""
        one = self._open[line]
        one.runs = False
        return one

    async def release(self, line: int, task: Task) -> None:
        """Note that the attempt that runs was ended on purpose; if nothing acted, it counts as no try."""
        one = self.give_up(line)
        if not one.has_acted:
            one.tries -= 1
            await self._note("released", line, task.id, one.number)

    async def end(self, line: int, result: TaskResult) -> None:
        """Keep the one result of a task."""
        self.kept.write(result.model_dump())
        await self.kept.sync()
        self._close_task(line, result.status)
        # Nothing depends on this one being on the disk: the result is.
        self.lines.write(_record(result.status, line, result.id, result.attempt))

    async def _note(self, what: str, line: int, id: str, attempt: int, **more: str) -> None:
        self.lines.write(_record(what, line, id, attempt, **more))
        await self.lines.sync()

    def _close_task(self, line: int, status: str) -> None:
        self._ended[line] = 1
        self._open.pop(line, None)
        self.counts[status] += 1

    def _read(self, head: _Head, *, resumes: bool) -> None:
        found: _Head | None = None
        number = 0
        file = self.lines
        try:
            for text in self.lines:
                number += 1
                if found is None:
                    found = _Head.model_validate_json(text)
                else:
                    self._replay(Record.model_validate_json(text))
            if number > 1 and not resumes:
                raise LedgerError(
                    file.path, "is of an earlier run", "`--resume` goes on with it; or name another folder"
                )
            if number > 1:
                self._check_head(found, head)
            elif any(self.kept):
                raise LedgerError(self.kept.path, "has results, and their ledger is gone", "name another folder")
            else:  # nothing was begun, so it may become that of another plan
                self.lines.clear()
                self.lines.write(head.model_dump())
            ids = {one.id: line for line, one in self._open.items()}
            file, number = self.kept, 0
            for text in self.kept if ids else ():  # a result may be there without its record
                number += 1
                kept = TaskResult.model_validate_json(text)
                if kept.id in ids:
                    self._close_task(ids[kept.id], kept.status)
                    self.lines.write(_record(kept.status, ids[kept.id], kept.id, kept.attempt))
        except (ValidationError, IndexError) as error:
            problem = f"is damaged, or of another Paddock: line {number} is no record"
            raise LedgerError(file.path, problem, "name another folder; the results so far are in this one") from error

    def _check_head(self, found: _Head | None, head: _Head) -> None:
        for name, of in (("plan", "plan"), ("tasks", "file of tasks")):
            if getattr(found, name) != getattr(head, name):
                hint = f"name another folder, or have the {of} as it was"
                raise LedgerError(self.lines.path, f"is of another {of}, or the {of} has changed since", hint)

    def _replay(self, record: Record) -> None:
        """Take a record of an earlier run, whose attempts have all ended with it."""
        one = self._open.setdefault(record.line, OpenTask(record.id))
        match record.what:
            case "claimed":
                one.number, one.node, one.tries = record.attempt, record.node, one.tries + 1
            case "acted":
                one.acted.append(Act(attempt=record.attempt, module=record.module, tool=record.tool))
            case "released":
                one.tries -= 1
            case _:
                self._close_task(record.line, record.what)


def _record(what: str, line: int, id: str, attempt: int, **more: str) -> dict[str, Any]:
    return {"what": what, "id": id, "line": line, "attempt": attempt, **more}


def _whole(descriptor: int) -> int:
    """Return the size of a file up to its last whole line."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _PIECE)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _refuse_other_shards(out: Path, tasks: TaskFile) -> None:
    """Refuse a folder in which the same tasks were shared out otherwise: some would run twice."""
    ending = tasks.shard.suffix.rpartition("-")[2]
    for ledger in out.glob("ledger*.jsonl"):
        if ledger.stem.removeprefix("ledger").rpartition("-")[2] != ending:
            problem = "is of a run that was shared out otherwise"
            raise LedgerError(ledger, problem, "use the same N of `--shard K/N` for all, or name another folder")
