"""The code of modules as a lock file pins it.

Locked code is used exactly as locked: it is not looked up again. A missing entry is pinned and noted for the file, or
refused, depending on `LockUse`. Threads may share it. The caller writes the file.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.errors import (
    OwnRightsError,
    SourceError,
    contradicts_rules,
    not_locked,
)
from paddock_sources.lock.lock_file import LockedModule, LockFile
from paddock_sources.provisioner import Provisioner
from paddock_sources.resolution import Resolution
from paddock_sources.uri import SourceUri

_log = logging.getLogger(__name__)


class LockUse(Enum):
    """How a lock file is used: `UPDATE` it, refuse if it is out of date, or take it as it is."""

    UPDATE = "update"
    LOCKED = "locked"
    FROZEN = "frozen"


@dataclass(eq=False)
class LockedSources:
    """Provides modules by the `lock` file of `folder`."""

    provisioner: Provisioner
    lock: LockFile
    folder: Path
    use: LockUse = LockUse.UPDATE

    def __post_init__(self) -> None:
        self._rules: dict[str, DependencyRules] = {}
        self._noted: dict[str, LockedModule] = {}
        self._noting = threading.Lock()

    @property
    def news(self) -> tuple[LockedModule, ...]:
        """The new entries for the lock file."""
        with self._noting:
            return tuple(self._noted.values())

    def pinned_text(self, uri: SourceUri) -> str:
        """Return a source as rules are to judge it: with the commit that is locked in place of a branch or tag."""
        locked = self.lock.of(uri, self.folder) if uri.has_commits else None
        return uri.at_commit(locked.commit) if locked is not None and locked.commit else uri.text

    def pinned(self, uris: Iterable[SourceUri]) -> dict[str, LockedModule | None]:
        """Return the locked modules of sources, by their keys; without sources that need no lock."""
        found = {}
        for uri in uris:
            with suppress(SourceError):  # an unreadable source cannot be provided either
                if not self.provisioner.supply(uri).heeds_lock(uri):
                    continue
                locked = self.lock.of(uri, self.folder)
                key = uri.key(self.folder) if locked is None else locked.source
                found[key] = locked
        return found

    def own_rights(self, uris: Mapping[str, SourceUri]) -> dict[str, OwnRightsError]:
        """Return why sources have to be fetched with the user's own rights, for those whose addresses say so."""
        found: dict[str, OwnRightsError] = {}
        for path, uri in uris.items():
            reason = self.provisioner.supply(uri).own_rights(uri, self.lock.of(uri, self.folder))
            if reason is not None:
                found[path] = reason
        return found

    def lend(self, uris: Iterable[SourceUri]) -> None:
        """Have these sources be fetched with the user's own rights."""
        self.provisioner.lend(uris)

    def bind(self, uri: SourceUri, rules: DependencyRules) -> None:
        """Have the dependencies of a source be within rules, together with those that it was bound by before.

        Raises:
            SourceError: the rules contradict each other or the user's settings.
        """
        key = uri.key(self.folder)
        bound = self._rules.get(key, NO_RULES).joined(rules)
        self.provisioner.supply(uri).rules(uri, bound)
        self._rules[key] = bound

    def module_ids(self, uri: SourceUri) -> tuple[str, ...]:
        """Return the ids that the code at `uri` goes by, fetching it if that is needed.

        Raises:
            SourceError: it cannot be had.
        """
        return self.provisioner.supply(uri).module_ids(uri, self._locked(uri))

    def provide(self, uri: SourceUri, module_id: str) -> Resolution:
        """Return a module, ready to be run, fetching what is not in the cache.

        Raises:
            SourceError: it cannot be had, or differs from what was locked.
        """
        locked = self._locked(uri)
        if locked is not None and self.use is not LockUse.FROZEN:
            locked = self._as_it_is_now(uri, locked)
        if locked is not None:
            locked = self._within_rules(uri, locked)
        return self.provisioner.provide(uri, module_id, locked, self._rules_of(uri))

    def _rules_of(self, uri: SourceUri) -> DependencyRules:
        return self._rules.get(uri.key(self.folder), NO_RULES)

    def _locked(self, uri: SourceUri) -> LockedModule | None:
        """Return the locked module of a source; None for a folder or a shipped module that needs no lock."""
        key, supply = uri.key(self.folder), self.provisioner.supply(uri)
        if not supply.heeds_lock(uri):
            return None
        locked = self.lock.of(uri, self.folder)
        key = key if locked is None else locked.source
        with self._noting:
            locked = self._noted.get(key) or locked
        if locked is not None or not supply.needs_lock(uri):
            return locked
        if self.use is not LockUse.UPDATE:
            raise not_locked(key, self.use.value)
        return self._note(replace(self.provisioner.lock(uri, rules=self._rules_of(uri)), source=key))

    def _as_it_is_now(self, uri: SourceUri, locked: LockedModule) -> LockedModule:
        """Return the locked module of a source whose code may have changed since, as a folder's may."""
        stale = self.provisioner.supply(uri).stale(uri, locked)
        if stale is None:
            return locked
        if self.use is LockUse.LOCKED:
            raise stale.refusal
        _log.warning("%s", stale.warning)
        again = self.provisioner.lock(uri, previous=locked, rules=self._rules_of(uri))
        return self._note(replace(again, source=locked.source))

    def _within_rules(self, uri: SourceUri, locked: LockedModule) -> LockedModule:
        """Return the locked module of a source, its dependencies chosen again where its rules do not allow them."""
        problem = self.provisioner.contradiction(uri, locked, self._rules_of(uri))
        if problem is None:
            return locked
        if self.use is not LockUse.UPDATE or self.provisioner.offline:
            raise contradicts_rules(locked.source, problem)
        _log.warning("%s is locked with %s: its dependencies are chosen and locked again", locked.source, problem)
        return self._note(self.provisioner.relock(uri, locked, self._rules_of(uri)), instead_of=locked)

    def _note(self, locked: LockedModule, *, instead_of: LockedModule | None = None) -> LockedModule:
        """Note an entry for the lock file and return it, or the one that another thread noted meanwhile."""
        with self._noting:
            if self._noted.get(locked.source) in (None, instead_of):
                self._noted[locked.source] = locked
            return self._noted[locked.source]
