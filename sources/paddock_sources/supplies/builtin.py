"""How a module that came with Paddock is provided: its code is here, and only its dependencies are locked."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from paddock_sources.constraints import DependencyRules
from paddock_sources.dependencies import Choice
from paddock_sources.errors import OwnRightsError, SourceUriError, outdated_lock
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.resolution import PinnedSource, Resolution
from paddock_sources.supplies.supply import StaleLock, Supply
from paddock_sources.uri import BuiltinUri


class BuiltinSupply(Supply[BuiltinUri]):
    """See `Supply`."""

    has_uv_lock: ClassVar[bool] = False

    def pin(self, uri: BuiltinUri, *, allow_impostor: bool = False) -> PinnedSource:
        return PinnedSource("", "builtin", "")

    def needs_lock(self, uri: BuiltinUri) -> bool:
        return self.workshop.builtin.has_dependencies(uri.module_id)

    def heeds_lock(self, uri: BuiltinUri) -> bool:
        return self.needs_lock(uri)  # a lock file adds nothing to a module that depends on nothing

    def lock(self, uri: BuiltinUri, pinned: PinnedSource | None, choice: Choice) -> LockedModule:
        if not self.needs_lock(uri):
            raise SourceUriError(uri.text, "there is nothing to lock: it is what is installed here")
        return LockedModule(source=uri.text, dependencies=self._chosen(uri, choice))

    def relock(self, uri: BuiltinUri, locked: LockedModule, rules: DependencyRules) -> LockedModule:
        return replace(locked, dependencies=self._chosen(uri, Choice(rules, locked)))

    def _chosen(self, uri: BuiltinUri, choice: Choice) -> tuple[LockedDependency, ...]:
        root = self.workshop.builtin.resolve(uri.module_id).root
        return self.workshop.dependencies.choose(root, uri, choice, mine=False, keeps=True)

    def stale(self, uri: BuiltinUri, locked: LockedModule) -> StaleLock | None:
        root = self.workshop.builtin.resolve(uri.module_id).root
        if self.workshop.dependencies.still_satisfy(root, locked):
            return None
        return StaleLock(
            "needs other packages than were locked",
            f"{locked.source} needs other packages than were locked for it: they are locked again",
            outdated_lock(locked.source, "locked"),
        )

    def provide(
        self, uri: BuiltinUri, module_id: str, locked: LockedModule | None, rules: DependencyRules
    ) -> Resolution:
        resolution = replace(self.workshop.builtin.resolve(uri.module_id), module_id=module_id)
        if locked is None:
            return resolution
        return self.with_libraries(resolution, locked, uri, mine=False)

    def module_ids(self, uri: BuiltinUri, locked: LockedModule | None) -> tuple[str, ...]:
        return (uri.module_id,)

    def own_rights(self, uri: BuiltinUri, locked: LockedModule | None) -> OwnRightsError | None:
        return None
