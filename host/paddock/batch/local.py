"""Run tasks in this process, each in a session of its own, on one host that all of them share."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

import anyio
import anyio.to_thread

from paddock.authorization.consent import Consent
from paddock.batch.batch import Batch, Repeat
from paddock.batch.folder import TaskFolder
from paddock.batch.place import Acted, Attempt, Place, Places, StaleAttemptError
from paddock.batch.result import TaskResult
from paddock.batch.task import OWN
from paddock.batch.task_file import WHOLE, Shard, TaskFile
from paddock.errors import KindError, PaddockError, PlanError, PlanProblem, code_of, statement_of
from paddock.module_sources.provisioning import SourceOptions
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.plan.permissions import grants_of
from paddock.rpc.first_calls import BeforeActing
from paddock.session.host import Host
from paddock.session.hosted_session import ModuleStatus, as_before_the_end
from paddock.session.journals.journal_folder import Journals
from paddock.session.journals.kept_session import masked
from paddock.session.session import Session
from paddock.text import escape
from paddock_sandbox.profile import IsolationLevel
from paddock_sdk.contract.events import LLM_RESPONSE, PROVIDER_RESPONSE
from paddock_sdk.kernel.session_stats import Spending
from paddock_sources.locked_sources import LockUse

_LAST: Final = 1_000_000  # after the handlers of modules
_STALLED: Final = re.compile(r"^some .* total=(\d+)$", re.MULTILINE)
_SCARCE: Final = {"cpu": 0.7, "memory": 0.1}  # share of the time in which something waited for it
_STEP: Final = 0.5  # seconds
_SLOWLY: Final = 10  # steps; others may be what keeps the processors busy, and a session mostly waits
_ABSOLUTE: Final = "write the path from the root; relative ones mean the task's own folder"

Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What each session of a run is opened with; the fields are those of `Session`."""

    isolation: IsolationLevel | None = None
    trust_plan: bool = False
    grants: Mapping[str, str] = field(default_factory=dict)
    consent: Consent | None = None
    environ: Mapping[str, str] | None = None
    sources: SourceOptions = field(default_factory=partial(SourceOptions, LockUse.LOCKED))


USUAL: Final = SessionSettings()


class LocalPlace:
    """This process. Every session has the plan as it was read, and works in its task's folder."""

    def __init__(self, plan: MountPlan, settings: SessionSettings, host: Host) -> None:
        """
        Raises:
            PlanError: a path of the plan does not mean the same in each task's folder.
        """
        refuse_paths_above(plan)
        self.name = escape(os.uname().nodename)
        self._plan = plan
        self._settings = settings
        self._host = host

    async def check(self, attempt: Attempt) -> tuple[ModuleStatus, ...]:
        """Open a session in a task's folder and close it; return its modules.

        All questions about the plan are asked here; what is accepted is recorded, and later sessions ask nothing. No
        module is called that can act outside the folder, as no attempt would have it in its record.

        Raises:
            PaddockError: a session of the plan cannot be opened.
        """
        refused: list[str] = []

        async def refuse(module: str, called: str) -> None:
            refused.append(module)
            raise StaleAttemptError("this is a trial")

        async with _task_folder() as work:
            with suppress(KindError):  # a mistake in one task; it has its result
                await anyio.to_thread.run_sync(work.fill, attempt.task.files, attempt.base)
            session = self._session(work, refuse, consent=self._settings.consent)
            try:
                async with session:
                    modules = session.modules
            except Exception:
                if not refused:
                    raise
                modules = session.modules  # what follows from a refusal says nothing about the plan
        return modules

    async def run(self, attempt: Attempt, folder: Path, acted: Acted) -> TaskResult:
        """Run an attempt, as `Place` has it."""
        turn = Turn(attempt, self.name)
        unrecorded: list[Exception] = []

        async def before_acting(module: str, called: str) -> None:
            try:
                await acted(module, called)
            except Exception as error:
                unrecorded.append(error)
                raise

        async with _task_folder() as work:
            try:
                await anyio.to_thread.run_sync(work.fill, attempt.task.files, attempt.base)
                await turn.run(self._session(work, before_acting, Journals(folder / OWN)))
            except Exception as error:  # modules raise exceptions of any class
                turn.error = error
            if unrecorded:
                raise unrecorded[0]
            notes = await anyio.to_thread.run_sync(work.take, folder)
        return turn.result(notes)

    def _session(
        self,
        work: TaskFolder,
        before_acting: BeforeActing,
        journal: Journals | None = None,
        consent: Consent | None = None,
    ) -> Session:
        settings = self._settings
        return Session(
            self._plan,
            working_dir=work.path,
            journal=journal,
            isolation=settings.isolation,
            trust_plan=settings.trust_plan,
            grants=settings.grants,
            consent=consent,
            sources=settings.sources,
            environ=settings.environ,
            host=self._host,
            before_acting=before_acting,
        )


