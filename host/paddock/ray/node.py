"""A node's half of a run: it takes code, opens a host of its own machine, and makes attempts there.

It knows no Ray: every argument and every answer is bytes of Paddock's own format, and no exception leaves a call. It
fetches nothing. It reads the policy of its own machine, so that it can only refuse more than the driver. An attempt
acts outside its task's folder only after the driver has said so: where no answer comes, it ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

import paddock
from paddock.batch.local import LocalPlace, SessionSettings
from paddock.batch.place import Attempt, Place, StaleAttemptError
from paddock.batch.task import Task
from paddock.errors import PaddockError, PolicyFileError
from paddock.isolation.sandbox_host import SandboxHost
from paddock.module_sources.resolve import SourceOptions
from paddock.plan.load import load_plan
from paddock.policy.files.owned_file import ROOT, read_owned, user_config_folder
from paddock.policy.files.policy import SYSTEM_FILE, Policy
from paddock.policy.owner import Owner
from paddock.policy.rule import Floor
from paddock.ray.messages import Answer, Digests, Done, Event, Facts, Job, Join, Lent, Order, Tree, failed
from paddock.ray.packing import BrokenPackError, files_of, lay_out, pack, unpack
from paddock.ray.shipping import keep_commits, keep_tree, lacking_of
from paddock.session.host import Host
from paddock.workers.probe import Unavailable
from paddock_sandbox.profile import IsolationLevel
from paddock_sources.errors import NoFetching, SourceError
from paddock_sources.locked_sources import LockUse

_ANSWER_SECONDS: Final = 60.0  # after which a driver is taken for gone
_TRIAL: Final = Task(id="trial", prompt="none is run")
_NO_FETCHING: Final = NoFetching(
    "a node fetches nothing",
    lambda is_locked: "lock the plan where it is started from: `paddock lock PLAN`",
)


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan on this node, with all its code in the cache.

    Attributes:
        plan: its file, with the lock file beside it.
        environ: the environment of sessions, with the secrets that were lent.
        job: how the driver wants it to be run.
    """

    plan: Path
    environ: Mapping[str, str] = field(repr=False)
    job: Job


OpenPlace = Callable[[PreparedPlan], AbstractAsyncContextManager[Place]]
"""Opens the host on which the sessions of a plan run."""


