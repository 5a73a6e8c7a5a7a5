"""A session for applications: a plan in, answers out, every module in a process of its own.

`async with` starts the modules and ends them, however it is left. A turn that fails leaves the session able to run the
next. No code of a module runs in this process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import anyio
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.authorization.authorizer import Authorizer, PlanStart
from paddock.authorization.consent import Consent
from paddock.authorization.preflight import check_working_dir
from paddock.errors import ModuleDiedError, ModuleError, PaddockError
from paddock.isolation.mentioned_files import MentionedFiles, MentionResolver, with_instruction
from paddock.isolation.planner import OnConfined
from paddock.isolation.private_places import PrivatePlaces
from paddock.module_sources.definitions import DefinitionLock
from paddock.module_sources.provisioning import SourceOptions
from paddock.plan.load import load_plan
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.policy.files.policy import Policy
from paddock.policy.journal_rule import JournalRule
from paddock.policy.owner import Owner
from paddock.policy.secrets.values import SecretStream
from paddock.rpc.first_calls import BeforeActing, FirstCalls
from paddock.rpc.trace import Trace
from paddock.session.host import Host
from paddock.session.host_api.definitions import SessionDefinitions
from paddock.session.hosted_session import HostedSession, ModuleStatus
from paddock.session.instructing import changes_of_instruction, give_instruction
from paddock.session.journals.context_journal import closing_messages
from paddock.session.journals.journal_folder import Journals, UnknownSessionError
from paddock.session.journals.kept_session import KeptSession, Meta
from paddock.session.journals.quarantines import Quarantines
from paddock.session.journals.resume import CallOutcomes, Resume, summary
from paddock.session.journals.session_journal import SessionJournal, meta_of
from paddock.session.operated import OperatedSession, Turn
from paddock.session.recorder import SessionRecorder
from paddock.session.resources import OnOutput, SessionResources, StartOptions
from paddock.session.runtime import SessionRuntime
from paddock.session.session_plan import SessionPlan
from paddock.session.spawning import SubSessions
from paddock.session.startup import PlanRequest, confined, located
from paddock.session.sub_sessions.session_tree import SessionTree
from paddock.workers.capacity import check_capacity, check_event_loop
from paddock.workers.supervisor import Supervisor
from paddock_sandbox.profile import IsolationLevel
from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.mounts import own_names

__all__ = ["ModuleStatus", "Session"]

_log = logging.getLogger(__name__)


class Session:
    """One conversation with one plan's modules.

    Args:
        plan: a plan file (YAML or JSON) or the plan itself, as a table or as it was read.
        working_dir: the folder modules work in; the current one by default.
        approval: the approval system for hooks' requests; without one, nothing is approved.
        display: where hooks' messages are shown; without one, they are logged.
        policy: the bounds of all grants, beside the policies of the machine and the user: all of them hold.
        environ: the environment that secrets and grants refer to; the process's own by default.
        session_id: the id of the session; made up by default.
        parent_id: the id of the session that this one was forked from.
        is_resumed: whether it continues an earlier session of that id; its start is announced so.
        journal: the journals in which this one is kept, so that it outlives this process; none by default.
        resume: the session to go on with, of these journals; by default a new one begins.
        on_output: called with each line that a module prints.
        isolation: the isolation level of modules whose entries name none, accepted even if it is weak; the
            strongest available by default.
        trust_plan: accept all that the plan asks for, for this session.
        grants: grants beyond the plan: the name of a preset, by module.
        consent: asks about a plan that was not accepted yet, first about the sources that only your rights can
            fetch, and about a lock file that someone other than Paddock changed since; without one, such a plan may
            ask for nothing that needs trust, and such a lock file is refused.
        on_confined: called with each module's sandbox, before the first module is started.
        trace: records the calls of modules.
        host: starts the modules' processes, those of other sessions too; by default the session has one of its own.
        before_acting: awaited before the first call of each module that can act outside `working_dir`.
        sources: where the code of modules may come from; by default the pins of the lock file beside the plan, and
            missing code is fetched and pinned there.

    Raises:
        PlanError: the plan has problems; all of them are named.
        UnknownSessionError: there is no session to resume.
    """

    def __init__(
        self,
        plan: Path | str | Mapping[str, Any] | MountPlan,
        *,
        working_dir: Path | str | None = None,
        approval: ApprovalSystem | None = None,
        display: DisplaySystem | None = None,
        policy: Policy | None = None,
        environ: Mapping[str, str] | None = None,
        session_id: str | None = None,
        parent_id: str | None = None,
        is_resumed: bool = False,
        journal: Journals | None = None,
        resume: Resume | str | None = None,
        on_output: OnOutput | None = None,
        isolation: IsolationLevel | None = None,
        trust_plan: bool = False,
        grants: Mapping[str, str] | None = None,
        consent: Consent | None = None,
        on_confined: OnConfined | None = None,
        sources: SourceOptions | None = None,
        trace: Trace | None = None,
        host: Host | None = None,
        before_acting: BeforeActing | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self.plan: MountPlan = plan if isinstance(plan, MountPlan) else load_plan(plan, environ=self._environ)
        self._resume = Resume(resume) if isinstance(resume, str) else resume
        self._journals = journal or (Journals(environ=self._environ) if self._resume is not None else None)
        if self._resume is not None and self._journals is not None:
            session_id = self._journals.find(self._resume.session, Path(working_dir or Path.cwd()))
        self._id = session_id or str(uuid.uuid4())
        self._host = host
        self._journal: SessionJournal | None = None
        self._resumed: tuple[str, ...] = ()
        self._policy = Policy.given(policy)
        self._working_dir = check_working_dir(Path(working_dir or Path.cwd()))
        journals = None if self._journals is None else self._journals.folder
        owner, private = Owner.current(self._environ), partial(PrivatePlaces.of_user, self._environ, journals)
        self._instruct = partial(with_instruction, self.plan, self._working_dir, owner, private)
        self._instructed = self._instruct()
        self.judged = ""  # the digest of the plan as it was authorised: with its instruction, and where its paths lead
        self._audit = AuditLog(self._id, environ=self._environ, mask=self.mask)
        origin = self.plan.origin
        self._options = StartOptions(
            self._working_dir,
            self._environ,
            isolation,
            self._audit,
            on_output,
            on_confined,
            kept=() if origin is None else (origin.resolve(),),
            locks=None if origin is None else origin.parent,
            journals=journals,
            trace=trace,
            session=self._id,
            first_calls=FirstCalls(before_acting),
        )
        self._session_recorder = SessionRecorder.of_plan(self.plan, self._options)
        self._kernel = HostedSession(
            SessionPlan.of(self.plan),
            self._working_dir,
            self._id,
            parent_id,
            approval_system=approval,
            display_system=display,
            is_resumed=is_resumed or self._resume is not None,
        )
        self._kernel.instruction = self._instructed.instruction.text
        self._request = PlanRequest(
            PlanStart(self._instructed, trust_plan, dict(grants or {}), isolation, consent),
            self._options,
            self.coordinator,
            sources or SourceOptions(),
        )
        self._resources: SessionResources | None = None  # there are none before the modules are confined
        self._turn = Turn()
        self._operated: OperatedSession | None = None
        self._stack = AsyncExitStack()
        self._state: Literal["new", "opening", "open", "over"] = "new"

    @property
    def session_id(self) -> str:
        return self._id

    @property
    def journal(self) -> Path | None:
        """The file in which the session is kept, once it is open; None if it is kept in none."""
        return None if self._journal is None else self._journal.path

    @property
    def resumed(self) -> tuple[str, ...]:
        """For people, the session that this one goes on with, and what became of its open tool calls; else nothing."""
        return self._resumed

    @property
    def notes(self) -> tuple[str, ...]:
        """What in the plan was passed on without being understood, and what its instruction mentions in vain."""
        return (*self.plan.notes, *self._instructed.instruction.notes)

    def mask(self, text: str) -> str:
        """Return `text` with the values of the session's secrets hidden, for text that people or files get."""
        return self._request.secrets.mask(text)

    def masked_stream(self) -> SecretStream:
        """Return a masker for one text that comes in pieces, which shows no part of a secret before it is whole."""
        return self._request.secrets.stream()

    @property
    def coordinator(self) -> ModuleCoordinator:
        """The session's coordinator, for an application's own hooks, capabilities, approval, display and state.

        What is registered before the session is opened is there when the first module is mounted; a resolver at
        `module-source-resolver` is asked for their code. Both may be changed as long as the session lasts.
        """
        return self._kernel.coordinator

    @property
    def modules(self) -> tuple[ModuleStatus, ...]:
        """The status of each module of the plan, in mount order; none before the session was opened."""
        if not self._kernel.has_runtime:
            return ()
        return self._kernel.statuses()

    @property
    def changes(self) -> tuple[str, ...]:
        """Changes, since the session was opened, to its instruction and to files that other programs run."""
        if self._resources is None:
            return ()
        return (*self._resources.changes(), *self.instruction_changes)

    @property
    def instruction_changes(self) -> tuple[str, ...]:
        """Changes to files of the instruction since the session was made, for people; reads these files."""
        return changes_of_instruction(self._instructed, self._instruct)

    @property
    def _opened(self) -> HostedSession:
        if self._state != "open":
            raise RuntimeError("the session is not open; use `async with Session(...) as session:`")
        return self._kernel

    async def initialize(self) -> None:
        """Open the session, as entering it does; `cleanup` has to follow, in the same task.

        Raises:
            PaddockError: it cannot be opened; nothing is left of it.
            KindError: the application runs on another event loop than asyncio's.
            RuntimeError: it was opened before; a session is opened once.
        """
        check_event_loop()
        if self._state != "new":
            raise RuntimeError("the session was opened before; make another one of the same plan")
        self._state = "opening"
        try:
            check_capacity(sum(1 for _ in self.plan.entries()))
            await self._open()
        except BaseException:
            self._state = "over"
            raise
        self._state = "open"

    async def cleanup(self) -> None:
        """Close the session, as leaving it does; one that is not open stays as it is."""
        if self._state != "open":
            return
        self._state = "over"
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.cleanup()

    async def _checked(self) -> Authorizer:
        """Return the authorizer, once nothing of the plan and the flags alone stands in the way."""
        authorizer = await Authorizer.at_work(self._working_dir, self._environ, self._policy)
        self._audit.obey(*authorizer.policy.audit)
        with self._session_recorder.refusals(PaddockError):
            await self._session_recorder.claim()
            await self._request.check(authorizer)
        return authorizer

    async def _open(self) -> None:
        authorizer = await self._checked()
        async with AsyncExitStack() as stack:
            journal = self._journal = await self._opened_journal(
                JournalRule.strictest(file.journal for file in authorizer.policy.files)
            )
            if journal is not None:
                stack.callback(journal.close)
                journal.quarantines = Quarantines(journal.path, self._id)
            host = None if self._host is None else await stack.enter_async_context(self._host.part())
            modules = await stack.enter_async_context(
                confined(self._request, authorizer, self._session_recorder, host=host),
            )
            self._resources = modules.resources
            self.judged = modules.authorization.digest
            if journal is not None:
                meta = meta_of(self.plan, self._id, modules.authorization, self._working_dir)
                if self._resume is not None and journal.kept is not None:
                    await self._resume.check(journal.kept.metas[-1], meta)
                journal.begin(meta, modules.resources.secrets)
            runtime = await stack.enter_async_context(
                SessionRuntime.open(self._kernel.core, modules.resources, journal=journal),
            )
            self._kernel.attach_runtime(modules.by_path, runtime)
            self._operated = OperatedSession(
                self.plan.origin,
                modules.resources,
                runtime,
                lambda: self._turn,
                lambda: self.cancel(immediate=True),
            )
            await stack.enter_async_context(self._operated.listening())
            stack.push_async_callback(runtime.deadlines.run, self._kernel.cleanup)
            if self.plan.agents:
                session_tree = SessionTree(
                    self._id,
                    modules.resources,
                    modules.by_path,
                    self.plan.agents,
                    journal=journal,
                )
                sub_sessions = SubSessions(self._kernel, runtime, session_tree)
                sub_sessions.offer()
                stack.push_async_callback(sub_sessions.aclose)
            if self.coordinator.get_capability("mention_resolver") is None:  # the application offers none of its own
                owner, private = Owner.current(self._environ), modules.resources.sandbox_planner.private
                files = MentionedFiles.of_plan(self.plan, self._working_dir, owner, private)
                roots = {} if self.plan.bundles is None else self.plan.bundles.roots
                self.coordinator.register_capability("mention_resolver", MentionResolver(files, roots))
            packages = {str(path): None for one in modules.by_path.values() for path in one.resolution.siblings}
            if packages and self.coordinator.get_capability("bundle_package_paths") is None:
                self.coordinator.register_capability("bundle_package_paths", [*packages])
            with located(self.plan):
                await self._kernel.start()
                if journal is not None and journal.kept is not None:
                    await self._restore(journal.kept, meta, runtime)
                await give_instruction(self._kernel)
                self._options.first_calls.check()
            await self._session_recorder.tools(own_names(self.coordinator.get("tools")))
            self._stack = stack.pop_all()

    async def execute(self, prompt: str) -> str:
        """Run one turn and return the orchestrator's answer.

        Raises:
            ModuleDiedError: the orchestrator's process ended during the turn.
            SessionEndedError: an operator ended the session.
            KindError: a policy requires the audit log, and it cannot be written; the turn is ended at once.
            Exception: what the orchestrator raised.
        """
        kernel, journal = self._opened, self._journal
        kernel.hosted.tell_state_changes()
        if journal is None:
            return await self._answer(kernel, prompt)
        async with journal.during(prompt):
            try:
                return await self._answer(kernel, prompt)
            finally:
                journal.state(kernel.hosted.take_written_state())

    async def _answer(self, kernel: HostedSession, prompt: str) -> str:
        answer = ""
        scope = anyio.CancelScope()
        self._turn = Turn(self._turn.number + 1, time.monotonic())
        stop = partial(asyncio.get_running_loop().call_soon_threadsafe, scope.cancel)
        with self._audit.needed(stop), self._options.first_calls.needed(stop):
            try:
                with scope:
                    answer = await kernel.execute(prompt)
            except Exception as error:
                ended = self._operated and self._operated.ended(is_kept=self._journal is not None)
                if ended:
                    raise ended from error
                if isinstance(error, ModuleDiedError):
                    await self._close_dangling_calls()
                raise
            finally:
                self._turn = Turn(self._turn.number)
            if scope.cancelled_caught:
                await self._close_dangling_calls()
        return answer

    async def denials_of(self, call: str) -> tuple[Mapping[str, object], ...]:
        """Return what a tool's module was refused since a tool call began, once all that the call tried is judged.

        `call` is the id of a call that failed, as events have it (`tool_call_id`); one that is not known has none.
        """
        return await self._opened.denials_of(call)

    def lift_quarantine(self, module: str) -> None:
        """Let a module that ended too often be started again, when it is next called.

        One that did so before the session was resumed is mounted when the session is resumed again.

        Raises:
            ModuleError: the plan has no module of that name.
            OSError: where the session is kept, this cannot be kept; then the module stays quarantined.
        """
        supervisors = self._supervisors_of(module)
        if self._journal is not None and self._journal.quarantines is not None:
            self._journal.quarantines.lift(module)
        for supervisor in supervisors:
            supervisor.lift_quarantine()
        self._audit.record("quarantine.lifted", module=module)

    def revoke(self, module: str) -> None:
        """Take back everything that a module was granted: it ends at once, and does not run again in this session.

        Calls to it fail, as to a module that does not start. This includes sub-sessions, and those that start later.

        Raises:
            ModuleError: the plan has no module of that name.
        """
        self._supervisors_of(module)
        assert self._resources is not None
        self._resources.revoke(module)
        self._audit.record("grants.revoked", module=module)

    def _supervisors_of(self, module: str) -> tuple[Supervisor, ...]:
        """Return the supervisors of the modules that go by a name: an instance's, or else an id."""
        names = {entry.instance_id or entry.module for entry in self.plan.entries()}
        if self._opened.has_runtime and self._resources is not None and module in names:
            return self._resources.supervisors_of(module)
        raise ModuleError(
            module,
            f"the plan has no module `{module}`",
            hints=[f"its modules are {', '.join(sorted(names))}"],
        )

    def cancel(self, *, immediate: bool = False) -> None:
        """Ask the running turn to stop: after the tools that run, or at once."""
        token = self.coordinator.cancellation
        if immediate:
            token.request_immediate()
        else:
            token.request_graceful()

    async def close_open_calls(self) -> None:
        """Answer the tool calls that an abandoned turn left open, before the next one begins.

        This is for a turn whose task was cancelled: its orchestrator may close them itself, for which it has some
        seconds.
        """
        if self._opened.initialized:
            await self._opened.runtime.modules.turn_ended()
            await self._close_dangling_calls()

    async def _opened_journal(self, rule: JournalRule) -> SessionJournal | None:
        """Return the journal of this session, which no other host has; None if it is kept in none.

        Raises:
            UnknownSessionError: a policy has no session kept.
            JournalError: it cannot be used, or a new one cannot be made, and a policy requires one.
        """
        if self._journals is None:
            return None
        if rule.is_off:
            if self._resume is not None:
                raise UnknownSessionError(self._id, ['a policy has no session kept: `[journal] keep = "off"`'])
            return None
        if self._resume is not None:
            journal = await anyio.to_thread.run_sync(self._journals.resumed, self._id)
            journal.rule = rule
            return journal
        return await anyio.to_thread.run_sync(self._journals.begun, self._id, rule)

    async def _restore(self, kept: KeptSession, now: Meta, runtime: SessionRuntime) -> None:
        """Bring the context to where the session's last host had it, and answer the tool calls that were open then.

        Modules get back what they left in `session_state`.
        """
        await runtime.modules.restore_context()
        outcomes = CallOutcomes(kept, runtime.marshaller)
        await self._close_dangling_calls(outcomes)
        left_out = runtime.modules.give_back_state(kept, now, self._kernel.hosted)
        self._resumed = (*summary(kept), *outcomes.lines, *left_out)
        found = {"interrupted": kept.was_interrupted, "calls": list(outcomes.lines)}
        self._audit.record("session.resumed", **found)
        await self.coordinator.hooks.emit("session:resumed", found)

    async def _close_dangling_calls(self, outcomes: CallOutcomes | None = None) -> None:
        """Answer the tool calls that a turn left open, so that the next request to a provider is valid."""
        context = self.coordinator.get("context")
        try:
            try:
                messages = await context.get_messages()
            except Exception:  # it may be more than it can send at once; the journal knows the messages as well
                messages = self._kernel.runtime.journal.messages()
            for message in closing_messages(messages) if outcomes is None else outcomes.closing(messages):
                await context.add_message(message)
        except Exception as exc:  # the turn's own error is the one to report
            _log.warning("open tool calls could not be closed: %s", exc)


async def offered_definitions(
    session: Session,
    wanted: Callable[[ModuleEntry], bool],
) -> tuple[SessionDefinitions, DefinitionLock | None]:
    """Start the `wanted` modules that are MCP servers, and no others; return what they define, and where it is pinned.

    The session is one that was not opened, and never is: nothing is pinned by this, and nothing is left running.

    Raises:
        PaddockError: they cannot be started.
    """
    session._state = "over"
    authorizer = await session._checked()
    async with confined(session._request, authorizer, session._session_recorder) as modules:
        definitions = modules.resources.definitions
        lock, definitions.lock = definitions.lock, None  # a person sees first what would be written
        async with SessionRuntime.open(session._kernel.core, modules.resources) as runtime:
            for one in modules.authorization.modules:
                if one.resolution.server is not None and wanted(one.entry):
                    await runtime.start(one)
    return definitions, lock