def stalled(name: str) -> float:
    """Return for how many seconds something has waited for `cpu` or `memory`; 0 if the kernel does not say it."""
    try:
        found = _STALLED.search(Path("/proc/pressure", name).read_text(encoding="ascii"))
    except OSError:
        found = None
    return 0 if found is None else int(found[1]) / 1_000_000


class Ramp:
    """Room for attempts at one place, from as many as there are processors to `most`: the `Places` of one machine.

    Starts come in bursts otherwise. The number grows by as many as there are processors while the machine's pressure
    allows it, by one from time to time while its processors are busy, and not at all while memory is scarce.
    """

    def __init__(self, place: Place, most: int) -> None:
        self._place = place
        self._step = os.cpu_count() or 1
        self._room = anyio.Semaphore(min(self._step, most))
        self._missing = most - self._room.value

    async def take(self) -> Place:
        """Wait for room, as `Places` has it."""
        await self._room.acquire()
        return self._place

    def give_back(self, place: Place) -> None:
        """Take room back, as `Places` has it."""
        self._room.release()

    async def grow(self) -> None:
        """Make room until there is as much as was asked for."""
        steps = 0
        while self._missing:
            before = {name: stalled(name) for name in _SCARCE}
            await anyio.sleep(_STEP)
            scarce = [name for name, most in _SCARCE.items() if stalled(name) - before[name] > most * _STEP]
            steps += 1
            if "memory" in scarce or (scarce and steps < _SLOWLY):
                continue
            steps = 0
            more = min(1 if scarce else self._step, self._missing)
            self._missing -= more
            for _ in range(more):
                self._room.release()


@asynccontextmanager
async def local_places(
    plan: MountPlan,
    first: Attempt,
    *,
    settings: SessionSettings,
    most: int,
    tell: Callable[[tuple[ModuleStatus, ...]], object] = len,
) -> AsyncIterator[Places]:
    """Provide this process as a place for `most` attempts at once, after a session was opened for the first.

    `tell` gets the modules of that session.

    Raises:
        PaddockError: no session of the plan can be opened.
    """
    async with Host() as host:
        place = LocalPlace(plan, settings, host)
        tell(await place.check(first))
        ramp = Ramp(place, most)
        async with anyio.create_task_group() as growing:
            growing.start_soon(ramp.grow)
            yield ramp
            growing.cancel_scope.cancel()


async def run(
    plan: Path | str | Mapping[str, Any] | MountPlan,
    tasks: Path | str,
    *,
    out: Path | str,
    concurrency: int = 8,
    shard: Shard = WHOLE,
    repeat: Repeat = "if-nothing-acted",
    resume: bool = False,
    settings: SessionSettings = USUAL,
) -> AsyncIterator[TaskResult]:
    """Run the tasks of a file, `concurrency` at once, and yield each result in the order of their ends.

    Results are kept in the folder `out`, where `resume` goes on with an earlier run. `shard` is the part of the tasks
    to run. `repeat` says which attempts whose place was lost are made again.

    Raises:
        TaskFileError: the file of tasks has a mistake; nothing was run.
        LedgerError: the folder is that of another run, in use, or cannot be written to.
        PaddockError: no session of the plan can be opened.
    """
    places = partial(local_places, settings=settings, most=concurrency)
    running = run_at(places, plan, Path(tasks), Path(out), shard, repeat, resumes=resume)
    async with aclosing(running) as results:
        async for result in results:
            yield result


async def run_at(
    places: Callable[[MountPlan, Attempt], AbstractAsyncContextManager[Places]],
    plan: Path | str | Mapping[str, Any] | MountPlan,
    tasks: Path,
    out: Path,
    shard: Shard,
    repeat: Repeat,
    *,
    resumes: bool,
) -> AsyncGenerator[TaskResult]:
    """Run tasks at the places that are opened for the plan and a first attempt; see `run`."""
    read = plan if isinstance(plan, MountPlan) else load_plan(plan)
    refuse_paths_above(read, out, tasks)
    checked = await anyio.to_thread.run_sync(TaskFile.checked, tasks, shard)
    opened = partial(Batch, checked, out, read.digest, repeat=repeat, resumes=resumes)
    with closing(await anyio.to_thread.run_sync(opened)) as batch:
        async with aclosing(batch.results(partial(places, read))) as results:
            async for result in results:
                yield result


