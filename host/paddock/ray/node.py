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
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
from paddock.module_sources.provisioning import SourceOptions
from paddock.plan.load import load_plan
from paddock.policy.files.owned_file import ROOT, read_owned, user_config_folder
from paddock.policy.files.policy import SYSTEM_FILE
from paddock.policy.owner import Owner
from paddock.ray.messages import Done, Event, Facts, Job, Join, Lent, Order, Step, Tree, failed
from paddock.ray.packing import BrokenPackError, PackedFile, files_of, lay_out, pack, unpack
from paddock.ray.shipping import keep_commits, keep_tree, lacking_of
from paddock.session.host import Host
from paddock.workers.scratch import PrivateFolder
from paddock_sources.errors import NoFetching, SourceError
from paddock_sources.locked_sources import LockUse

_ANSWER_SECONDS: Final = 60.0  # after which a driver is taken for gone
_NO_FETCHING: Final = NoFetching(
    "a node fetches nothing",
    lambda is_locked: "lock the plan where it is started from: `paddock lock PLAN`",
)


OpenPlace = Callable[[Path, Mapping[str, str], Job], AbstractAsyncContextManager[Place]]
"""Opens the host on which the sessions of a plan run: its file, their environment, and how it is run."""


class Node:
    """What runs on one node; the driver's calls are its methods, in the order that `messages` says."""

    def __init__(
        self,
        open_place: OpenPlace | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._open_place = open_place or open_local
        self._environ = dict(os.environ if environ is None else environ)
        self._lent: Mapping[str, str] = {}
        self._runs: dict[str, _Run] = {}
        self._serving: asyncio.Task[None] | None = None
        self._place: Place | None = None

    async def join(self, asked: bytes) -> bytes:
        """End all that ran here for an earlier driver, or before this one gave the node up, and return `Facts`."""
        await self._end_all()
        wanted, _ = unpack(asked, Join)
        facts = await facts_of(self._environ)
        about = {
            "problem": facts.problem or await anyio.to_thread.run_sync(_unshared, wanted.tokens),
            "lacking": tuple(await anyio.to_thread.run_sync(lacking_of, wanted.trees, self._environ)),
        }
        return pack(facts.model_copy(update=about))

    async def take(self, packed: bytes) -> bytes:
        """Add a tree to the cache, once its files are those that its digest names."""

        async def taking() -> None:
            tree, files = unpack(packed, Tree)
            await anyio.to_thread.run_sync(keep_tree, tree, files, self._environ)

        return await _done(taking())

    async def lend(self, values: bytes) -> bytes:
        """Take the values of secrets for the sessions of this process; they are kept nowhere else."""
        self._lent = unpack(values, Lent)[0].values
        return pack(Done())

    async def prepare(self, packed: bytes) -> bytes:
        """Lay out a plan, and open the host that runs its sessions."""

        async def preparing() -> None:
            job, files = unpack(packed, Job)
            await anyio.to_thread.run_sync(keep_commits, job.commits, self._environ)
            opened = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(job, files, opened))
            self._place = await opened

        return await _done(preparing())

    async def begin(self, packed: bytes) -> bytes:
        """Begin an attempt."""
        order, files = unpack(packed, Order)
        if self._place is None:  # started again since it was prepared
            return pack(Done(problem="the node has no plan"))
        run = _Run()
        run.working = asyncio.create_task(
            _attempt(run, order, files, self._place),
        )
        self._runs[order.ticket] = run
        return pack(Done())

    async def go_on(self, packed: bytes) -> bytes:
        """Wait for the next `Event` of an attempt, which may act if it asked and the driver says so."""
        step, _ = unpack(packed, Step)
        run = self._runs.get(step.ticket)
        if run is None:
            return pack(Event(kind="stale"))
        if step.may_act:
            run.permitted.set()
        event, told = await run.events.get()
        if event.kind != "asked":
            self._runs.pop(step.ticket, None)
        return told

    async def end(self, packed: bytes) -> bytes:
        """End an attempt."""
        run = self._runs.pop(unpack(packed, Step)[0].ticket, None)
        if run is not None:
            await _ended(run.working)
        return pack(Done())

    async def leave(self, told: bytes) -> bytes:
        """End all that runs here, and forget the plan and what was lent."""
        await self._end_all()
        return pack(Done())

    async def _end_all(self) -> None:
        self._place, self._lent = None, {}
        runs, self._runs = self._runs, {}
        await asyncio.gather(*(_ended(run.working) for run in runs.values()))
        serving, self._serving = self._serving, None
        await _ended(serving)

    async def _serve(
        self,
        job: Job,
        files: Iterable[PackedFile],
        opened: asyncio.Future[Place],
    ) -> None:
        """Keep a host open until this task is cancelled: what enters it has to leave it."""
        try:
            async with _folder() as root:
                await anyio.to_thread.run_sync(partial(lay_out, files, root, with_links=True))
                environ = {**self._environ, **self._lent}
                async with self._open_place(root / job.plan, environ, job) as place:
                    opened.set_result(place)
                    await anyio.sleep_forever()
        except Exception as error:
            if not opened.done():
                opened.set_exception(error)