class Node:
    """What runs on one node; the driver's calls are its methods, in the order that `messages` says."""

    def __init__(self, open_place: OpenPlace | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._open_place = open_place or open_local
        self._environ = dict(os.environ if environ is None else environ)
        self._lent: Mapping[str, str] = {}
        self._runs: dict[str, _Run] = {}
        self._serving: asyncio.Task[None] | None = None
        self._place: Place | None = None
        self._folder: Path | None = None

    async def join(self, asked: bytes) -> bytes:
        """End all that ran here for an earlier driver, or before this one gave the node up, and return `Facts`."""
        await self._end_all()
        facts = await facts_of(self._environ)
        wanted, _ = unpack(asked, Join)
        problem = (
            facts.problem
            or await anyio.to_thread.run_sync(_unshared, wanted.tokens)
            or await _isolation_problem(self._environ, wanted.isolation)
        )
        return pack(facts.model_copy(update={"problem": problem}))

    async def lacking(self, names: bytes) -> bytes:
        """Return which of these trees the cache lacks."""
        asked, _ = unpack(names, Digests)
        return pack(Digests(names=await anyio.to_thread.run_sync(lacking_of, asked.names, self._environ)))

    async def take(self, tree: bytes) -> bytes:
        """Add a tree to the cache, once its files are those that its digest names."""

        async def taking() -> None:
            about, files = unpack(tree, Tree)
            await anyio.to_thread.run_sync(keep_tree, about, files, self._environ)

        return await _done(taking())

    async def lend(self, values: bytes) -> bytes:
        """Take the values of secrets for the sessions of this process; they are kept nowhere else."""
        self._lent = unpack(values, Lent)[0].values
        return pack(Done())

    async def prepare(self, packed: bytes) -> bytes:
        """Lay out a plan, and open the host that runs its sessions."""

        async def preparing() -> None:
            job, files = unpack(packed, Job)
            self._folder = Path(tempfile.mkdtemp(prefix="paddock-ray-"))
            root = self._folder / "plan"
            root.mkdir()
            await anyio.to_thread.run_sync(lay_out, files, root)
            await anyio.to_thread.run_sync(keep_commits, job.commits, self._environ)
            prepared = PreparedPlan(root / job.plan, {**self._environ, **self._lent}, job)
            opened = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(prepared, opened))
            self._place = await opened

        return await _done(preparing())

    async def run(self, order: bytes) -> AsyncIterator[bytes]:
        """Make an attempt; yield its events."""
        made, files = unpack(order, Order)
        if self._place is None or self._folder is None:  # started again since it was prepared
            yield pack(Event(kind="refused", problem="the node has no plan"))
            return
        run = _Run(made)
        self._runs[made.ticket] = run
        folder = Path(tempfile.mkdtemp(prefix="task-", dir=self._folder))
        run.working = asyncio.create_task(self._attempt(run, partial(lay_out, files), folder, self._place))
        try:
            yield pack(Event(kind="began"))
            while True:
                event, packed = await run.events.get()
                yield packed
                if event.kind != "asked":
                    break
        finally:
            del self._runs[made.ticket]
            await _ended(run.working)
            shutil.rmtree(folder, ignore_errors=True)

    async def answer(self, packed: bytes) -> bytes:
        """Take the driver's answer to an attempt that asked, or its word that the attempt is to end."""
        answer, _ = unpack(packed, Answer)
        run = self._runs.get(answer.ticket)
        if run is not None:
            run.take(answer)
        return pack(Done(problem="" if run is not None else "there is no such attempt"))

    async def leave(self, told: bytes) -> bytes:
        """End all that runs here, and forget the plan and what was lent."""
        await self._end_all()
        return pack(Done())

    async def _end_all(self) -> None:
        self._place, self._lent = None, {}
        await asyncio.gather(*(_ended(run.working) for run in self._runs.values()))
        serving, self._serving = self._serving, None
        await _ended(serving)
        folder, self._folder = self._folder, None
        if folder is not None:
            await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))

    async def _serve(self, prepared: PreparedPlan, opened: asyncio.Future[Place]) -> None:
        """Keep a host open until this task is cancelled: what enters it has to leave it."""
        try:
            async with AsyncExitStack() as stack:
                opened.set_result(await stack.enter_async_context(self._open_place(prepared)))
                await anyio.sleep_forever()
        except Exception as error:
            if not opened.done():
                opened.set_exception(error)

    async def _attempt(self, run: _Run, lay_out_inputs: Callable[[Path], None], folder: Path, place: Place) -> None:
        inputs, out = folder / "inputs", folder / "out"
        inputs.mkdir()
        out.mkdir()
        try:
            await anyio.to_thread.run_sync(lay_out_inputs, inputs)
            task = run.order.task.model_copy(update={"files": {name: name for name in run.order.task.files}})
            attempt = Attempt(task, run.order.number, inputs)
            result = await place.run(attempt, out, run.acted)
            if run.is_over:
                raise StaleAttemptError
            event = Event(kind="ended", result=result)
            packed = await anyio.to_thread.run_sync(lambda: pack(event, files_of(out, links=False)))
        except (StaleAttemptError, asyncio.CancelledError):
            event = Event(kind="stale")
            packed = pack(event)
        except Exception as error:  # of the attempt alone: it is its result
            event = Event(kind="ended", result=failed(run.order, error))
            packed = pack(event)
        run.events.put_nowait((event, packed))


