"""Call one tool of one module, with no orchestrator, no context and no plan around it.

The module is found, started, mounted and called as in a session. Its failures, a death included, are in the outcome and
never raised. When `run` is left, also by a cancellation, nothing of the module is left running.
"""

from __future__ import annotations

import os
import shlex
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from paddock.audit import AuditLog
from paddock.authorization.authorizer import Authorization, Authorizer
from paddock.errors import (
    Denial,
    LaunchError,
    ModuleDiedError,
    ModuleError,
    ModuleLoadError,
    ModuleMissingError,
    PaddockError,
)
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.isolation.planner import OnConfined, SandboxPlanner
from paddock.isolation.sandbox_host import SandboxHost
from paddock.module_sources.provisioning import SourceOptions
from paddock.module_sources.resolve import ModuleSources
from paddock.plan import USUAL_PLAN
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.plan.permissions import grants_of
from paddock.policy.secrets.values import NO_SECRETS, SecretValues
from paddock.rpc.peer import Handle
from paddock.session.lone_module import OpenedModule, opened
from paddock.session.module import HostedModule
from paddock.session.modules import failed_result
from paddock.session.recorder import SessionRecorder
from paddock.session.resource_use import ResourceUse
from paddock.session.resources import OnOutput, SessionResources, StartOptions
from paddock.session.runtime import SessionRuntime
from paddock.session.startup import FoundCode, how_to_pin
from paddock.workers.capacity import check_event_loop
from paddock.workers.exit_report import ExitReport
from paddock_sandbox.profile import IsolationLevel
from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem
from paddock_sdk.contract.boundary_errors import ModuleGoneError
from paddock_sdk.contract.models import ToolResult
from paddock_sdk.kernel.mounts import own_names
from paddock_sdk.protocol import LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sources import Resolution, SourceError, parse_source
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.lock.lock_file import LockFile
from paddock_sources.module_id import kind_of_id
from paddock_sources.uri import BuiltinUri

_ANY_TOOL: Final = "tool"  # stands for the module, whose id only its code says


@dataclass(frozen=True, slots=True)
class ToolCallOutcome:
    """The outcome of a call: a result in any case, and `error` when the result is not the tool's own.

    `level` is the isolation level of the module, empty if it never had a process. `exit_reports` describe its ends up
    to the result, not the one that follows a finished call. `live_from` is a folder that it ran from without a copy.
    `changes` describe, for people, changes meanwhile to files that other programs run by themselves. `denials` are what
    the module was refused up to its end, also where the call succeeded; `denials_left_out` counts those that were not
    kept. `programs` are some that `module` started; what the kernel refused these is in no denial. `resources` are
    those of the module, None if it never had a process.
    """

    result: ToolResult
    level: str
    exit_reports: tuple[ExitReport, ...]
    error: Exception | None = None
    changes: tuple[str, ...] = ()
    live_from: Path | None = None
    denials: tuple[Denial, ...] = ()
    denials_left_out: int = 0
    module: str = ""
    programs: tuple[str, ...] = ()
    resources: ResourceUse | None = None


