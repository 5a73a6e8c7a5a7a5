"""How a module in a package is provided: one of the index at its locked version, or the one that is installed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.dependencies import Choice, distributions
from paddock_sources.errors import OwnRightsError, SourceUriError, pin_mismatch, unavailable
from paddock_sources.kinds.package_uri import package_key
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.manifest.permission_request import permissions_digest
from paddock_sources.resolution import PinnedSource, Resolution
from paddock_sources.supplies.supply import Supply
from paddock_sources.uri import PackageUri, SourceUri

if TYPE_CHECKING:
    from paddock_sources.environment.locked import LockedDistribution
    from paddock_sources.package import PackageSource


class PackageSupply(Supply[PackageUri]):
    """See `Supply`."""

    has_uv_lock: ClassVar[bool] = False

    def pin(self, uri: PackageUri, *, allow_impostor: bool = False) -> PinnedSource:
        return PinnedSource(uri.version, "version" if uri.version else "installed", uri.version)

    def needs_lock(self, uri: PackageUri) -> bool:
        return bool(uri.version)

    def lock(self, uri: PackageUri, pinned: PinnedSource | None, choice: Choice) -> LockedModule:
        if not uri.version:
            raise SourceUriError(uri.text, "there is nothing to lock: it is what is installed here")
        # A package of the index is one of its own dependencies.
        chosen = self._source(uri, choice.rules).lock()
        self.workshop.dependencies.check(chosen)
        return locked_package(uri, package_key(uri.name), chosen)

    def provide(
        self, uri: PackageUri, module_id: str, locked: LockedModule | None, rules: DependencyRules
    ) -> Resolution:
        package = self._source(uri, self.rules(uri, rules))
        if not uri.version:
            return package.resolve(module_id)
        if locked is None:
            raise unavailable(uri.text, "a source that is not locked")
        check_version(uri, package_key(uri.name), locked)
        return package.provide(module_id, distributions(locked))

    def module_ids(self, uri: PackageUri, locked: LockedModule | None) -> tuple[str, ...]:
        return self._source(uri, NO_RULES).module_ids(distributions(locked) if locked is not None else ())

    def own_rights(self, uri: PackageUri, locked: LockedModule | None) -> OwnRightsError | None:
        return None

    def _source(self, uri: PackageUri, rules: DependencyRules) -> PackageSource:
        package = self.workshop.package(uri.name, uri.version, rules, is_installed=not uri.version)
        return replace(package, installed=self.workshop.installed, preloaded=self.workshop.preloaded())


def locked_package(uri: SourceUri, name: str, chosen: Sequence[LockedDistribution]) -> LockedModule:
    """Return the lock of the package `name` of the index, which is one of those `chosen` for it."""
    version, _ = uri.requested
    return LockedModule(
        source=uri.text,
        requested_ref=version,
        commit=next((one.version for one in chosen if one.name == name), version),
        permissions_digest=permissions_digest(None),
        hashes=next((one.hashes for one in chosen if one.name == name), ()),
        dependencies=tuple(LockedDependency(one.name, one.version, one.hashes) for one in chosen),
    )


def check_version(uri: SourceUri, name: str, locked: LockedModule) -> None:
    """Refuse a lock whose packages are not of the source's version.

    Raises:
        SourceError: the package `name` has another, or is not among them.
    """
    version, _ = uri.requested
    found = next((one for one in distributions(locked) if one.name == name), None)
    if found is None or found.version != locked.commit or (version and not found.is_version(version)):
        raise pin_mismatch(uri.text, version or locked.commit, found.version if found is not None else "none")
