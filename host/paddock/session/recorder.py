"""What is kept of one session for later: a record of what its modules were given, and lines in the audit log.

Begun once all is decided and nothing of a module has run; ended with the session. Keeping it never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.authorization.authorizer import Authorization
from paddock.errors import PaddockError
from paddock.isolation.planner import SandboxPlanner
from paddock.isolation.record import ModuleRecord, SessionRecord, SessionRecords
from paddock.plan.model import MountPlan
from paddock.plan.permissions import Permissions
from paddock.policy.owner import Owner
from paddock_sources import Resolution
from paddock_sources.errors import without_credentials


class SessionRecorder:
    """The account of one session, or of the one call that it is for."""

    def __init__(self, session_id: str, audit: AuditLog, working_dir: Path, environ: Mapping[str, str]) -> None:
        self._id = session_id
        self._audit = audit
        self._working_dir = working_dir
        self._home = Owner.current(environ).home
        self._records = SessionRecords(environ=environ)
        self._record: SessionRecord | None = None

    async def begin(
        self, authorization: Authorization, sandbox_planner: SandboxPlanner, plan: MountPlan | None = None
    ) -> None:
        """Note what was decided for each module; `plan` is where the modules come from, if from any."""
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

    def refuse(self, plan: MountPlan, error: PaddockError) -> None:
        """Note that nothing of a plan is started, and why."""
        origin = None if plan.origin is None else str(plan.origin)
        self._audit.record("plan.refused", plan=origin, digest=plan.digest, why=[error.summary, *error.detail])

    def refuse_call(self, source: str, tool: str, error: PaddockError) -> None:
        """Note that the module at a source is not started for a call of its tool, and why."""
        shown = without_credentials(source)
        self._audit.record("call.refused", source=shown, tool=tool, why=[error.summary, *error.detail])

    async def end(self) -> None:
        """Note that it is over; of a session that did not begin there is nothing to note."""
        if self._record is None:
            return
        self._audit.record("session.ended")
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._records.keep, self._record.end())


def _code(resolution: Resolution) -> Mapping[str, object]:
    told = {"source": resolution.source, "commit": resolution.commit, "tree": resolution.tree}
    return {**{name: value for name, value in told.items() if value}, **({"live": True} if resolution.is_live else {})}


def _grants(module: ModuleRecord) -> Mapping[str, object]:
    permissions: Permissions = module.permissions
    return permissions.model_dump(exclude_defaults=True)
