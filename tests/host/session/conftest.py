"""A session's kernel whose modules are scripted workers: everything but the processes is the real thing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from paddock.audit import AuditLog
from paddock.errors import Denial
from paddock.isolation.denials.attempt import AccessAttempt, AttemptJudge
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.limits import ResourceLimits
from paddock.rpc.host_calls import HostCalls
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded, Peer
from paddock.rpc.router import Router
from paddock.rpc.tasks import SessionTasks
from paddock.session.host_api.definitions import SessionDefinitions
from paddock.session.host_api.service import HostService
from paddock.session.journals.context_journal import ContextJournal
from paddock.session.journals.journal_store import JournalStore
from paddock.session.module import HostedModule
from paddock.session.modules import HostedModules
from paddock.session.shutdown import ShutdownDeadlines
from paddock.session.state.coordinator import HostedCoordinator
from paddock.session.state.mirrors import Mirrors
from paddock.workers.exit_report import ExitReason, ExitReport, LimitHit
from paddock_sdk.protocol import Kind
from paddock_sdk.protocol.methods import HostMethod, MirrorSection, WorkerMethod
from support.scripted_end import ASYNC, Lent

from ..rpc.scripted_worker import ScriptedWorker, until

_SECONDS = 60  # for one whole test; hit only by a hang

Mount = Callable[[ScriptedWorker], Awaitable[None]]


class ScriptedSupervisor:
    """Starts scripted workers where the real one starts processes, and keeps why each was ended."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.process: SimpleNamespace | None = None
        self.reports: list[ExitReport] = []
        self.workers: list[ScriptedWorker] = []
        self.call_in_flight: str | None = None
        self.restarts = 0
        self.on_start: BaseException | None = None
        self._stack = stack
        self._exited: Callable[[ExitReport], None] = lambda report: None

    @property
    def worker(self) -> ScriptedWorker:
        """The worker of the current or latest life."""
        return self.workers[-1]

    def note_call(self, method: str) -> None:
        self.call_in_flight = method

    def limits_met(self) -> tuple[str, ...]:
        return ()

    def on_exit(self, callback: Callable[[ExitReport], None]) -> None:
        self._exited = callback

    async def start(self) -> SimpleNamespace:
        if self.on_start is not None:
            raise self.on_start
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        worker = ScriptedWorker(theirs)
        self._stack.callback(worker.close)
        ended = asyncio.Event()
        self.process = SimpleNamespace(
            rpc=ours,
            ready=SimpleNamespace(lockdown=SimpleNamespace(level="none")),
            wait=ended.wait,
            ended=ended,
            pid=1,
            last_attempts=(),
            init_pid=0,  # there is no such process
        )
        self.restarts = len(self.workers)
        self.workers.append(worker)
        return self.process

    def end(self, reason: ExitReason, limit: LimitHit | None = None, *, detail: str = "") -> None:
        """End the process, as the host would."""
        process, self.process = self.process, None
        if process is None:
            return
        code = 1 if reason is ExitReason.EXITED else None
        report = ExitReport(
            "scripted", reason, 1.0, code, limit=limit, detail=detail, call_in_flight=self.call_in_flight
        )
        self.reports.append(report)
        process.ended.set()
        self.worker.close()
        self._exited(report)

    async def report(self, process: SimpleNamespace, within: float = 1.0) -> ExitReport:
        """End a process that has closed its connection, as the real one does in time."""
        if process is self.process:
            self.end(ExitReason.PROTOCOL)
        return self.reports[-1]

    def die(self) -> None:
        """Let the process end by itself."""
        self.end(ExitReason.EXITED)

    async def stop(self, goodbye: Callable[[], Awaitable[None]]) -> None:
        await goodbye()
        self.end(ExitReason.KILLED_BY_HOST)


class CountedMirrors(Mirrors):
    """The real mirrors, and the workers that are attached to them."""

    def __init__(self, marshaller: Marshaller) -> None:
        super().__init__(marshaller)
        self.attached: set[Peer] = set()

    def attach(self, peer: Peer, own_capability: Encoded | None = None) -> None:
        self.attached.add(peer)
        super().attach(peer, own_capability)

    def detach(self, peer: Peer) -> None:
        super().detach(peer)
        self.attached.discard(peer)


class NoJudge(AttemptJudge):
    """Finds no attempt that was refused."""

    def __init__(self) -> None: ...

    def tell(self, attempt: AccessAttempt) -> Denial | None:
        return None

    def judge(self, attempt: AccessAttempt) -> Denial | None:
        return None

    def started(self, attempt: AccessAttempt) -> str:
        return ""

    def left(self) -> Iterator[AccessAttempt]:
        yield from ()


