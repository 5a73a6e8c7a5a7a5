"""What the operator of a session sees and does from another process: the answers of its control socket.

Figures are read when somebody asks, those of processes in a thread. Texts of modules have known secrets masked. A
module whose oldest call is open is `blocked` once it used no processor time, called nobody and was called by nobody for
`_QUIET_SECONDS`, as it is seen here: the answer needs an earlier one to compare with.
"""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from pydantic import BaseModel

from paddock import __version__
from paddock.control.socket import ControlSocket, Peer
from paddock.control.status import Done, LogLine, LogLines, ModuleRow, Request, SessionStatus, State, cut
from paddock.errors import KindError, ModuleDiedError
from paddock.rpc.calls import RoutedCall
from paddock.session.module import HostedModule
from paddock.session.resources import SessionResources
from paddock.session.runtime import SessionRuntime
from paddock.state_folder import control_folder
from paddock.workers.exit_report import ExitReason
from paddock.workers.limits.tree_limits import LimitedTree
from paddock_sandbox.cgroup import CgroupUse

_QUIET_SECONDS: Final = 5.0
_LINE_CHARACTERS: Final = 4000
_LINES: Final = 1000  # of one module, in one answer

_log = logging.getLogger(__name__)


class Turn(NamedTuple):
    """How many turns began, and when the one that runs did, by the monotonic clock."""

    number: int = 0
    began: float | None = None


class SessionEndedError(KindError):
    """Raised for a turn of a session that an operator ended; a chat ends with it."""


_Done = tuple[float, int, int]
"""What a module has used, was called and printed so far."""


