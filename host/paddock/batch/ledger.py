"""What became of each task so far, on disk before anything that depends on it.

A folder of results has two files of JSON lines, for each shard its own. The results have one line a task. The ledger
says what may have happened: its first record, a `run`, names the plan and the file of tasks; then a task is `claimed`
before its session begins, `acted` before the first call of a module that can act outside the task's folder, `released`
where its attempt was ended on purpose before anything acted, and `done`, `failed` or `lost` at its end.

A line counts once it ends: the beginning of one, which a crash left, is cut off. One process at a time has them.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, ValidationError

from paddock.batch.place import StaleAttemptError
from paddock.batch.result import Act, TaskResult
from paddock.batch.task import Task
from paddock.batch.task_file import Shard, TaskFile
from paddock.errors import KindError
from paddock.text import escaped_line, reason_of

What = Literal["run", "claimed", "acted", "released", "done", "failed", "lost"]

_Line = TypeVar("_Line", bound=BaseModel)


class LedgerError(KindError):
    """Raised for a folder of results that cannot be used; it says why, and what to do."""

    def __init__(self, path: Path, problem: str, hint: str = "name another folder") -> None:
        super().__init__("LedgerError", f"`{path}` {problem}", hints=[hint])


class Record(BaseModel):
    """A line of a ledger: a `run` has the digests of `plan` and `tasks`; `line` is a task's in their file, from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    what: What
    line: int = 0
    id: str = ""
    attempt: int = 0
    node: str = ""
    module: str = ""
    tool: str = ""
    plan: str = ""
    tasks: str = ""


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
        self._error: OSError | None = None
        with ExitStack() as stack:
            try:
                self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
                stack.callback(os.close, self._descriptor)
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.size = sum(len(line) for line in self if line.endswith(b"\n"))
                os.ftruncate(self._descriptor, self.size)
                # What a killed process wrote may not be there yet, and counts from now on.
                os.fdatasync(self._descriptor)
            except BlockingIOError as error:
                raise LedgerError(path, "is in use: another `paddock batch` runs there", "wait for its end") from error
            except OSError as error:
                raise LedgerError(path, f"cannot be written: {reason_of(error)}") from error
            self.synced = self.size
            self.close = stack.pop_all().close

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines; blocks."""
        with self.path.open("rb") as file:
            yield from file

    def read(self, kind: type[_Line], take: Callable[[_Line], object]) -> None:
        """Give each line to `take`; blocks.

        Raises:
            LedgerError: one is not of that kind.
        """
        for number, line in enumerate(self, 1):
            try:
                take(kind.model_validate_json(line))
            except (ValidationError, IndexError) as error:
                problem = f"is damaged, or of another Paddock: line {number} is no record"
                raise LedgerError(self.path, problem) from error

    def write(self, value: Mapping[str, Any]) -> None:
        """Add a line; it outlives this process, and a power failure once `sync` has returned.

        Raises:
            OSError: there is no room for all of it; then nothing of it is kept.
        """
        line = json.dumps(value).encode() + b"\n"
        if os.write(self._descriptor, line) < len(line):
            os.ftruncate(self._descriptor, self.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self.size += len(line)

    async def sync(self) -> None:
        """Have all that was written before be on the disk. Those that wait for a turn share the next one.

        Raises:
            OSError: it may not be. The kernel says so once, and each later call says so again.
        """
        size = self.size
        async with self._turn:
            if self._error is not None:
                raise self._error
            if self.synced < size:
                reached = self.size
                try:
                    await anyio.to_thread.run_sync(os.fdatasync, self._descriptor)
                except OSError as error:
                    self._error = error
                    raise
                self.synced = reached


class Ledger:
    """The ledger and the results of one shard in one folder; `close` lets another run have them.

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
        self._run = Record(what="run", plan=plan, tasks=tasks.digest)
        self._ended = bytearray(tasks.lines + 1)  # by the number of the line
        self._open: dict[int, OpenTask] = {}
        self.counts: Counter[str] = Counter()
        suffix = tasks.shard.suffix
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(out, f"cannot be written: {reason_of(error)}") from error
        _refuse_other_shards(out, tasks.shard.count)
        with ExitStack() as files:
            self.lines = files.enter_context(closing(Lines(out / f"ledger{suffix}.jsonl")))
            self.kept = files.enter_context(closing(Lines(out / f"results{suffix}.jsonl")))
            self._read(resumes=resumes)
            self.close = files.pop_all().close

    def has_ended(self, line: int) -> bool:
        """Whether the task in a line has its result."""
        return bool(self._ended[line])

    def of(self, line: int) -> OpenTask:
        """Return what is known of a task that has no result."""
        return self._open.get(line) or OpenTask()

    async def claim(self, line: int, task: Task, node: str) -> int:
        """Note that an attempt at a task begins, and return its number."""
        number = self.of(line).number + 1
        self._note("claimed", line, task.id, number, node=node)
        self._open[line].runs = True
        await self.lines.sync()
        return number

    async def act(self, line: int, task: Task, attempt: int, module: str, tool: str) -> None:
        """Note that a module may act outside the task's folder from now on.

        Raises:
            StaleAttemptError: the attempt was given up, or has ended.
        """
        one = self.of(line)
        one.check(attempt)
        module, tool = escaped_line(module), escaped_line(tool)  # places have them from modules
        self._note("acted", line, task.id, attempt, module=module, tool=tool)
        await self.lines.sync()
        one.check(attempt)  # it may have been given up meanwhile

    def give_up(self, line: int) -> None:
        """Refuse from now on what the attempt at a task may still say."""
        self.of(line).runs = False

    async def release(self, line: int, task: Task) -> None:
        """Note that the attempt that runs was ended on purpose; if nothing acted, it counts as no try."""
        one = self.of(line)
        was_running = one.runs
        self.give_up(line)
        if was_running and all(act.attempt < one.number for act in one.acted):
            self._note("released", line, task.id, one.number)
            await self.lines.sync()

    async def end(self, line: int, result: TaskResult) -> None:
        """Keep the one result of a task."""
        self.kept.write(result.model_dump())
        await self.kept.sync()
        self._close(line, result)

    def _close(self, line: int, result: TaskResult) -> None:
        # Nothing depends on this one being on the disk: the result is.
        self._note(result.status, line, result.id, result.attempt)

    def _note(self, what: What, line: int, id: str, attempt: int, **named: str) -> None:
        record = Record(what=what, line=line, id=id, attempt=attempt, **named)
        if not self.lines.size:
            self.lines.write(self._run.model_dump(exclude_defaults=True))
        self.lines.write(record.model_dump(exclude_defaults=True))
        self._take(record)

    def _take(self, record: Record) -> None:
        """Have a record count; an attempt of an earlier run has ended with it, and runs no more."""
        if record.what in ("done", "failed", "lost"):
            self._ended[record.line] = 1
            self._open.pop(record.line, None)
            self.counts[record.what] += 1
            return
        one = self._open.setdefault(record.line, OpenTask(record.id))
        match record.what:
            case "claimed":
                one.number, one.node = record.attempt, record.node
                one.tries += 1
            case "acted":
                one.acted.append(Act(attempt=record.attempt, module=record.module, tool=record.tool))
            case "released":
                one.tries -= 1

    def _read(self, *, resumes: bool) -> None:
        if self.lines.size and not resumes:
            hint = "`--resume` goes on with it; or name another folder"
            raise LedgerError(self.lines.path, "is of an earlier run", hint)
        if self.kept.size and not self.lines.size:
            raise LedgerError(self.kept.path, "has results, and their ledger is gone")
        self.lines.read(Record, self._replay)
        lines = {one.id: line for line, one in self._open.items()}

        def found(result: TaskResult) -> None:
            if result.id in lines:
                self._close(lines[result.id], result)

        if lines:  # a result may be there without its record
            self.kept.read(TaskResult, found)

    def _replay(self, record: Record) -> None:
        if record.what != "run":
            self._take(record)
        elif record != self._run:
            of = "plan" if record.plan != self._run.plan else "file of tasks"
            hint = f"name another folder, or have the {of} as it was"
            raise LedgerError(self.lines.path, f"is of another {of}, or the {of} has changed since", hint)


def _refuse_other_shards(out: Path, count: int) -> None:
    """Refuse a folder in which the same tasks were shared out otherwise: some would run twice."""
    names = {f"ledger{Shard(number, count).suffix}.jsonl" for number in range(1, count + 1)}
    for ledger in out.glob("ledger*.jsonl"):
        if ledger.name not in names:
            problem = "is of a run that was shared out otherwise"
            raise LedgerError(ledger, problem, "use the same N of `--shard K/N` for all, or name another folder")
