"""The record of one session: the grants of its modules, and lines in the audit log.

It begins once all is decided and no code of a module has run, and ends with the session. Writing it never raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Self

import anyio
import anyio.to_thread

from paddock.authorization.authorizer import Authorization
from paddock.errors import PaddockError
from paddock.isolation.planner import SandboxPlanner
from paddock.isolation.record import ModuleRecord, SessionRecord, SessionRecords
from paddock.plan.model import MountPlan
from paddock.plan.permissions import Permissions
from paddock.policy.owner import Owner
from paddock.session.resources import StartOptions
from paddock_sources import Resolution
from paddock_sources.errors import without_credentials


class StartRecord:
    """The record of the start of modules, and of their end. Of a trial, which leaves only its answer, it is empty."""

    def refusals(self, *kinds: type[PaddockError]) -> AbstractContextManager[None]:
        """Record errors of these kinds, which stop the start."""
        return nullcontext()

    async def begin(self, authorization: Authorization, sandbox_planner: SandboxPlanner) -> None:
        """Record the decisions."""

    async def end(self) -> None:
        """Record that every module has ended."""


class SessionRecorder(StartRecord):
    """The record of one session, or of one call."""

    def __init__(self, options: StartOptions, refused: str, subject: Mapping[str, object]) -> None:
        """`refused` is the event of a refusal, which names the `subject`; `of_plan` and `of_call` know them."""
        self._id = options.session
        self._refused = refused
        self._subject = subject
        self._audit = options.audit
        self._working_dir = options.working_dir
        self._home = Owner.current(options.environ).home
        self._records = SessionRecords(environ=options.environ)
        self._record: SessionRecord | None = None

    @classmethod
    def of_plan(cls, plan: MountPlan, options: StartOptions) -> Self:
        """Return the record of a session of a plan."""
        origin = None if plan.origin is None else str(plan.origin)
        return cls(options, "plan.refused", {"plan": origin, "digest": plan.digest})

    @classmethod
    def of_call(cls, source: str, tool: str, options: StartOptions) -> Self:
        """Return the record of one call of a tool of the module at a source."""
        return cls(options, "call.refused", {"source": without_credentials(source), "tool": tool})

    @contextmanager
    def refusals(self, *kinds: type[PaddockError]) -> Iterator[None]:
        """Record errors of these kinds, which stop the start."""
        try:
            yield
        except kinds as error:
            folder = str(self._working_dir)
            self._audit.record(self._refused, folder=folder, **self._subject, why=[error.summary, *error.detail])
            raise

    async def claim(self) -> None:
        """Have the session's id for this host alone, and record the end of sessions whose hosts were killed.

        Raises:
            SessionInUseError: another host has it.
        """

        def claim() -> list[SessionRecord]:
            self._records.check_free(self._id)
            return self._records.take_lost()

        for lost in await anyio.to_thread.run_sync(claim):
            self._audit.of_lost(lost.id, lost.pid).record("session.lost", folder=lost.working_dir, plan=lost.plan)

    async def begin(self, authorization: Authorization, sandbox_planner: SandboxPlanner) -> None:
        """Record the decision about each module.

        Raises:
            KindError: a policy requires the audit log, and it cannot be written.
        """
        plan = authorization.plan
        written = {} if plan is None else {entry.path: entry.permissions for entry in plan.entries()}
        modules = [
            ModuleRecord.of(
                module.entry,
                module.resolution,
                sandbox_planner.of(module.entry).confinement,
                module.decision.limits,
                module.decision.consulted,
                written=written.get(module.entry.path),
                positions=None if plan is None else plan.positions,
            )
            for module in authorization.modules
        ]
        origin, digest = (None, "") if plan is None else (plan.origin, authorization.digest)
        self._record = SessionRecord.begin(
            self._id, modules, working_dir=self._working_dir, home=self._home, plan=origin, digest=digest
        )
        await anyio.to_thread.run_sync(self._records.keep, self._record)
        rule = authorization.trust.rule
        self._audit.record(
            "session.started",
            folder=str(self._working_dir),
            **{key: value for key, value in self._subject.items() if key == "tool"},
            plan=None if origin is None else str(origin),
            digest=digest,
            accepted=None if rule is None or not authorization.trust.accepted else rule.describe(),
            modules={
                one.name if module.entry.agent is None else module.entry.path: {
                    **_code(module.resolution),
                    "level": one.level,
                    "grants": _grants(one),
                }
                for one, module in zip(modules, authorization.modules, strict=True)
            },
        )
        self._audit.check()

    async def tools(self, own_names: Mapping[str, str]) -> None:
        """Record the mounted names of tools, by their own, where there are such."""
        if self._record is not None and own_names:
            self._record = self._record.tools(own_names)
            await anyio.to_thread.run_sync(self._records.keep, self._record)

    async def end(self) -> None:
        """Record the end; for a session that did not begin, nothing is recorded."""
        if self._record is None:
            return
        self._audit.record("session.ended")
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._records.keep, self._record.end())


def _code(resolution: Resolution) -> Mapping[str, object]:
    known = {"source": resolution.source, "commit": resolution.commit, "tree": resolution.tree}
    return {**{name: value for name, value in known.items() if value}, **({"live": True} if resolution.is_live else {})}


def _grants(module: ModuleRecord) -> Mapping[str, object]:
    permissions: Permissions = module.permissions
    return permissions.model_dump(exclude_defaults=True)
