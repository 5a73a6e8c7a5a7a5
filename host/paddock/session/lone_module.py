"""One module without an orchestrator or a context around it: found, authorised, confined, started, ended.

A single call and a server for a client both open their module here. When `opened` is left, also by a cancellation,
nothing of the module is left running.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace

from paddock.authorization.authorizer import AuthorizedModule, Authorizer
from paddock.errors import PaddockError
from paddock.session.module import HostedModule
from paddock.session.recorder import StartRecord
from paddock.session.resources import SessionResources
from paddock.session.runtime import SessionCore, SessionRuntime
from paddock.session.startup import StartRequest, confined
from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedModule:
    """A module that can be started, and the runtime that it runs on."""

    authorized: AuthorizedModule
    resources: SessionResources
    runtime: SessionRuntime

    async def start(self) -> HostedModule:
        """Start and mount the module, and notify it that everything is mounted; it works without that.

        Raises:
            ModuleError: it cannot be started.
        """
        module = await self.runtime.start(self.authorized)
        if module.wants_session_ready:
            try:
                await module.session_ready()
            except Exception as error:  # module code
                _log.warning("on_session_ready of module `%s` failed: %s", module.name, error)
        return module

    async def clean_up(self) -> None:
        """Run what was registered to be run at the end, within its bound."""
        await self.runtime.deadlines.run(self.runtime.coordinator.cleanup)


@asynccontextmanager
async def opened(
    request: StartRequest,
    recorder: StartRecord,
    *,
    approval: ApprovalSystem | None = None,
    display: DisplaySystem | None = None,
) -> AsyncIterator[OpenedModule]:
    """Provide a module within the operator's policy.

    Raises:
        PaddockError: it is missing, or is not allowed; nothing was started.
    """
    options = request.options
    authorizer = await Authorizer.at_work(options.working_dir, options.environ, None)
    options.audit.obey(*authorizer.policy.audit)
    with recorder.refusals(PaddockError):
        await request.check(authorizer)
    async with confined(request, authorizer, recorder) as modules:
        # Modules read these three; the facts of a whole session are empty.
        session = SimpleNamespace(session_id=options.session, parent_id=None, config={"session": {}})
        core = SessionCore(session, options.working_dir, approval=approval, display=display)
        async with SessionRuntime.open(core, modules.resources) as runtime:
            yield OpenedModule(modules.authorization.modules[0], modules.resources, runtime)
