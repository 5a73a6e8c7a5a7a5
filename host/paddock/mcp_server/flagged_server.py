"""One module as a client's file names it, with flags: found, and authorised as a plan of one module.

Repositories bring such files, so flags are a plan. Where a person accepted them for this source, these arguments and
this folder, the module gets what they say. Elsewhere it gets what a plan gets that nobody accepted; the rest is left
out, and each failure names the line that accepts it. The folder is then the one where the client started the command:
the author of the file cannot choose one that has more in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from paddock.audit import AuditLog
from paddock.authorization.authorizer import Authorization, Authorizer
from paddock.authorization.consent import Consent
from paddock.errors import KindError, PolicyRefusedError
from paddock.isolation.planner import SandboxPlanner
from paddock.module_sources.resolve import SourceOptions
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import Permissions
from paddock.plan.server_flags import LonePlan, ServerFlags
from paddock.policy.owner import Owner
from paddock.session.lone_module import LoneModule
from paddock.session.resources import OnOutput, StartOptions
from paddock.session.startup import FoundCode
from paddock.state_folder import make_private, state_folder
from paddock.text import reason_of

_LOCKS: Final = "mcp"  # in the state folder: a folder with a lock file for each source, arguments and folder


class ServerModule(LoneModule):
    """The module of these flags; `consent` is asked about flags that nobody accepted.

    Once it is authorised, `is_accepted` says whether somebody did; without a consent `left_out` has the options that it
    therefore goes without.
    """

    def __init__(
        self,
        flags: ServerFlags,
        options: StartOptions,
        *,
        sources: SourceOptions | None = None,
        consent: Consent | None = None,
    ) -> None:
        super().__init__(flags.source, flags.written, options, base=flags.folder, sources=sources)
        self.flags = flags
        self.is_accepted = False
        self.left_out: tuple[str, ...] = ()
        self._consent = consent

    def plan(self, entry: ModuleEntry | None = None) -> LonePlan:
        """Return the plan of the flags, with the entry of its module if that is known: its id may take fetching."""
        return self.flags.plan(self.entry_of({"module": "tool"}) if entry is None else entry)

    def remedy(self, module: str) -> str:
        """Say what a person does about definitions of the module's tools that are not pinned."""
        return f"`{self.flags.line('accept')}` shows it, and pins it if you agree"

    async def lends_keys(self, authorizer: Authorizer) -> bool:
        """Whether the user's keys may be used to fetch the code: a person accepted the flags, or is asked now.

        Raises:
            KindError: nobody accepted them, and the folder is none that a client's file may choose.
        """
        self.is_accepted = await authorizer.is_accepted(self.plan())
        is_known = self.is_accepted or self._consent is not None
        folder, home = self.flags.folder, Owner.current(self.options.environ).home
        if not is_known and (home.is_relative_to(folder) or not folder.is_relative_to(Path.cwd())):
            said = f"nobody accepted that a server works in `{folder}`"
            detail = ["until then, it works only where its client started it, and not in a home folder or above"]
            raise KindError("ServerNotAcceptedError", said, exit_code=4, detail=detail)
        return is_known

    async def authorize(
        self, authorizer: Authorizer, code: FoundCode, sandbox_planner: SandboxPlanner
    ) -> Authorization:
        """Decide what the module may do; without an acceptance, what needs one is left out."""
        (entry,) = code.entries
        plan = self.plan(entry)
        try:
            authorization = await self._authorized(authorizer, plan, code, sandbox_planner)
        except PolicyRefusedError as error:
            if self._consent is not None or self.is_accepted:
                raise
            flags, self.left_out = self.flags.without({one.path for one in error.refusals})
            if not self.left_out:
                raise
            granted = Permissions.model_validate(dict(flags.permissions))
            reduced = flags.plan(entry.model_copy(update={"permissions": granted}))
            authorization = await self._authorized(authorizer, reduced, code, sandbox_planner)
        self.secrets = authorization.secrets
        return authorization

    async def _authorized(
        self, authorizer: Authorizer, plan: LonePlan, code: FoundCode, sandbox_planner: SandboxPlanner
    ) -> Authorization:
        return await authorizer.authorize_plan(
            plan,
            code.by_path,
            consent=self._consent,
            weaker_level=lambda: sandbox_planner.weaker_level(code.entries),
            asks_anyway=True,
        )


def start_options(
    flags: ServerFlags,
    environ: Mapping[str, str],
    *,
    on_output: OnOutput | None = None,
) -> StartOptions:
    """Return how a module of these flags is started; its lock file has a folder of its own in Paddock's state.

    Raises:
        KindError: that folder cannot be made.
        SourceUriError: the source is none.
    """
    try:
        locks = state_folder(environ) / _LOCKS
        make_private(locks)
        make_private(locks / flags.key)
    except OSError as error:
        raise KindError("StateFolderError", f"Paddock's own folder cannot be used: {reason_of(error)}") from error
    session = str(uuid.uuid4())
    audit = AuditLog(session, environ=environ)
    return StartOptions(
        flags.folder, environ, audit=audit, on_output=on_output, locks=locks / flags.key, session=session
    )
