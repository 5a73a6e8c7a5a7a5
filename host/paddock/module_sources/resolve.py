"""Find the code of the modules of one plan, or of one call.

All sources are chosen first, then judged by the policy, and only then fetched, side by side, where the cache lacks
them. That happens before any module code runs, so it takes none of a module's start-up time. Pins made on the way are
written to the lock file. If it is cancelled, it leaves nothing running and nothing half-done.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.from_thread
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.errors import KindError, ModuleMissingError
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.isolation.sandbox_host import SandboxHost
from paddock.module_sources.definitions import DefinitionLock
from paddock.module_sources.lock import update_lock
from paddock.module_sources.provisioning import SourceOptions, provisioning
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import grants_of
from paddock.plan.problems import path_text
from paddock.plan.source_map import Positions
from paddock.policy.evaluate import refuse_sources
from paddock.policy.files.policy import Policy
from paddock.policy.owner import Owner
from paddock.policy.pins import Pin, Pins
from paddock_sdk.contract import module_sources
from paddock_sources import Resolution, Resolver, SourceError, SourceUri
from paddock_sources.application import ApplicationResolver
from paddock_sources.cache import SourceCache
from paddock_sources.constraints import DependencyRules
from paddock_sources.errors import without_credentials
from paddock_sources.lock.lock_file import LOCK_FILE, LockedModule, LockFile, linked_lock
from paddock_sources.lock.lock_placeholder import LockPlaceholder
from paddock_sources.locked_sources import LockedSources, LockUse
from paddock_sources.resolver import PLAN_LAYER, ChosenSource

_AT_A_TIME: Final = 20  # modules whose code is fetched side by side

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class ModuleSources:
    """Finds code for the user with `environ`: folders are relative to `base`, the lock file is in the folder `locks`.

    Without such a folder nothing is locked beforehand, and nothing is written. The code stays in the `cache` for as
    long as that is open. `lends_keys` says that the user's keys may be used to fetch it. `host` starts the workers that
    fetch; without one, a host is started for them. The lock file is read once, or is `lock`, which the caller judged.
    """

    cache: SourceCache
    environ: Mapping[str, str]
    base: Path
    locks: Path | None
    policy: Policy
    options: SourceOptions
    audit: AuditLog | None = None
    _: KW_ONLY
    lends_keys: bool = True
    host: SandboxHost | None = None
    lock: LockFile | None = None

    def __post_init__(self) -> None:
        self._unwritten: tuple[LockedModule, ...] = ()  # pins made by this object
        self._uris: dict[str, SourceUri] = {}  # by the places of the entries
        self._pins: Pins = {}

    @property
    def pins(self) -> Pins:
        """Return what the lock file pins the resolved sources to."""
        return self._pins

    async def resolve(
        self,
        entries: Sequence[ModuleEntry],
        positions: Positions | None = None,
        *,
        rules: Callable[[ModuleEntry], DependencyRules] | None = None,
        check_pins: Callable[[Pins], Awaitable[None]] | None = None,
        check_rights: Callable[[Mapping[str, str]], Awaitable[None]] | None = None,
    ) -> dict[str, Resolution | ModuleMissingError]:
        """Return where each entry's code is, or why it is unavailable, by the entry's place in the plan.

        `rules` returns those for what an entry's module depends on. `check_pins` is called with what the lock file pins
        these sources to, and `check_rights` with what each source takes of the user's own rights, by its place, where
        its address says so. Both are called before anything is fetched; their exceptions propagate.

        Raises:
            PolicyRefusedError: no module may come from one of the sources.
            KindError: the lock file or the cache cannot be used, or rules contradict each other.
            PolicyFileError: the user's settings cannot be used.
        """
        found: dict[str, Resolution | ModuleMissingError] = {}
        async with self._opened() as (sources, resolver):
            chosen: dict[str, ChosenSource] = {}

            def choose() -> None:
                for entry in entries:
                    check_cancelled()
                    try:
                        chosen[entry.path] = resolver.choose(entry.module, entry.source)
                    except SourceError as error:
                        found[entry.path] = ModuleMissingError.of(entry.module, error)

            await anyio.to_thread.run_sync(choose)
            self._uris = {path: one.uri for path, one in chosen.items()}
            texts = {path_text(path, "source"): sources.pinned_text(one.uri) for path, one in chosen.items()}
            refuse_sources(texts, self.policy, positions)
            pinned = sources.pinned(one.uri for one in chosen.values())
            self._pins = {key: None if one is None else Pin.of(one) for key, one in pinned.items()}
            if check_pins is not None:
                await check_pins(self._pins)
            own = sources.own_rights({path: one.uri for path, one in chosen.items()})
            if check_rights is not None and own:
                await check_rights({path_text(path, "source"): reason.takes for path, reason in own.items()})
                sources.lend(chosen[path].uri for path in own)
            if rules is not None:
                bound = [(chosen[entry.path].uri, rules(entry)) for entry in entries if entry.path in chosen]

                def bind() -> None:
                    for uri, of_uri in bound:
                        check_cancelled()
                        sources.bind(uri, of_uri)

                await anyio.to_thread.run_sync(bind)  # many take a while to compare
            limiter = anyio.CapacityLimiter(_AT_A_TIME)

            async def provide(entry: ModuleEntry) -> None:
                try:
                    act = partial(resolver.provide, chosen[entry.path])
                    found[entry.path] = await anyio.to_thread.run_sync(act, limiter=limiter)
                except SourceError as error:
                    found[entry.path] = ModuleMissingError.of(entry.module, error)

            async with anyio.create_task_group() as providing:
                for entry in entries:
                    if entry.path in chosen:
                        providing.start_soon(provide, entry)
            self._note(sources.news)
        for path, one in chosen.items():
            if one.source is not None and one.layer != PLAN_LAYER:
                _log.warning("%s: %s names another source than the plan: %s", path, one.layer, one.uri.text)
        return {entry.path: found[entry.path] for entry in entries}

    async def module_ids(self, uri: SourceUri) -> tuple[str, ...]:
        """Return the module ids of the code at a source; fetch it if that is needed.

        Raises:
            PolicyRefusedError: no module may come from there.
            ModuleMissingError: the code is unavailable.
            KindError: the lock file or the cache cannot be used.
        """
        uri = await anyio.to_thread.run_sync(uri.held)
        async with self._opened() as (sources, _):
            refuse_sources({"": sources.pinned_text(uri)}, self.policy)
            try:
                ids = await anyio.to_thread.run_sync(sources.module_ids, uri)
            except SourceError as error:
                raise ModuleMissingError.of(without_credentials(uri.text), error) from error
            self._note(sources.news)
        return ids

    async def write(self) -> None:
        """Write new pins into the lock file, once it is decided that the modules may be started at all.

        A folder that cannot be written to has no lock file; pins that others wrote meanwhile stay.
        """
        news = self._unwritten
        if not news or self.locks is None:
            return
        since = await self._lock_file()
        path = self.locks / LOCK_FILE
        write = partial(update_lock, path, lambda lock: lock.with_news(news, since=since), self.environ)
        try:
            after = await anyio.to_thread.run_sync(write)
        except (OSError, SourceError) as error:
            _log.warning("what was fetched is not locked, and may be another thing next time: %s", error)
            return
        for one in news:
            if after.get(one.source) != one:
                _log.warning("%s was locked by somebody else meanwhile, to something else", one.source)

    def definitions(self, remedy: Callable[[str], str]) -> DefinitionLock | None:
        """Return where the definitions of servers that were resolved are pinned; None if that is nowhere.

        `remedy` says what a person does about those of a module that are not pinned.
        """
        if self.locks is None:
            return None
        takes_new = self.options.use is LockUse.UPDATE
        return DefinitionLock(self.locks / LOCK_FILE, self._uris, self.environ, remedy, takes_new)

    def _note(self, news: Iterable[LockedModule]) -> None:
        self._unwritten = tuple({one.source: one for one in (*self._unwritten, *news)}.values())

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[LockedSources, Resolver]]:
        try:
            async with self._opening() as opened:
                yield opened
        except SourceError as error:
            raise KindError.of_sources(error) from error

    async def _lock_file(self) -> LockFile:
        if self.lock is None:
            path = self.locks / LOCK_FILE if self.locks is not None else None
            self.lock = LockFile() if path is None else await anyio.to_thread.run_sync(LockFile.read, path)
        return self.lock

    @asynccontextmanager
    async def _opening(self) -> AsyncIterator[tuple[LockedSources, Resolver]]:
        options = self.options
        async with provisioning(
            self.environ,
            self.cache,
            options,
            lends_keys=self.lends_keys,
            host=self.host,
            policy=self.policy,
            audit=self.audit,
        ) as provisioner:
            lock = (await self._lock_file()).with_modules(self._unwritten)
            sources = LockedSources(provisioner, lock, self.locks or self.base, options.use)
            application = None
            if options.application is not None:
                application = ApplicationResolver(
                    options.application,
                    not_found=_not_found_errors(),
                    await_call=anyio.from_thread.run,
                )
            yield (
                sources,
                Resolver(
                    self.environ,
                    base=self.base,
                    application=application,
                    settings=provisioner.settings,
                    installed=provisioner.find_installed,
                    provide=sources.provide,
                ),
            )


def _not_found_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that mean an unknown module: Paddock's class, and that of the published package.

    An application may have the published package beside Paddock; its code then imports that one.
    """
    published = getattr(sys.modules.get("amplifier_core.module_sources"), "ModuleNotFoundError", None)
    own = module_sources.ModuleNotFoundError
    if isinstance(published, type) and issubclass(published, Exception) and published is not own:
        return (own, published)
    return (own,)


