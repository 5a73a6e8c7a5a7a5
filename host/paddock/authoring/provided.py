"""Prepare the code for a trial of a module: a copy of its folder as it is now, and all its dependencies.

Versions are chosen once a day; a trial without a network uses the last choice. The author's folder stays as it is. No
module code is executed, and the user's keys are not lent: the repository may well be a third party's, and a trial
accepts nothing that it names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio.to_thread

from paddock.audit import AuditLog
from paddock.authoring.module_folder import ModuleFolder
from paddock.errors import KindError
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.isolation.sandbox_host import SandboxHost
from paddock.module_sources.provisioning import SourceOptions, provisioning
from paddock.policy.evaluate import refuse_sources
from paddock.policy.files.policy import Policy
from paddock_sources import Resolution, SourceError
from paddock_sources.cache import SourceCache
from paddock_sources.errors import OwnRightsError
from paddock_sources.uri import FolderUri


@dataclass(frozen=True, slots=True)
class TrialNeeds:
    """The needs of a trial beyond those of the module: extras of its own, and further requirements."""

    extras: Collection[str] = ()
    more: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How missing code may be fetched; `audit` records each connection."""

    environ: Mapping[str, str]
    sources: SourceOptions = field(default_factory=SourceOptions)
    audit: AuditLog | None = None


def _environment_error(error: SourceError, needs: TrialNeeds) -> KindError:
    """Return the error for unavailable test requirements: it names those beyond the module's own."""
    named = [*needs.more, *(f"the module's extra `{extra}`" for extra in needs.extras)]
    return KindError(
        "NoTestEnvironmentError",
        f"what runs the tests is unavailable: {error.summary}",
        detail=[*error.detail, f"needed besides what the module itself depends on: {', '.join(named)}"],
        hints=error.hints,
    )


def _rights_error(error: OwnRightsError) -> KindError:
    """Return the error for dependencies that are available only with the user's own rights."""
    return KindError(
        "StrangersWordError",
        f"{error.takes}; a trial lends no repository your rights",
        hints=[
            "a plan of yours that has the module in it lends it your rights: `paddock run PLAN`",
            "or offer it as a package: the index that you name (`UV_DEFAULT_INDEX`) may be a private one",
        ],
    )


@asynccontextmanager
async def provided(
    folder: ModuleFolder, policy: Policy, fetch_options: FetchOptions, needs: TrialNeeds
) -> AsyncIterator[tuple[Resolution, SandboxHost]]:
    """Prepare the module to run, with all it needs, for as long as this context is open.

    Also gives the host in whose workers that was fetched.

    Raises:
        PolicyRefusedError: no module may come from there.
        KindError: it is unavailable, or the user would have to accept something that it depends on.
    """
    uri = FolderUri(str(folder.root), folder.root).held()
    refuse_sources({"": uri.text}, policy)
    with SourceCache.of_user(fetch_options.environ, check=check_cancelled) as cache:
        async with SandboxHost.started() as host:
            try:
                async with provisioning(
                    fetch_options.environ,
                    cache,
                    fetch_options.sources,
                    lends_keys=False,
                    policy=policy,
                    audit=fetch_options.audit,
                    host=host,
                ) as provisioner:
                    lock = partial(provisioner.lock, uri, extras=needs.extras, more=needs.more)
                    locked = await anyio.to_thread.run_sync(lock)
                    resolution = await anyio.to_thread.run_sync(provisioner.provide, uri, folder.module_id, locked)
            except OwnRightsError as error:
                raise _rights_error(error) from error
            except SourceError as error:
                raise _environment_error(error, needs) if needs.more else KindError.of_sources(error) from error
            yield resolution, host
