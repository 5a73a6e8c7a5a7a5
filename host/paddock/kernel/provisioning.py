"""The means to come by modules' code: the user's settings, and a sandbox for the programs that fetch.

Nothing is started before something has to be fetched. Leaving ends whatever still runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from importlib import metadata
from typing import Final

import anyio.to_thread

from paddock.audit import AuditLog
from paddock.kernel.command_worker import check_cancelled
from paddock.kernel.source_commands import SourceCommands
from paddock.policy.sources_file import load_source_settings
from paddock_sources.cache import SourceCache
from paddock_sources.direct_runner import DirectRunner
from paddock_sources.progress import Progress, SilentProgress
from paddock_sources.provisioner import Provisioner

# Distributions of the runtime that modules may depend on as well, in whatever version it has.
_OF_RUNTIME: Final = (
    "pydantic",
    "pydantic-core",
    "typing-extensions",
    "annotated-types",
    "typing-inspection",
    "msgpack",
)


@asynccontextmanager
async def provisioning(
    environ: Mapping[str, str],
    cache: SourceCache | None = None,
    *,
    offline: bool = False,
    live: bool = False,
    lends_keys: bool = True,
    progress: Progress | None = None,
    audit: AuditLog | None = None,
) -> AsyncIterator[Provisioner]:
    """Have a provisioner for the user who has `environ`.

    What it provides is kept in `cache`, and stays there while that is open; by default while this is.

    `offline`, nothing is fetched; `live`, modules in folders are run from there; without `lends_keys`, for what the
    user has not said yes to, nothing is fetched that takes the user's own keys or is at a private address. `progress`
    is told of what takes time, `audit` of each connection.

    Raises:
        PolicyFileError: the user's settings cannot be relied on.
    """
    settings = await anyio.to_thread.run_sync(load_source_settings, environ)
    with ExitStack() as stack:
        kept = cache or stack.enter_context(SourceCache.of_user(environ))
        async with SourceCommands(environ, audit=audit, is_users_word=lends_keys) as commands:
            yield Provisioner(
                kept,
                commands,
                DirectRunner(environ, check=check_cancelled),
                environ=environ,
                settings=settings,
                preloaded=_preloaded(),
                progress=progress or SilentProgress(),
                offline=offline,
                live=live,
                lends_keys=lends_keys,
            )


def offline_provisioner(environ: Mapping[str, str], cache: SourceCache) -> Provisioner:
    """Return a provisioner for whoever only looks at what there is: it fetches nothing, and starts nothing.

    Raises:
        PolicyFileError: the user's settings cannot be relied on.
    """
    return Provisioner(
        cache,
        DirectRunner(environ),
        DirectRunner(environ),
        environ=environ,
        settings=load_source_settings(environ),
        preloaded=_preloaded(),
        progress=SilentProgress(),
        offline=True,
    )


@cache
def _preloaded() -> Mapping[str, str]:
    return {name: metadata.version(name) for name in _OF_RUNTIME}
