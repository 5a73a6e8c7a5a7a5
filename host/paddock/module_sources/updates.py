"""Find out what an update of a locked source would change, before anything of it is taken.

A tag that moved is not followed unless that is wanted. A commit that is younger than wanted is held back. A person
accepts what a new version asks for beyond the old one. Dates are those that the commits themselves claim.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from paddock.module_sources.sourced_modules import SourcedModule
from paddock.policy.pins import moved_dependencies
from paddock_sources import SourceError
from paddock_sources.lock.lock_file import LockedModule
from paddock_sources.manifest.permission_request import PermissionDifference, PermissionRequest, difference

if TYPE_CHECKING:
    from paddock_sources.provisioner import PinnedSource, Provisioner

_MENDED: Final = "locked again: its files were not those of the lock"

UpdateState = Literal["current", "moved", "held", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class SourceUpdate:
    """The result of looking for a newer version: `new` can be taken where the state is `moved`.

    `asked` is what it asks for more and less than before; `is_older` means that it was made before the locked one.
    `newer` are tags with a newer version than the one that is named.
    """

    module: SourcedModule
    old: LockedModule
    state: UpdateState
    pinned: PinnedSource | None = None
    new: LockedModule | None = None
    reason: str = ""
    asked: PermissionDifference = field(default_factory=PermissionDifference)
    is_moved_tag: bool = False
    is_older: bool = False
    error: SourceError | None = None
    newer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceUpdates:
    """Looks for versions newer than the locked ones, as of `now`.

    With `of_packages`, the versions of packages among dependencies are chosen again as well; otherwise they stay as far
    as they still fit.
    """

    provider: Provisioner
    now: datetime
    _: KW_ONLY
    min_age: timedelta
    allow_moved_tag: bool = False
    of_packages: bool = False

    def look(self, module: SourcedModule) -> SourceUpdate:
        """Return what an update of a locked module would change; blocks while servers answer. Never raises."""
        assert module.locked is not None
        try:
            found = self._look(module, module.locked)
            return replace(found, newer=self.provider.supply(module.uri).newer_tags(module.uri, found.new or found.old))
        except SourceError as error:
            return SourceUpdate(module, module.locked, "failed", reason=error.summary, error=error)

    def _look(self, module: SourcedModule, old: LockedModule) -> SourceUpdate:
        supply = self.provider.supply(module.uri)
        pinned = supply.pin(module.uri)
        is_other_ref = module.key != old.source  # a person has named it
        if not is_other_ref and supply.is_as_locked(module.uri, pinned, old):
            return self._chosen_again(module, old, pinned)
        is_other = pinned.commit != old.commit
        is_tag = is_other and not is_other_ref and "tag" in (pinned.kind, old.requested_kind)
        before, after = old.committed_at, pinned.committed_at
        is_older = before is not None and after is not None and after < before
        found = SourceUpdate(module, old, "moved", pinned, is_moved_tag=is_tag, is_older=is_older)
        if is_tag and not self.allow_moved_tag:
            return replace(found, state="refused", reason=_moved_tag(old))
        if is_other and (young := self._is_too_young(pinned)) is not None:
            return replace(found, state="held", reason=young)
        new = self.provider.lock(module.uri, pinned=pinned, previous=self._kept(old), rules=module.rules)
        new = replace(new, source=module.key)
        if new == old:
            return SourceUpdate(module, old, "current", pinned)
        reason = _MENDED if old.commit and not is_other and new.tree != old.tree else ""
        return replace(found, new=new, reason=reason, asked=self._asked(old, new))

    def why_not(self, old: LockedModule, pinned: PinnedSource) -> str:
        """Return why a newer commit of a repository is not taken, before it is fetched; empty if it may be."""
        if "tag" in (pinned.kind, old.requested_kind) and not self.allow_moved_tag:
            return _moved_tag(old)
        return self._is_too_young(pinned) or ""

    def _chosen_again(self, module: SourcedModule, old: LockedModule, pinned: PinnedSource) -> SourceUpdate:
        """Return what changes of a source whose code is the locked one: its dependencies at most."""
        problem = self.provider.contradiction(module.uri, old, module.rules)
        if problem is None and not (self.of_packages and old.dependencies):
            return SourceUpdate(module, old, "current", pinned)
        again = self.provider.relock(module.uri, self._kept(old), module.rules)
        if again == old:
            return SourceUpdate(module, old, "current", pinned)
        return SourceUpdate(module, old, "moved", pinned, again, reason=moved_dependencies(old, again))

    def _kept(self, old: LockedModule) -> LockedModule:
        """Return a lock with the dependencies that are to stay."""
        if not self.of_packages:
            return old
        return replace(old, dependencies=tuple(one for one in old.dependencies if one.commit))

    def _is_too_young(self, pinned: PinnedSource) -> str | None:
        """Return why a commit is held back, or nothing."""
        if not self.min_age:
            return None
        wanted = f"--min-age {_age_text(self.min_age)}"
        if pinned.committed_at is None:
            return f"nothing says how old it is ({wanted})" if pinned.kind != "folder" else None
        age = self.now - pinned.committed_at
        if age >= self.min_age:
            return None
        shown = f"it is {_age_text(age)} old" if age > timedelta(0) else "its date is in the future"
        return f"{shown} ({wanted})"

    def _asked(self, old: LockedModule, new: LockedModule) -> PermissionDifference:
        if old.permissions_digest == new.permissions_digest:
            return PermissionDifference()
        return difference(self._request_of(old), self.provider.request(new))

    def _request_of(self, old: LockedModule) -> PermissionRequest | None:
        """Return the request of the old version; a version that is not at hand counts as having asked for nothing."""
        try:
            return self.provider.request(old)
        except SourceError:
            return None


def _moved_tag(old: LockedModule) -> str:
    return f"`{old.requested_ref}` was a tag, and tags are not to move"


def _age_text(age: timedelta) -> str:
    hours = int(age.total_seconds() // 3600)
    if hours >= 24 and (hours % 24 == 0 or hours >= 72):
        return f"{hours // 24}d"
    return f"{hours}h" if hours else f"{age.total_seconds() // 60:.0f}min"