class _Run:
    """An attempt that runs here, and its questions to the driver."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.events: asyncio.Queue[tuple[Event, bytes]] = asyncio.Queue()
        self.working: asyncio.Task[None] | None = None
        self.is_over = False  # whether it may act no more
        self._asking = asyncio.Lock()  # modules may begin to act at the same time
        self._answered: asyncio.Future[bool] | None = None

    async def acted(self, module: str, tool: str) -> None:
        """Ask the driver whether the attempt may act; see `Acted`."""
        async with self._asking:
            if self.is_over:
                raise StaleAttemptError
            self._answered = asyncio.get_running_loop().create_future()
            event = Event(kind="asked", module=module, tool=tool)
            self.events.put_nowait((event, pack(event)))
            may_act = False
            with anyio.move_on_after(_ANSWER_SECONDS):
                may_act = await self._answered
            if not may_act:
                self.is_over = True
                raise StaleAttemptError

    def take(self, answer: Answer) -> None:
        """Take the driver's answer."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(answer.may_act)
        if answer.ends and self.working is not None:
            self.working.cancel()


@asynccontextmanager
async def open_local(prepared: PreparedPlan) -> AsyncIterator[Place]:
    """Open a host of this process for a plan, once a session of it was opened and closed again.

    Its code is that which the lock file names, and nothing is fetched.

    Raises:
        PaddockError: the plan cannot be read, or no session of it can be opened here.
    """
    job = prepared.job
    plan = await anyio.to_thread.run_sync(partial(load_plan, prepared.plan, environ=prepared.environ))
    settings = SessionSettings(
        isolation=job.isolation,
        trust_plan=job.is_trusted,
        grants=job.grants,
        sources=SourceOptions(LockUse.FROZEN, offline=True, no_fetching=_NO_FETCHING),
        environ=prepared.environ,
    )
    async with Host() as host:
        place = LocalPlace(plan, settings, host)
        await place.check(Attempt(_TRIAL, 1, prepared.plan.parent))
        yield place


async def facts_of(environ: Mapping[str, str]) -> Facts:
    """Return what this machine is, as far as that is known without starting anything."""
    version = f"{platform.python_implementation()} {platform.python_version()} {sys.platform}-{platform.machine()}"
    try:
        digest, problem = await anyio.to_thread.run_sync(_policy_digest, environ), ""
    except PolicyFileError as error:
        digest, problem = "", error.summary
    return Facts(paddock=paddock.__version__, python=version, policy=digest, problem=problem)


def _unshared(tokens: Mapping[str, str]) -> str:
    """Return which folder is not the one that other nodes have; empty if all are."""
    for path, token in tokens.items():
        try:
            found = Path(path).read_bytes()[: len(token) + 1]
        except OSError:
            found = b""
        if found != token.encode():
            return f"`{Path(path).parent}` is not the folder that other nodes have"
    return ""


async def _isolation_problem(environ: Mapping[str, str], named: IsolationLevel | None) -> str:
    """Return why no module can be isolated here as far as the policy asks for, by trying; empty if one can."""
    try:
        policy = await anyio.to_thread.run_sync(Policy.load, environ)
        floor = Floor.strictest(
            Floor.at(file.minimum_isolation, file.rule("minimum_isolation", file.minimum_isolation))
            for file in policy.files
            if file.minimum_isolation is not None
        )
        levels = floor.levels if floor.is_fixed or named is None else (named,)
        tried = []
        async with SandboxHost.started() as host:
            for level in levels:
                found = (await host.try_levels([level])).findings.get(level) if level != "none" else None
                if not isinstance(found, Unavailable):
                    return ""
                tried.append(f"`{level}`: {found.step}: {found.reason}")
    except PaddockError as error:
        return error.summary
    return f"it is below the minimum of isolation: {'; '.join(tried)}"


def _policy_digest(environ: Mapping[str, str]) -> str:
    """Return the digest of the policies of this machine and user, as they are written."""
    files = (
        (SYSTEM_FILE, ROOT),
        (user_config_folder(environ) / "policy.toml", Owner.current(environ)),
    )
    digest = hashlib.sha256()
    for path, owner in files:
        text = (read_owned(path, owner) or "").encode()
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()


async def _done(work: Coroutine[Any, Any, None]) -> bytes:
    """Return that some work is done, or what stood in its way."""
    try:
        await work
    except (PaddockError, SourceError) as error:
        return pack(Done(problem="; ".join([error.summary, *error.hints])))
    except (BrokenPackError, OSError) as error:
        return pack(Done(problem=str(error)))
    return pack(Done())


async def _ended(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, if there is one, and wait until it is over."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
