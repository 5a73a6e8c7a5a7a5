"""What a session needs to get modules' code: the user's settings, and a sandbox for the programs that fetch.

Nothing is started before something has to be fetched. Leaving the context ends what still runs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

import anyio.to_thread

from paddock.audit import AuditLog
from paddock.errors import PolicyRefusedError
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.isolation.commands.source_commands import SourceCommands
from paddock.isolation.sandbox_host import SandboxHost
from paddock.policy.evaluate import refuse_sources
from paddock.policy.files.policy import Policy
from paddock.policy.files.sources import load_source_settings
from paddock_sources.cache import SourceCache
from paddock_sources.commands.direct_runner import DirectRunner
from paddock_sources.errors import OFFLINE, NoFetching, SourceRefusedError
from paddock_sources.locked_sources import LockUse
from paddock_sources.progress import Progress, SilentProgress
from paddock_sources.provisioner import NO_RUNNER, Provisioner
from paddock_sources.uri import SourceUri

# Distributions of the runtime that modules may depend on as well, in the runtime's version.
_OF_RUNTIME: Final = (
    "pydantic",
    "pydantic-core",
    "typing-extensions",
    "annotated-types",
    "typing-inspection",
    "msgpack",
)
_VERSION: Final = re.compile(r"^Version: (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options for getting the code of modules.

    `use` says how the lock file is used; with `offline`, nothing is fetched, and `no_fetching` says what to do about
    it; with `live`, modules in folders run from there and not from a copy. `progress` shows what is fetched.
    `application` is an application's own resolver, an object as the contract describes it, which is asked before the
    plan is.
    """

    use: LockUse = LockUse.UPDATE
    offline: bool = False
    live: bool = False
    progress: Progress = field(default_factory=SilentProgress)
    application: Any = None
    no_fetching: NoFetching = OFFLINE


@asynccontextmanager
async def provisioning(
    environ: Mapping[str, str],
    cache: SourceCache | None = None,
    options: SourceOptions | None = None,
    *,
    lends_keys: bool = True,
    policy: Policy | None = None,
    audit: AuditLog | None = None,
    host: SandboxHost | None = None,
) -> AsyncIterator[Provisioner]:
    """Yield a provisioner for the user who has `environ`.

    Provided code is kept in `cache`, and stays there while that is open; by default while this context is.

    Without `lends_keys`, for a plan that the user has not accepted, nothing is fetched that takes the user's own keys
    or is at a private address. `audit` records each connection. `host` starts the workers that fetch, where there is
    one.

    Raises:
        PolicyFileError: the user's settings, or a policy, cannot be trusted or understood.
    """
    options = options or SourceOptions()
    settings = await anyio.to_thread.run_sync(load_source_settings, environ)
    judged_by = await anyio.to_thread.run_sync(Policy.load, environ) if policy is None else policy
    with ExitStack() as stack:
        kept = cache or stack.enter_context(SourceCache.of_user(environ, check=check_cancelled))
        async with SourceCommands.started(environ, audit=audit, host=host) as commands:
            yield Provisioner(
                kept,
                commands,
                DirectRunner(environ, check=check_cancelled),
                environ=environ,
                settings=settings,
                preloaded=_preloaded,
                progress=options.progress,
                offline=options.offline,
                no_fetching=options.no_fetching,
                live=options.live,
                lends_keys=lends_keys,
                judge=partial(_judge, judged_by),
            )


def offline_provisioner(
    environ: Mapping[str, str], cache: SourceCache, no_fetching: NoFetching = OFFLINE
) -> Provisioner:
    """Return a provisioner that only looks at code that is already here: it fetches nothing, and starts nothing.

    `no_fetching` says why, and what to do about it.

    Raises:
        PolicyFileError: the user's settings cannot be trusted or understood.
    """
    return Provisioner(
        cache,
        NO_RUNNER,
        NO_RUNNER,
        environ=environ,
        settings=load_source_settings(environ),
        preloaded=_preloaded,
        progress=SilentProgress(),
        offline=True,
        no_fetching=no_fetching,
    )


def _judge(policy: Policy, uri: SourceUri) -> None:
    """Refuse a dependency's repository by its host: its lock names a commit, but its address may be anywhere.

    Raises:
        SourceRefusedError: a policy does not list its host.
    """
    try:
        refuse_sources({"": uri.at_commit()}, policy)
    except PolicyRefusedError as error:
        raise SourceRefusedError(error.summary, detail=error.detail, hints=error.hints) from error


@cache
def _preloaded() -> Mapping[str, str]:
    """Return the versions of those of these distributions that exist; which do depends on their own versions."""
    from importlib import metadata  # It loads the standard library's package of mail, which nothing else here needs.

    found = {}
    for name in _OF_RUNTIME:
        with suppress(metadata.PackageNotFoundError):
            distribution = metadata.distribution(name)
            # Its header alone: to parse the page below it as well takes several milliseconds.
            header, _, _ = (distribution.read_text("METADATA") or "").partition("\n\n")
            stated = _VERSION.search(header)
            found[name] = stated[1] if stated else distribution.version
    return found
