"""Accept one server with its flags: fetch it, lock it, ask, and record the answer, as for a plan.

Nothing of the server runs. Afterwards it starts without a network, with what was accepted, in this folder alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import anyio.to_thread

from paddock.authorization.authorizer import AuthorizedModule, Authorizer
from paddock.authorization.consent import Consent, ConsentAnswer, PlanReview
from paddock.errors import KindError
from paddock.mcp_server.flagged_server import ServerModule, start_options
from paddock.module_sources.resolve import SourceOptions
from paddock.plan.server_flags import ServerFlags
from paddock.session.recorder import Unrecorded
from paddock.session.startup import confined


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
) -> AuthorizedModule:
    """Fetch and lock a server, ask `consent` unless it is accepted already, record it as accepted, and return it.

    Without a consent, a person has said yes before.

    Raises:
        ConsentRefusedError: the answer is no.
        PaddockError: it cannot be had, is not allowed, or cannot be recorded.
        SourceUriError: the source is none.
    """
    options = await anyio.to_thread.run_sync(partial(start_options, flags, environ))
    request = ServerModule(flags, options, sources=sources, consent=consent or SaidYes())
    authorizer = await Authorizer.at_work(flags.folder, environ, None)
    request.check(authorizer)
    async with confined(request, authorizer, options, Unrecorded()) as modules:
        (module,) = modules.authorization.modules
        if not await authorizer.is_accepted(request.plan(module.entry)):
            raise KindError("GrantsNotKeptError", "what was accepted could not be recorded, so nothing is accepted")
        return module