class OperatedSession:
    """Answers an operator's requests about one session; `turn` and `cancel` are the session's own."""

    def __init__(
        self,
        plan: Path | None,
        resources: SessionResources,
        runtime: SessionRuntime,
        turn: Callable[[], Turn],
        cancel: Callable[[], None],
    ) -> None:
        self._id = resources.options.session
        self._plan = plan
        self._resources = resources
        self._runtime = runtime
        self._audit = resources.options.audit
        self._turn = turn
        self._cancel = cancel
        self._ended_by: Peer | None = None
        self._began = time.time()
        self._quiet: WeakKeyDictionary[HostedModule, tuple[_Done, float]] = WeakKeyDictionary()  # and since when

    def ended(self, *, is_kept: bool) -> SessionEndedError | None:
        """Return what each turn fails with since an operator ended the session; None if nobody did."""
        if self._ended_by is None:
            return None
        folder = self._resources.options.working_dir
        elsewhere = [] if folder == Path.cwd() else ["-C", str(folder)]
        goes_on = shlex.join(["paddock", "chat", "--resume", self._id, *elsewhere])
        return SessionEndedError(
            "SessionEndedError",
            f"the session is over: {_by(self._ended_by)}",
            exit_code=ModuleDiedError.exit_code,
            hints=[f"to go on with it: `{goes_on}`"] if is_kept else ["it was not kept: start a new one"],
        )

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen at a control socket, if there can be one; a session goes on without."""
        try:
            folder = control_folder(self._resources.options.environ)
            socket = ControlSocket.listening(folder, self.answer, self._inits)
            await socket.__aenter__()
        except OSError as error:
            _log.warning("this session cannot be seen by `paddock ps`, as it has no control socket: %s", error)
            yield
            return
        try:
            yield
        finally:
            await socket.__aexit__(None, None, None)

    async def answer(self, request: Request, peer: Peer) -> BaseModel:
        """Return what a request asks for.

        Raises:
            LookupError: there is no module of that name.
        """
        modules = self._named(request.module)
        if request.do is not None:
            return self._act(request, modules, peer)
        if request.get == "logs":
            return self._logs(modules, request.since)
        return await self._status(modules)

    def _named(self, name: str | None) -> dict[str, HostedModule]:
        modules = {shown: one for shown, one in self._resources.modules().items() if name in (None, shown, one.name)}
        if name is not None and not modules:
            raise LookupError(f"the session has no module `{name}`")
        return modules

    def _inits(self) -> frozenset[int]:
        processes = [module.supervisor.process for module in self._resources.modules().values()]
        return frozenset(process.init_pid for process in processes if process is not None)

    # -- what is asked for -----------------------------------------------------------------

    async def _status(self, modules: dict[str, HostedModule]) -> SessionStatus:
        before = time.monotonic()
        await anyio.lowlevel.checkpoint()
        now = time.monotonic()
        trees = [module.supervisor.limited_tree for module in modules.values()]
        used = await anyio.to_thread.run_sync(_used, trees)
        turn = self._turn()
        rows = [self._row(name, module, use) for (name, module), use in zip(modules.items(), used, strict=True)]
        return SessionStatus(
            session=cut(self._id),
            plan=None if self._plan is None else cut(str(self._plan)),
            folder=cut(str(self._resources.options.working_dir)),
            pid=os.getpid(),
            uid=os.geteuid(),
            version=__version__,
            began=self._began,
            at=time.time(),
            turn=turn.number,
            turn_seconds=None if turn.began is None else now - turn.began,
            lag_ms=(now - before) * 1000,
            modules=tuple(rows),
        )

    def _row(self, name: str, module: HostedModule, use: CgroupUse) -> ModuleRow:
        supervisor, limits = module.supervisor, module.limits
        cpu_seconds = supervisor.cpu_seconds + (use.cpu_seconds or 0.0)
        call = _oldest_call(module)
        denials, reports = module.denials, module.reports
        return ModuleRow(
            module=cut(name),
            kind=module.kind,
            level=module.level or supervisor.spec.profile.level,
            state=self._state(module, call, cpu_seconds),
            call="" if call is None else cut(self._runtime.router.method_name(call)),
            call_seconds=None if call is None else time.monotonic() - call.began,
            pid=None if supervisor.process is None else supervisor.process.pid,
            cpu_seconds=cpu_seconds,
            memory_bytes=use.memory_bytes,
            memory_max=limits.memory_max,
            tasks=use.tasks,
            tasks_max=limits.tasks_max,
            calls=module.calls,
            queued=module.peer.waiting if module.is_running else 0,
            restarts=supervisor.restarts,
            printed_bytes=supervisor.printed_bytes,
            last_denial=self._shown(denials[-1].describe()) if denials else "",
            last_end=self._shown(reports[-1].describe()) if reports else "",
        )

    def _state(self, module: HostedModule, call: RoutedCall | None, cpu_seconds: float) -> State:
        supervisor = module.supervisor
        if supervisor.is_revoked:
            return "revoked"
        if supervisor.quarantined:
            return "quarantined"
        if not module.is_running:
            begins: State = "restarting" if module.was_mounted else "starting"
            return begins if supervisor.process is not None or supervisor.is_starting else "gone"
        if call is None:
            return "idle"
        if module.peer.incoming:  # it waits for another module, or for the host
            return "busy"
        now = time.monotonic()
        done = (cpu_seconds, module.calls, supervisor.printed_bytes)
        before, since = self._quiet.get(module, (None, now))
        if before != done:
            since = now
        self._quiet[module] = (done, since)
        return "blocked" if now - max(since, call.began) >= _QUIET_SECONDS else "busy"

    def _logs(self, modules: dict[str, HostedModule], since: dict[str, int]) -> LogLines:
        lines, positions, dropped = [], {}, {}
        for name, module in modules.items():
            output = module.supervisor.output
            if output is None:
                continue
            # Earlier lives: what they printed, and the end of each.
            before = module.supervisor.printed_bytes - output.total_bytes + module.supervisor.restarts
            position = since.get(cut(name), 0)
            found, lost = output.since(position - before)
            if position < before:
                lost = max(0, lost - module.supervisor.restarts)  # an end is no byte
            lost += sum(len(line.text) + 1 for line in found[:-_LINES])
            for line in found[-_LINES:]:
                text = self._resources.secrets.mask(line.text)
                lines.append(LogLine(module=cut(name), stream=line.stream, text=text[:_LINE_CHARACTERS]))
            positions[cut(name)] = before + output.position
            if lost:
                dropped[cut(name)] = lost
        return LogLines(lines=tuple(lines), positions=positions, dropped=dropped)

    def _shown(self, text: str) -> str:
        return cut(self._resources.secrets.mask(text))

    # -- what is done ----------------------------------------------------------------------

    def _act(self, request: Request, modules: dict[str, HostedModule], peer: Peer) -> Done:
        assert request.do is not None
        asked = sum(module.open_approvals for module in modules.values())
        count = "1 question of its modules was" if asked == 1 else f"{asked} questions of its modules were"
        said = [f"{count} open at the session's terminal; nobody needs to answer any more"] if asked else []
        who = {"peer_pid": peer.pid, "peer_uid": peer.uid}
        if request.do == "end" and request.module is None:
            self._audit.record("session.ended_by_operator", **who)
            self._ended_by = peer
            self._cancel()
            self._runtime.router.tasks.spawn(self._kill(modules, peer))  # once this is answered
            return Done(done="end", said=tuple(said))
        if request.module is None:
            raise LookupError(f"name the module to {request.do}")
        for module in modules.values():
            if request.do == "lift":
                module.supervisor.lift_quarantine()
                self._audit.record("quarantine.lifted", module=module.name, **who)
            elif request.do == "revoke":
                self._resources.revoke(module.name)
                self._audit.record("grants.revoked", module=module.name, **who)
            else:
                self._audit.record("module.ended_by_operator", module=module.name, **who)
                module.supervisor.end(ExitReason.KILLED_BY_HOST, detail=_by(peer))
        return Done(done=request.do, said=tuple(said) if request.do != "lift" else ())

    async def _kill(self, modules: dict[str, HostedModule], peer: Peer) -> None:
        for module in modules.values():
            module.supervisor.end(ExitReason.KILLED_BY_HOST, detail=_by(peer))
        async with anyio.create_task_group() as stopping:
            for module in modules.values():
                stopping.start_soon(module.supervisor.stop)


def _by(peer: Peer) -> str:
    return f"an operator ended it (process {peer.pid})"


def _used(trees: list[LimitedTree | None]) -> list[CgroupUse]:
    return [CgroupUse() if tree is None else tree.use() for tree in trees]


def _oldest_call(module: HostedModule) -> RoutedCall | None:
    if not module.is_running:
        return None
    calls = module.peer.channel.calls
    id = calls.oldest()
    call = None if id is None else calls.get(id)
    return call if isinstance(call, RoutedCall) else None
