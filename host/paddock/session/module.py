"""One module of a session, over all its lives: from its plan entry to its last exit report.

A module is started when the session mounts it, and again on demand after a death. Its mounts and registrations keep
their places: the same handles and registrations then stand for the objects of the new life. A start ends with the
module mounted, or leaves no process behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import anyio

from paddock.audit import AuditLog
from paddock.authorization.suggestions.pasted import line_for
from paddock.errors import Denial, ModuleDiedError, ModuleLoadError, PlanProblem
from paddock.isolation.denials.attempt import AccessAttempt, AttemptJudge, AttemptReview
from paddock.isolation.denials.log import DenialLog
from paddock.plan.model import ModuleEntry
from paddock.plan.units import size_text
from paddock.policy.authority import Authority
from paddock.policy.limits import ResourceLimits
from paddock.rpc.admission import PeerLimits
from paddock.rpc.calls import RoutedCall
from paddock.rpc.host_calls import HostCalls, StandInCaller
from paddock.rpc.peer import CallPolicy, Encoded, Handle, Peer
from paddock.session.load_error import hanging_error, load_error, programs_of
from paddock.session.mount_rules import NameTakenError, check_place
from paddock.session.proxies.function import Contributor, RegisteredFunction
from paddock.session.proxies.hook import HookProxy
from paddock.session.proxies.orchestrator import OrchestratorProxy
from paddock.session.quota import ModuleRateLimits, OutputBudget, RegistrationQuota
from paddock.session.registrations import Registration, Registrations
from paddock.session.requester import Requester, note_prompt
from paddock.session.shutdown import ShutdownDeadlines
from paddock.session.state.coordinator import HostedCoordinator
from paddock.session.state.mirrors import Mirrors, describe_anew
from paddock.session.state.ownership import SharedItem
from paddock.time_limit import while_running
from paddock.workers.exit_report import PROTOCOL, ExitReason, ExitReport, LimitHit
from paddock.workers.process import ModuleProcess
from paddock.workers.supervisor import Supervisor
from paddock_sdk.contract.boundary_errors import ModuleGoneError
from paddock_sdk.protocol import (
    PROTOCOL_VERSION,
    Connection,
    LocalProtocolError,
    OverBudgetError,
    RemoteProtocolError,
    Role,
)
from paddock_sdk.protocol.methods import WorkerMethod
from paddock_sources import Resolution

_DEATH_SECONDS: Final = 10.0  # from a lost connection to the report of how the process ended
_UNREAD_SECONDS: Final = 60.0  # in which a module that serves no call must read some of its messages

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InSession:
    """What a session provides to its modules.

    `on_start` is called with each new life. `restore` brings a context that was started again to its former state.
    `policy_of` returns the policy of an object that a module mounts at a point, under a name.
    """

    on_start: Callable[[Peer, HostedModule], None]
    restore: Callable[[HostedModule], Awaitable[None]]
    policy_of: Callable[[HostedModule, str, str | None], CallPolicy | None]


@dataclass(slots=True)
class _Life:
    """One process of a module, and how it ended."""

    process: ModuleProcess
    peer: Peer
    report: asyncio.Future[ExitReport]


class HostedModule:
    """A module of one session; people know it by its `name`, which is its id, or its instance where it has one."""

    def __init__(
        self,
        entry: ModuleEntry,
        resolution: Resolution,
        supervisor: Supervisor,
        host_calls: HostCalls,
        coordinator: HostedCoordinator,
        mirrors: Mirrors,
        config: dict[str, Any],
        limits: ResourceLimits,
        audit: AuditLog,
        *,
        deadlines: ShutdownDeadlines,
        judge: AttemptJudge,
        in_session: InSession,
        own_capability: Encoded | None = None,
    ) -> None:
        self.entry = entry
        self.name = entry.instance_id or entry.module
        self.kind = entry.kind
        self.resolution = resolution
        self.supervisor = supervisor
        self.reports = supervisor.reports
        self.authority = Authority(entry, partial(line_for, entry.permissions))
        self.audit = audit
        self.deadlines = deadlines
        self.quota = RegistrationQuota()
        self.rate_limits = ModuleRateLimits(entry.kind)
        self.open_approvals = 0
        router = host_calls.router
        self._denials = DenialLog(self.kind, self.name, audit, router.now)
        self.deny, self.denials_since = self._denials.record, self._denials.since
        self.attempts = AttemptReview(
            self._denials.record, router.tasks.spawn, self.rate_limits.attempts, self._denials.leave_out, judge
        )
        self.limits = limits
        self._peer_limits = PeerLimits(
            limits.runtime_max,
            limits.call_max,
            limits.calls_max,
            self.rate_limits.work,
            self.rate_limits.answers,
            limits.open_bytes_max,
            _UNREAD_SECONDS,
        )
        self.wants_session_ready = False
        self.conflict: PlanProblem | None = None  # with another entry of the plan, over a name
        self._in_session = in_session
        self._router = router
        self._host_calls = host_calls
        self._coordinator = coordinator
        self._mirrors = mirrors
        self._own_capability = own_capability
        self._config = config
        self._life: _Life | None = None
        self.registrations = Registrations(router.marshaller.codec)
        self.was_mounted = False  # in this life or an earlier one
        self._ahead: asyncio.Future[Exception | None] | None = None
        self._made_ready: ModuleProcess | None = None  # whose end of the connection has no owner yet
        self.level = ""  # of the isolation of its process
        self._earlier_calls = 0  # of lives before this one
        self._lock = asyncio.Lock()
        supervisor.on_exit(self._on_exit)

    @property
    def peer(self) -> Peer:
        """The worker of the current or latest life."""
        assert self._life is not None, "a module speaks only once it has been started"
        return self._life.peer

    @property
    def is_running(self) -> bool:
        return self._life is not None and self._life.peer.is_open

    @property
    def calls(self) -> int:
        """The calls that were made to the module in all its lives; its mount and its events are among them."""
        return self._earlier_calls + (0 if self._life is None else self._life.peer.channel.connection.requests_sent)

    # -- lives -----------------------------------------------------------------------------

    def launch_ahead(self) -> None:
        """Prepare the first process, which `start` takes over; no code of the module runs before that."""
        self._ahead = asyncio.get_running_loop().create_future()
        self._router.tasks.spawn(self._launch(self._ahead))

    async def _launch(self, ahead: asyncio.Future[Exception | None]) -> None:
        problem: Exception | None = None
        try:
            self._made_ready = await self.supervisor.start()
        except Exception as exc:  # reported to the starter of the module
            problem = exc
        finally:
            ahead.set_result(problem)

    async def _process(self) -> ModuleProcess:
        """Return the process of the next life.

        Raises:
            LaunchError: none could be made.
            QuarantinedError: it ended too often to be tried again.
        """
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            problem = await asyncio.shield(ahead)
            if problem is not None:
                raise problem
        elif self.supervisor.process is not None:  # its connection is gone, and it not quite yet
            await self.supervisor.report(self.supervisor.process)
        process = await self.supervisor.start()  # returns the one that was launched ahead, if it lives
        made_ready, self._made_ready = self._made_ready, None
        if made_ready is not None and made_ready is not process:  # it has died meanwhile
            made_ready.rpc.close()
        return process

    async def start(self) -> None:
        """Start and mount the module, unless it runs.

        Raises:
            LaunchError: no process could be made.
            QuarantinedError: it ended too often to be tried again.
            ModuleLoadError: it did not greet, could not be imported, or did not mount.
        """
        async with self._lock:
            if self.is_running:
                return
            is_restart = self.was_mounted
            process = await self._process()
            self.level = process.ready.lockdown.level
            peer = Peer(
                self.name,
                self.kind,
                self._router,
                partial(StandInCaller, self._host_calls),
                self.authority,
                Connection(Role.HOST, receive_limit=self.limits.frame_max),
                self._peer_limits,
            )
            self._earlier_calls = self.calls
            self._life = _Life(process, peer, asyncio.get_running_loop().create_future())
            self._in_session.on_start(peer, self)
            self.registrations.begin_life(peer)
            self.quota.begin_life()
            try:
                with while_running(anyio.fail_after(self.limits.start_max)) as time:
                    await self._bring_up(process, peer, is_restart, time)
            except TimeoutError as exc:
                limit = LimitHit("start_max", self.limits.start_max, "", "host timer")
                programs = programs_of(process)
                self._abandon(peer, ExitReason.TIMEOUT, limit=limit)
                raise hanging_error(self.entry, self.limits.start_max, programs, await self._death()) from exc
            except LocalProtocolError as exc:
                self._abandon(peer, ExitReason.START, detail=str(exc))
                raise ModuleLoadError(self.name, "start", f"the session cannot be sent to it: {exc}") from exc
            except BaseException as exc:
                self._abandon(peer, ExitReason.START, detail=getattr(exc, "summary", ""))
                raise
            self.registrations.end_beginning()
            self.was_mounted = True
            limits = self.limits.by_name
            self.audit.record("module.started", module=self.name, level=self.level, again=is_restart, limits=limits)

    async def _bring_up(self, process: ModuleProcess, peer: Peer, is_restart: bool, time: anyio.CancelScope) -> None:
        # The context answers no call before it holds its predecessor's messages.
        must_restore = is_restart and self.kind == "context"
        peer.mark_restoring(must_restore)
        await peer.channel.open(process.rpc)
        if self.limits.output_max is not None:
            budget = OutputBudget(self.limits.output_max, peer.channel.calls.oldest, self._on_output_spent)
            process.output.watch(budget.note)
        await self._greet(peer)
        self._mirrors.attach(peer, self._own_capability)
        await self._mount(peer, time)
        if must_restore:
            try:
                await self._in_session.restore(self)
            except Exception as exc:  # also after any exception of the module
                cause = f"what it had before could not be restored: {exc}"
                raise ModuleLoadError(self.name, "mount", cause) from exc
        if is_restart and self.wants_session_ready:
            await self._ask_ready(time)
        peer.mark_restoring(False)

    def _abandon(self, peer: Peer, reason: ExitReason, *, limit: LimitHit | None = None, detail: str = "") -> None:
        """End a life that was not mounted: the first leaves nothing; what an earlier one left waits for the next."""
        self.supervisor.end(reason, limit, detail=detail)
        peer.channel.close()
        if not self.was_mounted:
            self.registrations.take_back_all()

    async def _greet(self, peer: Peer) -> None:
        hello = await peer.hello
        if hello is None:
            raise await self._death_at("handshake", "it closed its connection")
        try:
            greeting = self._router.marshaller.codec.decode(hello.body)
        except RemoteProtocolError as exc:
            raise ModuleLoadError(self.name, "handshake", str(exc)) from exc
        spoken = greeting.get("protocol") if isinstance(greeting, dict) else None
        if spoken != PROTOCOL_VERSION:
            cause = f"it speaks protocol {spoken!r}; this host speaks {PROTOCOL_VERSION}"
            raise ModuleLoadError(self.name, "handshake", cause)
        welcome = self._router.marshaller.encode({"protocol": PROTOCOL_VERSION, "frame_max": self.limits.frame_max})
        peer.channel.write(peer.channel.connection.send_welcome(welcome.body))

    async def _death_at(self, stage: Literal["handshake", "mount"], otherwise: str) -> ModuleLoadError:
        report = await self._death()
        if report is None:
            return ModuleLoadError(self.name, stage, otherwise)
        tail = "\n".join(report.stderr_tail)
        return ModuleLoadError(self.name, stage, report.describe(), traceback=tail, report=report)

    async def _mount(self, peer: Peer, time: anyio.CancelScope) -> None:
        marshaller = self._router.marshaller
        request = {
            "import_root": str(self.resolution.import_root),
            "libraries": [str(folder) for folder in self.resolution.libraries],
            "package": self.resolution.package,
            "attribute": self.resolution.attribute,
            "config": self._config,
        }
        try:
            written = marshaller.encode(request)
            answer = marshaller.decode(await self._host_calls.ask(peer, WorkerMethod.MOUNT, written, time))
        except ModuleGoneError as exc:
            raise await self._death_at("mount", str(exc)) from exc
        except Exception as exc:  # Paddock's runtime answers a mount with an outcome; this is another runtime
            raise ModuleLoadError(self.name, "mount", f"its runtime failed: {exc}") from exc
        match answer:
            case {"mounted": True, "on_session_ready": bool() as wants}:
                self.wants_session_ready = wants
            case {"mounted": False, "stage": "import" | "lookup" | "mount" as stage, "error": BaseException() as error}:
                raise load_error(self.name, stage, error, self.resolution)
            case _:
                raise ModuleLoadError(self.name, "mount", "its runtime gave a malformed answer")

    async def session_ready(self) -> None:
        """Notify the module that everything is mounted.

        Raises:
            TimeoutError: it has not taken note within the time it has to start.
        """
        with while_running(anyio.fail_after(self.limits.start_max)) as time:
            await self._ask_ready(time)

    async def _ask_ready(self, time: anyio.CancelScope) -> None:
        nothing = self._router.marshaller.encode([])
        await self._host_calls.ask(self.peer, WorkerMethod.SESSION_READY, nothing, time)

    async def ask_mounted(self, handle: Handle, member: str, message: Encoded) -> Encoded:
        """Call a member of an object of this module's present life, and return the answer undecoded.

        Raises:
            AttributeError: the object has no such member.
            Exception: as `HostCalls.call_now`.
        """
        method = handle.description(self._router.marshaller.codec).number_of(member)
        if method is None:
            raise AttributeError(f"{self.kind} `{self.name}` has no `{member}`")
        return await self._host_calls.call_now(handle, method, message)

    async def stop(self) -> None:
        """End the module for good."""
        if self._life is None:  # no code of the module has run in a prepared process, and none would read a goodbye
            self.supervisor.end(ExitReason.KILLED_BY_HOST)
        try:
            await self.supervisor.stop(self._goodbye)
        finally:
            if self._made_ready is not None:
                self._made_ready.rpc.close()
            if self._life is not None:
                self._life.peer.channel.close()

    async def _goodbye(self) -> None:
        if self.is_running:
            self.peer.channel.goodbye()

    # -- deaths ----------------------------------------------------------------------------

    def on_lost(self, peer: Peer) -> None:
        """End the process, whose connection is gone."""
        self._mirrors.detach(peer)
        process = self.supervisor.process
        if process is not None and self._life is not None and self._life.peer is peer:
            self._router.tasks.spawn(self.supervisor.report(process))

    def on_violation(self, error: RemoteProtocolError) -> None:
        """End the module, which broke the protocol."""
        _log.warning("module `%s` broke the protocol: %s", self.name, error)
        limit = None
        if isinstance(error, OverBudgetError):
            limit = LimitHit(error.limit, error.allowed, str(error.observed), PROTOCOL)
        self.supervisor.end(ExitReason.PROTOCOL, limit, detail=str(error))

    def on_overdue(self, method: str, limit_name: str) -> None:
        """End the module, because a call has run longer than it may."""
        self.supervisor.note_call(method)
        limit = LimitHit(limit_name, getattr(self.limits, limit_name), "", "host timer")
        self.supervisor.end(ExitReason.TIMEOUT, limit)

    def on_over_quota(self, limit: LimitHit) -> None:
        """End the module, because its kept folder holds more than it may."""
        self.supervisor.end(ExitReason.DISK, limit)

    def _on_output_spent(self, printed: int) -> None:
        """End the module, because it has printed more during a call than it may."""
        limit = LimitHit("output_max", self.limits.output_max or 0, size_text(printed), "host count")
        self.supervisor.end(ExitReason.OUTPUT, limit)

    async def death(self, peer: Peer, method: str) -> ModuleDiedError:
        """Return the error that describes how the life behind `peer` ended, during `method`."""
        report = await self._death() if self._life is not None and self._life.peer is peer else None
        if report is None:
            report = ExitReport(self.name, ExitReason.KILLED_BY_HOST, 0.0)
        else:
            report = self._during(method, report)
        return ModuleDiedError(self.name, report, hints=report.hints)

    def _during(self, method: str | None, report: ExitReport) -> ExitReport:
        """Return a report that names the call in flight, if it names none."""
        if method is None or report.call_in_flight is not None:
            return report
        complete = replace(report, call_in_flight=method)
        self.reports[:] = [complete if known is report else known for known in self.reports]
        return complete

    async def _death(self) -> ExitReport | None:
        if (life := self._life) is None:
            return None
        with while_running(anyio.move_on_after(_DEATH_SECONDS)):
            return await asyncio.shield(life.report)
        return None

    def _on_exit(self, report: ExitReport) -> None:
        life = self._life
        if life is not None and not life.report.done():
            call = life.peer.channel.latest_call
            report = self._during(self._router.method_name(call) if isinstance(call, RoutedCall) else None, report)
            left = [AccessAttempt(kind, target) for kind, target in life.process.last_attempts]
            is_cut_short = report.code != 0 or not life.peer.channel.connection.said_goodbye
            self.attempts.weigh(left, has_failed=False, now=self._router.now(), is_cut_short=is_cut_short)
            life.report.set_result(report)
            if life.peer.channel.is_held:  # no caller waits for its notifications
                life.peer.channel.close()
            else:
                life.peer.channel.close_soon()
        self.audit.record("module.ended", module=self.name, report=report.as_dict(), calls=self.calls)

    # -- mounts and registrations ------------------------------------------------------

    def owns(self, obj: object) -> bool:
        """Whether something is an object of this module's own, of its current life."""
        return isinstance(obj, Handle) and obj.owner is self.peer

    def mount(self, point: str, name: str | None, obj: object) -> None:
        """Mount an object of this module, or renew the mount of an earlier life.

        Raises:
            CallRefusedError: the point is for another kind of module.
            ValueError: the name is another module's, or the point takes no objects.
            TypeError: the object is plain data.
        """
        if not isinstance(obj, Handle) or not self.owns(obj):
            raise TypeError("only an object of the module's own can be mounted")
        if obj.description(self._router.marshaller.codec).properties:
            self.peer.note_properties()
        if name is None and point in ("tools", "providers"):
            name = obj.description(self._router.marshaller.codec).attributes.get("name")
        place = (point, name)
        act = self.registrations.renew(("mount", *place), obj)
        if act is not None:
            self._mirrors.redescribed(act.own_handle)
            return
        coordinator, marshaller, was_mounted = self._coordinator, self._router.marshaller, self.was_mounted
        check_place(self.authority, coordinator, marshaller, point, name, owns=self.owns, was_mounted=was_mounted)
        with coordinator.coming_from(self.peer):
            coordinator.mount(point, self._stand_in(point, obj), name)
        self.registrations.add(("mount", *place), obj, lambda: self._withdraw(obj, place))
        policy = self._in_session.policy_of(self, point, name)
        if policy is not None:
            obj.follow(policy)

    def _withdraw(self, handle: Handle, place: tuple[str, str | None]) -> None:
        """Unmount an object from where it was mounted, or is now: a provider may have a new name."""
        present = self._coordinator.get(*place)
        is_there = present is not None and self._router.marshaller.handle_of(present) is handle
        where = place if is_there else handle.mounted
        if where is not None:
            with self._coordinator.coming_from(self.peer):
                self._coordinator.unmount(*where)

    def _stand_in(self, point: str, handle: Handle) -> object:
        marshaller = self._router.marshaller
        if point == "orchestrator":
            proxy = OrchestratorProxy(self._host_calls, handle, partial(describe_anew, self._host_calls, self._mirrors))
            marshaller.bind(proxy, handle)
            return proxy
        return marshaller.object_of(handle)

    def unmount(self, point: str, name: str | None) -> bool:
        """Unmount an object of this module; return whether there was one. Another module's object stays."""
        act = self.registrations.of("mount", point, name)
        if act is not None:
            self.registrations.take_back(act)
        return act is not None

    def mounted_at(self, handle: Handle) -> str | None:
        """Return the point at which `handle` is mounted, if it is."""
        key = self.registrations.key_of(handle, "mount")
        return str(key[1]) if key is not None else None

    def is_handler(self, handle: Handle) -> bool:
        """Whether `handle` is registered for events."""
        return self.registrations.key_of(handle, "handler") is not None

    def handle_at(self, point: str) -> Handle | None:
        """Return the handle of this module's object at a point that holds one object."""
        act = self.registrations.of("mount", point, None)
        return act.own_handle if act is not None else None

    def register_handler(
        self, event: str, priority: int, name: str | None, function: RegisteredFunction
    ) -> Registration:
        """Register a handler of this module, or renew the registration of an earlier life."""
        act = self.registrations.renew(("handler", event, name), function.handle)
        if act is None:
            ask = partial(note_prompt, Requester(self.kind, self.name))
            marshaller, on_failure = self._router.marshaller, self.entry.on_failure
            proxy = HookProxy(marshaller, function, self.name, on_failure, ask, self.deadlines)
            unregister = self._coordinator.hooks.register(event, proxy, priority, name)
            act = self.registrations.add(("handler", event, name), function.handle, unregister)
        return act

    def contribute(self, channel: str, name: str, function: RegisteredFunction) -> None:
        """Add a contributor of this module, or renew that of an earlier life."""
        key = ("contributor", channel, name)
        if self.registrations.renew(key, function.handle) is None:
            contributor = Contributor(self._router, function)
            withdraw = self._coordinator.contribute_from(self.peer, channel, name, contributor)
            self.registrations.add(key, function.handle, withdraw)

    def offer(self, name: str, value: Encoded) -> None:
        """Offer a capability, or renew that of an earlier life; one that is an object keeps its handle.

        Raises:
            NameTakenError: an object of another's is offered under that name.
        """
        handle = value.handles[0] if len(value.handles) == 1 and isinstance(value.handles[0], Handle) else None
        if handle is not None and self.registrations.renew(("capability", name), handle) is not None:
            return
        coordinator, thing = self._coordinator, SharedItem("capability", name)
        if (refusal := coordinator.ownership.refusal(thing, self.authority)) is not None:
            self.quota.give_back(("capability", name))
            self.deny(refusal)
            owner = coordinator.ownership.owner_of(thing)
            raise NameTakenError(f"{refusal.describe()}; {refusal.hint}", name, owner)
        coordinator.offer_from(self.peer, self.authority, name, value)
        if handle is not None:
            self.registrations.add(("capability", name), handle, lambda: coordinator.retract(name, value))

    # -- denials ------------------------------------------------------------------------

    @property
    def denials(self) -> tuple[Denial, ...]:
        """What the module was refused so far, without duplicates."""
        return self._denials.all

    @property
    def denials_left_out(self) -> int:
        """How many acts were refused, or perhaps were, beyond the noted ones."""
        return self._denials.left_out

    def note_conflict(self, error: NameTakenError) -> None:
        """Note that a name is taken; it is a conflict of the plan if another entry took it before this one started."""
        if not self.was_mounted and self.conflict is None:
            self.conflict = error.conflict(self.authority)

    @contextmanager
    def waiting_for_approval(self) -> Iterator[None]:
        """Count an approval that the module waits for."""
        self.open_approvals += 1
        try:
            yield
        finally:
            self.open_approvals -= 1
