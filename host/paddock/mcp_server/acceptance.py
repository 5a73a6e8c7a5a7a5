"""Accept one server with its flags: fetch it, lock it, ask, and record the answer, as for a plan.

Nothing of the server runs, unless it was accepted before and ran: then the definitions of its tools are compared with
their pins. Afterwards it starts without a network, with what was accepted, in this folder alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import anyio.to_thread

from paddock.authorization.authorizer import AuthorizedModule, Authorizer
from paddock.authorization.consent import Consent, ConsentAnswer, PlanReview
from paddock.errors import KindError
from paddock.mcp_server.flagged_server import ServerModule, start_options
from paddock.module_sources.definitions import DefinitionLock
from paddock.module_sources.resolve import SourceOptions
from paddock.plan.server_flags import ServerFlags
from paddock.session.host_api.definitions import SessionDefinitions
from paddock.session.lone_module import opened
from paddock.session.recorder import Unrecorded

Compare = Callable[[SessionDefinitions, DefinitionLock], Awaitable[object]]
"""Compares what a server defines with its pins in a lock file, which it may change."""


class SaidYes:
    """Accepts what is asked: a person saw it before, or says so by an option."""

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Accept it."""
        return ConsentAnswer.ACCEPT


async def accept(
    flags: ServerFlags,
    environ: Mapping[str, str],
    *,
    consent: Consent | None = None,
    sources: SourceOptions | None = None,
    compare: Compare | None = None,
) -> AuthorizedModule:
    """Fetch and lock a server, ask `consent` unless it is accepted already, record it as accepted, and return it.

    Without a consent, a person has said yes before. A server that has pins is started for `compare`.

    Raises:
        ConsentRefusedError: the answer is no.
        PaddockError: it cannot be had, is not allowed, or cannot be recorded.
        SourceUriError: the source is none.
    """
    options = await anyio.to_thread.run_sync(partial(start_options, flags, environ))
    request = ServerModule(flags, options, sources=sources, consent=consent or SaidYes())
    async with opened(request, None, Unrecorded()) as lone:
        authorizer = await Authorizer.at_work(flags.folder, environ, None)
        if not await authorizer.is_accepted(request.plan(lone.authorized.entry)):
            raise KindError("GrantsNotKeptError", "what was accepted could not be recorded, so nothing is accepted")
        server, definitions = lone.authorized.resolution.server, lone.resources.definitions
        if compare is not None and server is not None and server.definitions is not None:
            lock, definitions.lock = definitions.lock, None  # a person sees first what would be written
            await lone.start()
            if lock is not None:
                await compare(definitions, lock)
        return lone.authorized