class Turn:
    """The turn of one attempt, and what comes of it."""

    def __init__(self, attempt: Attempt, node: str) -> None:
        self.error: Exception | None = None
        self._attempt = attempt
        self._node = node
        self.response: str | None = None
        self._modules: tuple[ModuleStatus, ...] = ()
        self._mask: Mask = _encodable
        self._spending = Spending()

    async def run(self, session: Session) -> None:
        """Open a session, run the turn, and close it."""
        self._mask = lambda text: _encodable(session.mask(text))
        for event in (PROVIDER_RESPONSE, LLM_RESPONSE):
            session.coordinator.hooks.register(event, self._take, priority=_LAST, name="paddock-batch")
        try:
            async with session:
                try:
                    self.response = await session.execute(self._attempt.task.asked)
                finally:
                    self._modules = session.modules  # with their ends, of which the ordinary one is none
        finally:
            self._modules = as_before_the_end(self._modules, session.modules) or session.modules

    def _take(self, event: str, data: Any) -> None:
        if isinstance(data, Mapping):
            self._spending.take(event, data)

    def result(self, notes: list[str]) -> TaskResult:
        """Return the result, with the session's secrets hidden in all that modules said."""
        spent = self._spending.spent
        counts = {name: spent.tokens[name] for name in ("input_tokens", "output_tokens")}
        return TaskResult(
            id=self._attempt.task.id,
            attempt=self._attempt.number,
            node=self._node,
            status="done" if self.error is None else "failed",
            response=None if self.response is None else self._mask(str(self.response)),
            error=None if self.error is None else masked(_facts(self.error), self._mask),
            modules=[masked(module.as_dict(), self._mask) for module in self._modules],
            usage={"requests": spent.requests, **counts},
            notes=[self._mask(note) for note in notes],
        )


@asynccontextmanager
async def _task_folder() -> AsyncIterator[TaskFolder]:
    work = TaskFolder()
    try:
        yield work
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(work.remove)


def refuse_paths_above(plan: MountPlan, out: Path | None = None, tasks: Path | None = None) -> None:
    """Refuse a plan with a path that leads out of the task's folder, which lies elsewhere for each task.

    Refuse as well one by which modules could write to the folder of the results, `out`, to the file of `tasks`,
    which is read line by line while they run, or to the folders of other tasks.

    Raises:
        PlanError: it names each such path.
    """
    kept = {
        "folder of the results": out,
        "file of tasks": tasks,
        "folders of tasks (TMPDIR)": Path(tempfile.gettempdir(), "paddock-…"),  # a folder beside them meets none
    }
    problems = []
    for entry in plan.entries():
        granted = grants_of(entry.permissions)
        for family, paths in (("read", granted.read_paths), ("write", granted.write), ("run", granted.run)):
            for path in paths:
                place = f"{entry.path}.permissions.{family}"
                if not path.startswith(("/", "~")):
                    if ".." in PurePosixPath(path).parts:
                        problems.append(PlanProblem(place, f"`{path}` leads out of the task's folder", _ABSOLUTE))
                elif family == "write":
                    problems += [
                        PlanProblem(place, f"`{path}` has to do with the {what}, `{one}`", f"keep the {what} elsewhere")
                        for what, one in kept.items()
                        if one is not None and _meet(path, one)
                    ]
    if problems:
        raise PlanError(problems, origin=None if plan.origin is None else str(plan.origin))


def _meet(path: str, kept: Path) -> bool:
    """Whether one of two places holds the other."""
    real, place = Path(os.path.realpath(os.path.expanduser(path))), kept.resolve()
    return real.is_relative_to(place) or place.is_relative_to(real)


def _facts(error: Exception) -> dict[str, Any]:
    """Return an error as data: of a module's exception the class that it had there."""
    facts: dict[str, Any] = {
        "type": str(getattr(error, "remote_type", None) or code_of(error)),
        "message": escape(statement_of(error), multiline=True),
    }
    if isinstance(error, PaddockError):
        facts["hints"] = [escape(hint) for hint in error.hints]
    return facts


def _encodable(text: str) -> str:
    """Return a text with halves of characters, which modules can send and no reader of JSON takes, written out."""
    return text.encode("utf-8", "backslashreplace").decode()
