"""The kernel's session over modules in workers: an application's first session, or a sub-session.

Processes are prepared side by side when initialising begins; the contract decides which modules are mounted, and in
which order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from paddock.authorization.authorizer import AuthorizedModule
from paddock.errors import AnswerTypeError, ModuleLoadError, PaddockError, PlanError, PlanProblem
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import Permissions
from paddock.session.module import HostedModule
from paddock.session.mount_rules import NameTakenError, check_instance
from paddock.session.resource_use import ResourceUse
from paddock.session.runtime import SessionCore, SessionRuntime
from paddock.session.session_plan import SessionPlan
from paddock.session.state.coordinator import HostedCoordinator
from paddock.session.sub_sessions.agent_plan import may_guard
from paddock.workers.exit_report import ExitReport
from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem
from paddock_sdk.kernel.loading import ReadyQueue
from paddock_sdk.kernel.session import AmplifierSession


@dataclass(frozen=True, slots=True)
class ModuleStatus:
    """The status of one module of a session; `live_from` is a folder that it runs from without a copy.

    `denials_left_out` counts acts that were refused, or perhaps were, beyond the kept `denials`. `place` is the place
    of the entry in the plan, and `granted` are the permissions in effect, as a plan would state them. `keeps_home`
    means that its home stays, by the plan or by its acceptance. `programs` are some that the module started; what the
    kernel refuses these is not among the denials. `resources` are complete once the module has ended.
    """

    module: str
    kind: str
    level: str
    is_mounted: bool
    restarts: int
    denials: tuple[Mapping[str, object], ...]
    exit_reports: tuple[ExitReport, ...]
    printed_bytes: int = 0
    kept_bytes: int = 0
    problem: PaddockError | None = None
    live_from: Path | None = None
    denials_left_out: int = 0
    place: str = ""
    granted: Permissions = field(default_factory=Permissions)
    programs: tuple[str, ...] = ()
    resources: ResourceUse = field(default_factory=ResourceUse)
    keeps_home: bool = False

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {
            "module": self.module,
            "kind": self.kind,
            "level": self.level,
            "restarts": self.restarts,
            "denials": [dict(denial) for denial in self.denials],
            "exit_reports": [report.as_dict() for report in self.exit_reports],
            "resources": self.resources.as_dict(),
            "unreported_programs": list(self.programs),
        }


def as_before_the_end(modules: tuple[ModuleStatus, ...], ended: tuple[ModuleStatus, ...]) -> tuple[ModuleStatus, ...]:
    """Return modules as they were before their end, with the denials, programs and resources up to it."""
    return tuple(
        replace(
            one,
            denials=last.denials,
            denials_left_out=last.denials_left_out,
            programs=last.programs,
            resources=last.resources,
        )
        for one, last in zip(modules, ended, strict=False)
    )


class HostedSession(AmplifierSession):
    """One session's kernel, whose modules run once their rights were decided."""

    def __init__(
        self,
        plan: SessionPlan,
        working_dir: Path,
        session_id: str,
        parent_id: str | None,
        *,
        approval_system: ApprovalSystem | None,
        display_system: DisplaySystem | None,
        is_resumed: bool,
    ) -> None:
        self.plan = plan
        self.instruction = ""  # what its model is told first
        self._working_dir = working_dir
        self._runtime: SessionRuntime | None = None
        self._authorized: Mapping[str, AuthorizedModule] = {}
        self._mounted: dict[str, HostedModule] = {}
        self._problems: dict[str, PaddockError] = {}
        self._conflict: PlanProblem | None = None
        self._ready = ReadyQueue()
        super().__init__(
            plan.raw,
            session_id=session_id,
            parent_id=parent_id,
            approval_system=approval_system,
            display_system=display_system,
            is_resumed=is_resumed,
        )

    def _make_loader(self) -> Any:  # it loads nothing: `_load_entry` does
        return self._ready

    def _make_coordinator(self) -> HostedCoordinator:
        self.core = SessionCore(self._stand_in(), self._working_dir)
        return self.core.coordinator

    @property
    def hosted(self) -> HostedCoordinator:
        """The coordinator, as the host has it."""
        return self.core.coordinator

    @property
    def runtime(self) -> SessionRuntime:
        """The runtime of its modules."""
        assert self._runtime is not None, "modules run once their rights were decided"
        return self._runtime

    @property
    def has_runtime(self) -> bool:
        """Whether the modules' rights were decided, so that they are started at all."""
        return self._runtime is not None

    def attach_runtime(self, authorized: Mapping[str, AuthorizedModule], runtime: SessionRuntime) -> None:
        """Take the decision about each module, by the place of its entry, and the resources to run them on."""
        self._authorized = authorized
        self._runtime = runtime
        self.hosted.tell_state_changes()

    async def start(self) -> None:
        """Start and mount the modules, once.

        Raises:
            PlanError: two entries want one name.
            PaddockError: the session cannot work, or something is missing that may guard a gate.
        """
        await self.initialize()
        self._check_start()

    async def initialize(self) -> None:
        """Load and mount the modules, once.

        Raises:
            PaddockError: the session cannot work.
        """
        if not self.initialized:
            self.runtime.launch_ahead(
                (self._authorized[entry.path], self.plan.overrides.get(entry.path, {})) for entry in self.plan.entries()
            )
        await super().initialize()

    async def _load_entry(self, kind: str, entry: dict[str, Any], index: int) -> None:
        planned = self.plan.at(kind, index)
        if planned is None or planned.module != entry.get("module"):
            name, problem = str(entry.get("module")), "it came into the session's configuration after the plan was read"
            raise ModuleLoadError(name, "start", problem, hints=["put it into the plan that the session is made of"])
        try:
            module = await self.runtime.start(self._authorized[planned.path])
            self._check_instance(module)
        except PaddockError as exc:
            self._problems[planned.path] = exc
            raise
        self._mounted[planned.path] = module
        if module.wants_session_ready:
            self._ready.enqueue_on_session_ready(module.name, lambda coordinator: self._make_ready(planned, module))

    async def _make_ready(self, entry: ModuleEntry, module: HostedModule) -> None:
        try:
            await module.session_ready()
        except Exception as exc:  # the module's; a module that may guard a gate may register its handlers here
            if may_guard(self._authorized[entry.path].entry):
                self._problems[entry.path] = ModuleLoadError(module.name, "mount", f"when all was mounted: {exc}")
            raise

    def _check_instance(self, module: HostedModule) -> None:
        """Refuse to give a provider a name that belongs to another, as the session does next."""
        try:
            check_instance(module.authority, self.hosted, self.runtime.marshaller)
        except ValueError as exc:
            if isinstance(exc, NameTakenError):
                self._conflict = self._conflict or exc.conflict(module.authority)
            raise ModuleLoadError(module.name, "mount", str(exc)) from exc

    def _check_start(self) -> None:
        """Refuse to go on where two entries of the plan want one name, or a module that may guard a gate is missing."""
        self._check_conflicts()
        for entry in self.plan.entries():
            is_missing = entry.path in self._problems or entry.path not in self._mounted
            if is_missing and may_guard(self._authorized[entry.path].entry):
                problem = self._problems.get(entry.path) or ModuleLoadError(entry.module, "start", "it is not there")
                raise problem.with_hint(
                    f"it may be a guard, so nothing starts without it; to go on without it, write in the entry of "
                    f"`{entry.module}`: on_failure: continue"
                )

    def _check_conflicts(self) -> None:
        found = [module.conflict for module in self.runtime.modules.all if module.conflict is not None]
        found += [self._conflict] if self._conflict is not None else []
        if found:
            raise PlanError(found)

    def _fail_initialization(self, error: Exception) -> NoReturn:
        self._check_conflicts()
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, PaddockError):
                raise cause
            cause = cause.__cause__
        raise error

    def _fail_execution(self, error: Exception | asyncio.CancelledError) -> NoReturn:
        if isinstance(error, asyncio.CancelledError):  # a module's text, which must not pass for the application's
            super()._fail_execution(error)
        raise error

    async def execute(self, prompt: str) -> Any:
        """Run one turn; modules' requests of an earlier turn end.

        Raises:
            Exception: the session is not initialised, or the orchestrator failed.
        """
        self.hosted.begin_turn()
        return await super().execute(prompt)

    async def _run_orchestrator(self, prompt: str) -> Any:
        for entry in (self.plan.orchestrator, self.plan.context):
            if self.coordinator.get(entry.kind) is None:
                raise ModuleLoadError(entry.module, "mount", f"it mounted nothing as the session's {entry.kind}")
        return await super()._run_orchestrator(prompt)

    def _checked_response(self, response: object) -> Any:
        if not isinstance(response, str):
            raise AnswerTypeError(self.plan.orchestrator.module, type(response).__name__)
        return response

    async def denials_of(self, call: str) -> tuple[Mapping[str, object], ...]:
        """Return what a tool's module was refused since a tool call began, once all that the call tried is judged."""
        tool, began = self.hosted.cancellation.tool_calls.get(call, ("", 0.0))
        denials = await self.runtime.denials_of(self.coordinator.get("tools", tool), began)
        return tuple(denial.as_dict() for denial in denials)

    def statuses(self) -> tuple[ModuleStatus, ...]:
        """Return the status of each module, in mount order."""
        return tuple(self._status_of(entry) for entry in self.plan.entries())

    def _status_of(self, entry: ModuleEntry) -> ModuleStatus:
        path = entry.path
        module = self.runtime.modules.at(path)
        authorized = self._authorized[path]
        code = authorized.resolution
        planned = ModuleStatus(
            entry.instance_id or entry.module,
            entry.kind,
            level="",
            is_mounted=False,
            restarts=0,
            denials=(),
            exit_reports=(),
            problem=self._problems.get(path),
            live_from=code.root if code.is_live else None,
            place=path,
            granted=authorized.entry.permissions,
            keeps_home=authorized.entry.state == "keep",
        )
        if module is None:
            return planned
        return replace(
            planned,
            level=module.level,
            is_mounted=path in self._mounted,
            restarts=module.supervisor.restarts,
            denials=tuple(denial.as_dict() for denial in module.denials),
            denials_left_out=module.denials_left_out,
            exit_reports=tuple(module.reports),
            printed_bytes=module.supervisor.printed_bytes,
            kept_bytes=module.supervisor.kept_bytes,
            programs=module.attempts.programs if module.level != "none" else (),  # there nothing is refused
            resources=ResourceUse.of(module),
        )
