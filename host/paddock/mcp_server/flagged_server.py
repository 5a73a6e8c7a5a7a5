"""One MCP server as a client's file names it, with flags: a plan of one module, found, authorised, accepted, served.

Repositories bring such files, so flags count once a person accepted them for this source, these arguments and this
folder. Before that a server starts only without grants and variables. Such a file also names the folder where the
client starts the command: with that of another project there, a grant of `.` would hand over that project.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from paddock.audit import AuditLog
from paddock.authorization.authorizer import AuthorizedModule, Authorizer, PlanStart
from paddock.authorization.consent import Consent, ConsentAnswer, PlanReview
from paddock.errors import KindError, PaddockError
from paddock.mcp_server.client_approval import ClientApproval
from paddock.mcp_server.served import Explain, ServedTools
from paddock.module_sources.definitions import DefinitionLock
from paddock.module_sources.provisioning import SourceOptions
from paddock.plan.permissions import Permissions
from paddock.plan.server_flags import ServerFlags
from paddock.policy.owner import Owner
from paddock.session.host_api.definitions import SessionDefinitions
from paddock.session.lone_module import opened
from paddock.session.recorder import SessionRecorder, StartRecord
from paddock.session.resources import OnOutput, StartOptions
from paddock.session.startup import PlanRequest
from paddock.state_folder import state_folder
from paddock.text import reason_of
from paddock_sdk.contract.approval import DisplaySystem

Compare = Callable[[SessionDefinitions, DefinitionLock], Awaitable[object]]
"""Compares what a server defines with its pins in a lock file, which it may change."""

_SET_BY_CLIENT: Final = "set by the client"  # in place of a variable's value, while a server is accepted
_LOCKS: Final = "mcp"  # in the state folder: a folder with a lock file for each source, arguments and folder


class SaidYes:
    """Accepts what is asked: a person saw it before, or says so by an option."""

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Accept it."""
        return ConsentAnswer.ACCEPT


class FlaggedServer(PlanRequest):
    """The server of these flags; `consent` is asked about flags that nobody accepted.

    Raises:
        KindError: its folder in Paddock's state, for its lock file, cannot be made.
        PlanError: the flags are not accepted.
    """

    def __init__(
        self,
        flags: ServerFlags,
        environ: Mapping[str, str],
        *,
        sources: SourceOptions | None = None,
        consent: Consent | None = None,
        on_output: OnOutput | None = None,
    ) -> None:
        session = str(uuid.uuid4())
        options = StartOptions(
            flags.folder,
            environ,
            audit=AuditLog(session, environ=environ),
            on_output=on_output,
            locks=_locks(environ, flags.key),
            session=session,
        )
        start = PlanStart(flags.plan(), consent=consent, asks_anyway=True)
        super().__init__(start, options, None, sources or SourceOptions())
        self.flags = flags

    def remedy(self, module: str) -> str:
        """Say what a person does about definitions of its tools that are not pinned."""
        return f"`{self.flags.line('accept')}` shows it, and pins it if you agree"

    async def check(self, authorizer: Authorizer) -> None:
        """Refuse what the flags alone show to be wrong, and what no client's file may choose."""
        if self.start.consent is None and not await authorizer.is_accepted(self.plan):
            folder, home = self.flags.folder, Owner.current(self.options.environ).home
            if self.flags.permissions or self.flags.config.get("env"):
                raise _not_accepted("what the server's flags grant it, or the variables that they set")
            if home.is_relative_to(folder) or not folder.is_relative_to(Path.cwd()):
                raise _not_accepted(f"that a server works in `{folder}`")
        await super().check(authorizer)


def _not_accepted(what: str) -> KindError:
    """Return the refusal of what may come from a file of strangers, such as the folder of another project."""
    detail = ["until then it starts only without grants, where its client started it, and not in a home or above one"]
    return KindError("ServerNotAcceptedError", f"nobody accepted {what}", exit_code=4, detail=detail)


def _locks(environ: Mapping[str, str], key: str) -> Path:
    try:
        return state_folder(environ, _LOCKS, key)
    except OSError as error:
        raise KindError("StateFolderError", f"Paddock's own folder cannot be used: {reason_of(error)}") from error


async def accept(
    flags: ServerFlags,
    environ: Mapping[str, str],
    *,
    consent: Consent | None = None,
    sources: SourceOptions | None = None,
    compare: Compare | None = None,
) -> AuthorizedModule:
    """Fetch and lock a server, ask `consent` unless it is accepted already, record it as accepted, and return it.

    Without a consent, a person has said yes before. Nothing of the server runs, unless it has pins, as it was accepted
    before and ran: then it is started for `compare`. Afterwards it starts without a network, in this folder alone. The
    values of its variables stand in the client's file, so that none need be set here.

    Raises:
        ConsentRefusedError: the answer is no.
        PaddockError: it cannot be had, is not allowed, or cannot be recorded.
    """
    named = Permissions.model_validate(dict(flags.permissions)).env
    environ = {**{one: _SET_BY_CLIENT for one in named if "=" not in one}, **environ}
    request = FlaggedServer(flags, environ, sources=sources, consent=consent or SaidYes())
    async with opened(request, StartRecord()) as lone:
        authorizer = await Authorizer.at_work(flags.folder, environ, None)
        if not await authorizer.is_accepted(request.plan):
            raise KindError("GrantsNotKeptError", "what was accepted could not be recorded, so nothing is accepted")
        server, definitions = lone.authorized.resolution.server, lone.resources.definitions
        if compare is not None and server is not None and server.definitions is not None:
            lock, definitions.lock = definitions.lock, None  # a person sees first what would be written
            await lone.start()
            if lock is not None:
                await compare(definitions, lock)
        return lone.authorized


@asynccontextmanager
async def served(
    request: FlaggedServer,
    explain: Explain,
    plain: Callable[[object], Any],
    *,
    display: DisplaySystem | None = None,
) -> AsyncIterator[ServedTools]:
    """Provide the tools of a server, started, for a client; nothing of it is left running.

    `plain` returns a value in JSON's own types, with secrets hidden.

    Raises:
        PaddockError: it is missing, is not allowed, or does not start.
    """
    recorder = SessionRecorder.of_plan(request.plan, request.options)
    approval = ClientApproval(request.mask)
    async with opened(request, recorder, approval=approval, display=display) as lone:
        try:
            module = await lone.start()
        except PaddockError as error:
            for failed in lone.runtime.modules.all:
                await failed.stop()
                await failed.attempts.finish()
                error.hints = tuple(explain(failed.denials, str(error))) or error.hints
            raise
        pins = lone.resources.definitions.at(module.entry.path)
        try:
            yield ServedTools(lone.runtime, approval, plain, explain, pins)
        finally:
            await lone.clean_up()