class KeptLockFile:
    """The lock file of a session's folder, which no module may change: its writer chooses the code that runs next.

    Where a module might otherwise create it, a placeholder stands there until `release`; the file `is_in_reach` then.
    """

    def __init__(self) -> None:
        self.is_in_reach = False
        self._placeholder: LockPlaceholder | None = None

    def keep(self, folder: Path, entries: Iterable[ModuleEntry], working_dir: Path) -> tuple[Path, ...]:
        """Return the lock file of `folder`, where one is.

        Raises:
            KindError: a module could create one, and a placeholder cannot be made; or a link is in its place, which a
                module could replace.
        """
        lock = folder.resolve() / LOCK_FILE
        if lock.is_symlink():  # since it was read: reading refuses one as well
            raise KindError.of_sources(linked_lock(lock))
        written = (path for entry in entries for path in grants_of(entry.permissions).write)
        owner = Owner.current(os.environ)
        self.is_in_reach = any(lock.is_relative_to(owner.expanded(one, working_dir).resolve()) for one in written)
        if self.is_in_reach:
            try:
                self._placeholder = LockPlaceholder.hold(lock)
            except SourceError as error:
                raise KindError.of_sources(error) from error
        return (lock,) if lock.is_file() else ()

    def release(self) -> None:
        """Remove the placeholder, unless another session needs it."""
        if self._placeholder is not None:
            self._placeholder.release()
            self._placeholder = None