class ToolCallSession:
    """One call of the tool `tool` of the module at `source`.

    Args:
        source: what a plan accepts: a folder, `builtin:<id>`, or the bare id of a module that is shipped.
        module_id: the module's id, where an accepted plan named the source: the user's keys are then not lent.
        tool: the name that the module mounts the tool under.
        arguments: the tool's input.
        config: the module's configuration.
        limits: the module's limits, as a plan writes them.
        permissions: what the module is granted, as a plan writes it.
        isolation: the isolation level, accepted even if it is weak; the strongest available by default.
        working_dir: the folder the module works in; the current one by default.
        environ: the environment that overrides of sources are looked up in; the process's own by default.
        approval: the approval system for the module's requests.
        display: where the module's messages are shown; without one, they are logged.
        on_output: called with each line that the module prints.
        on_confined: called with the module's sandbox, before it is started.
        sources: where its code may come from; by default as a lock file in the working directory pins it, if one does.
        lock: the content of that file, if the caller judged it; later changes of the file do not count.
        rules: what decides the versions of what the module depends on, where an accepted plan has such rules.
    """

    def __init__(
        self,
        source: str,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        config: Mapping[str, Any] | None = None,
        limits: Mapping[str, object] | None = None,
        permissions: Mapping[str, object] | None = None,
        isolation: IsolationLevel | None = None,
        working_dir: Path | str | None = None,
        environ: Mapping[str, str] | None = None,
        approval: ApprovalSystem | None = None,
        display: DisplaySystem | None = None,
        on_output: OnOutput | None = None,
        on_confined: OnConfined | None = None,
        sources: SourceOptions | None = None,
        module_id: str | None = None,
        lock: LockFile | None = None,
        rules: DependencyRules | None = None,
    ) -> None:
        self.secrets: SecretValues = NO_SECRETS
        self.live_from: Path | None = None
        self._source = source
        self._tool = tool
        self._arguments = dict(arguments)
        self._written = {
            "config": dict(config or {}),
            "limits": dict(limits or {}),
            "permissions": dict(permissions or {}),
        }
        self._base = Path.cwd()
        self._approval = approval
        self._display = display
        self._source_options = sources or SourceOptions()
        self._module_id = module_id
        self._lock = lock
        self._rules = rules or NO_RULES
        session = str(uuid.uuid4())
        environ = dict(os.environ if environ is None else environ)
        folder = Path(working_dir or Path.cwd()).resolve()
        self.options = StartOptions(
            folder,
            environ,
            isolation,
            AuditLog(session, environ=environ, mask=self.mask),
            on_output,
            on_confined,
            locks=folder,
            session=session,
        )
        self._session_recorder = SessionRecorder.of_call(source, tool, self.options)
        self._is_called = False
        self._resources: SessionResources | None = None  # there are none before the module is confined

    @property
    def activity(self) -> str:
        """The current step, in a few words."""
        return f"waiting for {self._tool}" if self._is_called else f"starting {self._source}"

    def mask(self, text: str) -> str:
        """Return `text` with the values of the call's secrets hidden, for text that people or files get."""
        return self.secrets.mask(text)

    @property
    def changes(self) -> tuple[str, ...]:
        """Changes, since the module was confined, to files that other programs run by themselves, for people."""
        return self._resources.changes() if self._resources is not None else ()

    async def check(self, authorizer: Authorizer) -> None:
        """Refuse what the flags alone show to be wrong, before anything is fetched.

        Raises:
            PlanError: a flag cannot be understood, or names a variable or a secret that is not set.
        """
        authorizer.check_call(grants_of(self._entry_of({"module": _ANY_TOOL}).permissions))

    def _remedy(self, module: str) -> str:
        """Say what a person does about definitions of the module's tools that are not pinned."""
        plan = self.options.working_dir / USUAL_PLAN
        if plan.is_file():
            return how_to_pin(plan, module)
        forget = shlex.join(["paddock", "remove", self._source])
        return f"if it is right, `{forget}` forgets the pins, and the next start takes new ones"

    @asynccontextmanager
    async def resolved(self, authorizer: Authorizer, host: SandboxHost) -> AsyncIterator[FoundCode]:
        """Provide the code for as long as this is open."""
        options = self.options
        with SourceCache.of_user(options.environ, check=check_cancelled) as cache:
            sources = ModuleSources(
                cache,
                options.environ,
                self._base,
                options.locks,
                authorizer.policy,
                self._source_options,
                options.audit,
                host=host,
                lends_keys=self._module_id is None,
                lock=self._lock,
            )
            entry = await self._entry(sources)
            (found,) = (await sources.resolve([entry], rules=lambda one: self._rules.joined(one.server_rules))).values()
            if isinstance(found, ModuleMissingError):
                raise found
            self.live_from = found.root if found.is_live else None
            yield FoundCode(
                (entry,),
                {entry.path: found},
                lock=sources.write,
                definitions=sources.definitions(self._remedy),
            )

    async def authorize(
        self,
        authorizer: Authorizer,
        code: FoundCode,
        sandbox_planner: SandboxPlanner,
    ) -> Authorization:
        """Decide what the module may do."""
        (entry,) = code.entries
        authorization = await authorizer.authorize_call(entry, code.by_path[entry.path], self.options.isolation)
        self.secrets = authorization.secrets
        return authorization

    async def _entry(self, sources: ModuleSources) -> ModuleEntry:
        """Return the plan entry that stands for the module.

        Raises:
            ModuleMissingError: the source names no module, or it is unavailable.
            PolicyRefusedError: no module may come from there.
            PlanError: the configuration or a limit is not accepted.
        """
        named: dict[str, object] = {}
        try:
            uri = parse_source(self._source).anchored(self._base)
            if uri.bare_id:
                named["module"] = uri.bare_id
            elif isinstance(uri, BuiltinUri):
                named |= {"module": uri.module_id, "source": uri.text}
            elif self._module_id is not None:
                named |= {"module": self._module_id, "source": uri.text}
            else:
                ids = await sources.module_ids(uri)
                tool = next((one for one in ids if kind_of_id(one) == "tool"), ids[0])
                named |= {"module": tool, "source": uri.text}
        except SourceError as error:
            raise ModuleMissingError.of(self._source, error) from error
        return self._entry_of(named)

    def _entry_of(self, named: Mapping[str, object]) -> ModuleEntry:
        """Return the plan entry of the flags with what `named` says of the module."""
        return ModuleEntry.read({**self._written, **named}, EntryPlace("tool", "", self._base))

    async def run(self) -> ToolCallOutcome:
        """Start the module, call the tool, end the module."""
        check_event_loop()
        try:
            async with opened(self, self._session_recorder, approval=self._approval, display=self._display) as module:
                self._resources = module.resources
                outcome = await self._run(module)
        except PaddockError as error:
            outcome = ToolCallOutcome(failed_result(error), "", (), error)
        return replace(outcome, changes=self.changes, live_from=self.live_from)

    async def _run(self, lone: OpenedModule) -> ToolCallOutcome:
        session_runtime = lone.runtime
        began = session_runtime.router.now()
        try:
            module = await lone.start()
            began = session_runtime.router.now()
            with self.options.audit.needed(lambda: None):  # a call without its record has failed
                result = await self._call(session_runtime, module)
            outcome = ToolCallOutcome(result, module.level, tuple(module.reports))
        except PaddockError as error:
            outcome = await _failure(session_runtime, error)
        finally:
            await lone.clean_up()
        outcome = await _with_denials(outcome, session_runtime, began)
        return _explained(outcome, lone.authorized.resolution)

    async def _call(self, session_runtime: SessionRuntime, module: HostedModule) -> ToolResult:
        """Return the tool's result.

        Raises:
            ModuleError: there is no such tool.
            ModuleDiedError: the module ended, or was ended, before it answered.
        """
        marshaller = session_runtime.marshaller
        tools = session_runtime.coordinator.get("tools")
        tool = self._tool if self._tool in tools else own_names(tools).get(self._tool)
        if tool is None:
            raise ModuleError.tool_missing(module.name, self._tool, mounted=tools)
        handle = marshaller.handle_of(tools[tool])
        assert isinstance(handle, Handle)  # nothing but the module mounts anything here
        method = handle.description(marshaller.codec).number_of("execute")
        if method is None:
            return _failed("TypeError", f"what module `{module.name}` mounted as `{self._tool}` has no `execute`")
        try:
            message = marshaller.encode([[self._arguments], {}])
            self._is_called = True
            # Of this life only: a tool that died in this call is not started again to be asked once more.
            answer = marshaller.decode(await session_runtime.host_calls.call_now(handle, method, message))
        except LocalProtocolError as error:
            return _failed(type(error).__name__, f"the input cannot be sent to the tool: {error}")
        except UnfitValueError as error:
            return _failed("ValueError", f"the tool returned {error}")
        except RemoteProtocolError as error:
            module.on_violation(error)
            raise await module.death(handle.owner, "execute") from error
        except ModuleGoneError as error:
            if not handle.owner.is_open:
                raise await module.death(handle.owner, "execute") from error
            return _raised(error)
        except Exception as error:
            if not hasattr(error, "remote_type"):
                raise
            return _raised(error)
        if isinstance(answer, ToolResult):
            return answer
        return _failed("TypeError", f"the tool returned `{type(answer).__name__}`; execute must return a ToolResult")