class _Run:
    """An attempt that runs here; its questions wait for the driver."""

    def __init__(self) -> None:
        self.working: asyncio.Task[None] | None = None
        self.events: asyncio.Queue[tuple[Event, bytes]] = asyncio.Queue()
        self.is_over = False  # whether it may act no more
        self._asking = asyncio.Lock()  # modules may begin to act at the same time
        self.permitted = asyncio.Event()  # whether it may act, which it asked

    def tell(self, event: Event, packed: bytes | None = None) -> None:
        """Have the driver get an event, which is packed with its files if it has any."""
        self.events.put_nowait((event, packed or pack(event)))

    async def acted(self, module: str, tool: str) -> None:
        """Ask the driver whether the attempt may act; see `Acted`."""
        async with self._asking:
            if self.is_over:
                raise StaleAttemptError
            self.permitted.clear()
            self.tell(Event(kind="asked", module=module, tool=tool))
            with anyio.move_on_after(_ANSWER_SECONDS) as waiting:
                await self.permitted.wait()
            if waiting.cancelled_caught:
                self.is_over = True
                raise StaleAttemptError


async def _attempt(
    run: _Run,
    order: Order,
    files: Iterable[PackedFile],
    place: Place,
) -> None:
    """Make an attempt, and tell what became of it."""
    try:
        async with _folder() as folder:
            inputs, out = folder / "inputs", folder / "out"
            inputs.mkdir()
            out.mkdir()
            await anyio.to_thread.run_sync(lay_out, files, inputs)
            task = order.task.model_copy(update={"files": {name: name for name in order.task.files}})
            result = await place.run(Attempt(task, order.number, inputs), out, run.acted)
            if run.is_over:
                raise StaleAttemptError
            event = Event(kind="ended", result=result)
            run.tell(event, await anyio.to_thread.run_sync(lambda: pack(event, files_of(out))))
    except (StaleAttemptError, asyncio.CancelledError):
        run.tell(Event(kind="stale"))
    except Exception as error:  # of the attempt alone: it is its result
        run.tell(Event(kind="ended", result=failed(order, error)))


@asynccontextmanager
async def open_local(
    file: Path,
    environ: Mapping[str, str],
    job: Job,
) -> AsyncIterator[Place]:
    """Open a host of this process for a plan, once a session of it was opened and closed again.

    Its code is that which the lock file names, and nothing is fetched.

    Raises:
        PaddockError: the plan cannot be read, or no session of it can be opened here.
    """
    plan = await anyio.to_thread.run_sync(partial(load_plan, file, environ=environ))
    settings = SessionSettings(
        isolation=job.isolation,
        trust_plan=job.is_trusted,
        grants=job.grants,
        sources=SourceOptions(
            LockUse.FROZEN,
            offline=True,
            no_fetching=_NO_FETCHING,
        ),
        environ=environ,
    )
    async with Host() as host:
        place = LocalPlace(plan, settings, host)
        await place.check(Attempt(Task(id="trial", prompt="none is run"), 1, file.parent))
        yield place


async def facts_of(environ: Mapping[str, str]) -> Facts:
    """Return what this machine is, as far as that is known without starting anything."""
    version = f"{platform.python_implementation()} {platform.python_version()} {sys.platform}-{platform.machine()}"
    try:
        digest, problem = await anyio.to_thread.run_sync(_policy_digest, environ), ""
    except PolicyFileError as error:
        digest, problem = "", error.summary
    return Facts(
        paddock=paddock.__version__,
        python=version,
        policy=digest,
        problem=problem,
    )


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


@asynccontextmanager
async def _folder() -> AsyncIterator[Path]:
    """Provide a folder; that of a killed process is removed by the next one that opens a host."""
    made = await anyio.to_thread.run_sync(PrivateFolder)
    try:
        yield made.path
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(made.remove)