class Hosted:
    """The kernel of one session."""

    def __init__(self, tasks: SessionTasks, stack: contextlib.ExitStack) -> None:
        self.marshaller = Marshaller()
        self.mirrors = CountedMirrors(self.marshaller)
        self.journal = ContextJournal(self.marshaller, JournalStore())
        self.modules = HostedModules(self.marshaller, self.journal)
        self.definitions = SessionDefinitions()
        session = SimpleNamespace(session_id="the-session", parent_id=None, config={"session": {}})
        self.coordinator = HostedCoordinator(session, self.marshaller, self.mirrors)
        self.router = Router(
            self.marshaller,
            tasks,
            self.modules,
            lambda router: HostService(router, self.coordinator, self.mirrors, self.modules.of, self.definitions),
        )
        self.host_calls = HostCalls(self.router)
        self.audit = AuditLog.silent()
        self.deadlines = ShutdownDeadlines()
        self.judge: AttemptJudge = NoJudge()  # of the modules that are added from here on
        self.own_capability: Encoded | None = None  # likewise
        self.problems: list[dict[str, Any]] = []
        self._stack = stack
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.problems.append(context))

    @property
    def has_workers(self) -> bool:
        """Whether any worker is still told of the session's state."""
        return bool(self.mirrors.attached)

    async def start(
        self, kind: str, module: str, mount: Mount | None = None, **entry: Any
    ) -> tuple[HostedModule, ScriptedWorker]:
        """Start a module whose `mount` is what the test does with its worker."""
        hosted = self.add(kind, module, **entry)
        await self.bring_up(hosted, mount)
        return hosted, hosted.supervisor.worker  # type: ignore[attr-defined]

    def add(self, kind: str, module: str, **entry: Any) -> HostedModule:
        """Take a module into the session without starting it."""
        place = EntryPlace(kind, f"{kind}s[0]", Path("/"))  # type: ignore[arg-type]
        read = ModuleEntry.read({"module": module, **entry}, place)
        resolution = SimpleNamespace(
            source="./nothing",
            import_root=Path("/nowhere"),
            libraries=(),
            package="nothing",
            attribute="mount",
            package_dir=Path("/nowhere/nothing"),
        )
        supervisor = ScriptedSupervisor(self._stack)
        limits = ResourceLimits.of(read)
        hosted = HostedModule(
            read,
            resolution,  # type: ignore[arg-type]
            supervisor,  # type: ignore[arg-type]
            self.host_calls,
            self.coordinator,
            self.mirrors,
            {},
            limits,
            self.audit,
            deadlines=self.deadlines,
            judge=self.judge,
            in_session=self.modules.in_session,
            own_capability=self.own_capability,
        )
        self.modules.add(hosted)
        return hosted

    async def bring_up(self, hosted: HostedModule, mount: Mount | None = None) -> ScriptedWorker:
        """Start a module, or start it again."""
        starting = asyncio.ensure_future(hosted.start())
        worker = await self.mount_next(hosted, mount)
        await starting
        return worker

    async def die(self, hosted: HostedModule) -> None:
        """Let a module's process end by itself."""
        hosted.supervisor.die()  # type: ignore[attr-defined]
        await until(lambda: not hosted.is_running)

    async def mount_next(self, hosted: HostedModule, mount: Mount | None = None) -> ScriptedWorker:
        """Play the next life of a module up to where it is mounted."""
        lives = len(hosted.supervisor.workers)  # type: ignore[attr-defined]
        await until(lambda: len(hosted.supervisor.workers) > lives)  # type: ignore[attr-defined]
        worker: ScriptedWorker = hosted.supervisor.worker  # type: ignore[attr-defined]
        await worker.greet()
        request = await worker.request_from_host()
        assert (request.target, request.method) == (0, WorkerMethod.MOUNT)
        if mount is not None:
            await mount(worker)
        worker.respond(request.id, {"mounted": True, "on_session_ready": False})
        return worker


@pytest.fixture
async def hosted() -> AsyncIterator[Hosted]:
    with contextlib.ExitStack() as stack:
        async with SessionTasks() as tasks:
            made = Hosted(tasks, stack)
            with anyio.fail_after(_SECONDS):
                yield made
            for module in made.modules.all:
                await module.stop()
            await until(lambda: not made.has_workers)
        await asyncio.sleep(0)
    assert not made.problems, made.problems


def mounts(point: str, name: str | None, lent: Callable[[ScriptedWorker], Lent]) -> Mount:
    """Return a `mount` that mounts one object."""

    async def mount(worker: ScriptedWorker) -> None:
        await worker.ask(0, HostMethod.MOUNT, [point, name, lent(worker)])

    return mount


def tool(name: str, id: int = 5, **attributes: Any) -> Mount:
    """Return a `mount` that mounts a tool."""
    return mounts("tools", name, lambda worker: worker.own(id, {"execute": ASYNC}, name=name, **attributes))


def changes(worker: ScriptedWorker, *sections: MirrorSection) -> list[Any]:
    """Return the mirror changes of these sections that a worker has heard, in order, and take them."""
    frames = [frame for frame in worker.heard(Kind.MIRROR) if frame.method in sections]
    for frame in frames:
        worker.frames.remove(frame)
    return [
        frame if frame.method in (MirrorSection.CAPABILITY, MirrorSection.ATTRIBUTE) else worker.value(frame)
        for frame in frames
    ]