async def _with_denials(outcome: ToolCallOutcome, session_runtime: SessionRuntime, began: float) -> ToolCallOutcome:
    """End the module, and return the outcome with its denials; a failed result also names those of the call.

    The result's own text about denials is untrusted, as it may ask people to grant anything.
    """
    module = next(iter(session_runtime.modules.all), None)
    if module is None:
        return outcome
    await module.stop()
    await module.attempts.finish()
    outcome = replace(
        outcome,
        denials=module.denials,
        denials_left_out=module.denials_left_out,
        module=module.name,
        programs=module.attempts.programs if module.level != "none" else (),  # there nothing is refused
        resources=ResourceUse.of(module),
    )
    if outcome.result.success:
        return outcome
    error = {name: value for name, value in (outcome.result.error or {}).items() if name != "denials"}
    denials = [denial.as_dict() for denial in module.denials_since(began)]
    if denials:
        error["denials"] = denials
    return replace(outcome, result=outcome.result.model_copy(update={"error": error or None}))


async def _failure(session_runtime: SessionRuntime, error: PaddockError) -> ToolCallOutcome:
    """Return the outcome for a module that could not be started, has no such tool, or died."""
    module = next(iter(session_runtime.modules.all), None)
    if module is None:
        return ToolCallOutcome(failed_result(error), "", (), error)
    if isinstance(error, (ModuleLoadError, LaunchError)):
        await module.stop()  # its report is there once its process is gone
    reports = tuple(module.reports)
    if isinstance(error, (ModuleDiedError, ModuleLoadError)) and reports:
        of_plan = reports[-1].hints
        error.hints = (*(hint for hint in error.hints if hint not in of_plan), *reports[-1].call_hints)
    return ToolCallOutcome(failed_result(error, reports[-1] if reports else None), module.level, reports, error)


def _explained(outcome: ToolCallOutcome, code: Resolution) -> ToolCallOutcome:
    """Return the outcome; if it failed because the module is no tool, it says so, and proposes no grant."""
    error = outcome.error
    if code.kind == "tool" or not isinstance(error, ModuleError):
        return outcome
    if not (isinstance(error, ModuleLoadError) or error.code == "ToolMissingError"):
        return outcome
    kind = f"{'an' if code.kind[0] in 'aeiou' else 'a'} {code.kind}"
    explained = ModuleError(
        code.module_id,
        f"module `{code.module_id}` is {kind}, and `call` calls tools",
        code="NoToolError",
        detail=[error.summary],
        hints=[f"a plan runs it: name it there as {kind}, then `paddock run`"],
    )
    report = outcome.exit_reports[-1] if outcome.exit_reports else None
    return replace(outcome, result=failed_result(explained, report), error=explained, denials=(), denials_left_out=0)


def _raised(error: Exception) -> ToolResult:
    kind = str(getattr(error, "remote_type", type(error).__name__))
    return _failed(kind, f"the tool raised {kind}: {error}")


def _failed(kind: str, message: str) -> ToolResult:
    return ToolResult(success=False, error={"type": kind, "message": message})
