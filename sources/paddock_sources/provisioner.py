"""Provide code that is ready to be run, from a source: pinned, fetched, checked against its lock, with dependencies.

Pinning and locking may ask a server. Providing locked code asks no server as long as the cache has the code. Nothing of
the code is executed for any of it. Threads may share it. How each is done for a kind of source is in `supplies`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from paddock_sources.cache import Bucket
from paddock_sources.commands.command_runner import CommandRunner, RefusingRunner
from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.dependencies import Choice
from paddock_sources.errors import NotFetchedError
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.manifest.permission_request import PermissionRequest
from paddock_sources.resolution import PinKind, PinnedSource, Resolution
from paddock_sources.supplies.builtin import BuiltinSupply
from paddock_sources.supplies.folder import FolderSupply
from paddock_sources.supplies.git import GitSupply
from paddock_sources.supplies.mcp_command import McpCommandSupply
from paddock_sources.supplies.mcp_npm import McpNpmSupply
from paddock_sources.supplies.mcp_pypi import McpPypiSupply
from paddock_sources.supplies.package import PackageSupply
from paddock_sources.supplies.supply import StaleLock, Supply, Workshop
from paddock_sources.uri import KINDS, SourceUri

__all__ = ["NO_RUNNER", "PinKind", "PinnedSource", "Provisioner", "StaleLock"]

SUPPLIES: dict[str, type[Supply[Any]]] = {
    "builtin": BuiltinSupply,
    "folder": FolderSupply,
    "git": GitSupply,
    "package": PackageSupply,
    "mcp+pypi": McpPypiSupply,
    "mcp+command": McpCommandSupply,
    "mcp+npm": McpNpmSupply,
}
"""How the code of each kind of source is got, by the kind's name."""


@dataclass(eq=False, repr=False)
class Provisioner(Workshop):
    """Provides code from a cache, and fetches into it, with the means that it is given."""

    def __post_init__(self) -> None:
        if lone := {kind.kind for kind in KINDS} ^ SUPPLIES.keys():
            raise TypeError(f"a kind of source is in `uri.KINDS` and in `SUPPLIES`; {sorted(lone)} is in one of them")
        self._supplies = {kind: supply(self) for kind, supply in SUPPLIES.items()}

    def supply(self, uri: SourceUri) -> Supply[Any]:
        """Return how a source is pinned, locked and provided."""
        return self._supplies[uri.kind]

    # -- locking ---------------------------------------------------------------------------

    def lock(
        self,
        uri: SourceUri,
        pinned: PinnedSource | None = None,
        *,
        previous: LockedModule | None = None,
        allow_impostor: bool = False,
        extras: Collection[str] = (),
        more: Collection[str] = (),
        rules: DependencyRules = NO_RULES,
    ) -> LockedModule:
        """Fetch a source and return its entry for a lock file; its key is the source's text.

        Dependencies in `previous` are kept where they still satisfy the code. Developers may want these `extras` of it,
        and `more` requirements that it does not name. All dependencies are within the `rules`, and the user's own.

        Raises:
            SourceError: it is unavailable, or cannot be reproduced later.
        """
        choice = Choice(self.supply(uri).rules(uri, rules), previous, extras, more, allow_impostor)
        return self.supply(uri).lock(uri, pinned, choice)

    def contradiction(self, uri: SourceUri, locked: LockedModule, rules: DependencyRules) -> str | None:
        """Return how locked dependencies contradict the rules for them, in words, if they do.

        Code that is needed for an answer is fetched.

        Raises:
            SourceError: that cannot be found out, or the rules cannot be followed.
        """
        rules = self.supply(uri).rules(uri, rules)
        # Constraints are on packages of Python.
        broken = rules.broken_by((one.name, one.version) for one in locked.dependencies if not one.path)
        if broken:
            return "; ".join(one.shown for one in broken)
        return self.supply(uri).differs(uri, locked) if rules.by_uv_lock else None

    def relock(self, uri: SourceUri, locked: LockedModule, rules: DependencyRules) -> LockedModule:
        """Return the same code with its dependencies chosen again within the rules.

        Raises:
            SourceError: no versions fit, or their files are unavailable.
        """
        return self.supply(uri).relock(uri, locked, self.supply(uri).rules(uri, rules))

    # -- providing -------------------------------------------------------------------------

    def provide(
        self, uri: SourceUri, module_id: str, locked: LockedModule | None, rules: DependencyRules = NO_RULES
    ) -> Resolution:
        """Return a module, ready to be run; what the cache lacks is fetched, and must match the lock.

        The `rules` matter only for modules installed beside Paddock: their versions are fixed and may contradict them.

        Raises:
            SourceError: it is unavailable, or does not match the lock.
        """
        return self.supply(uri).provide(uri, module_id, locked, rules)

    def damage(self, locked: LockedModule) -> tuple[str, ...]:
        """Return the locked parts that are damaged in the cache, in words; reads all of them."""
        is_damaged = locked.tree and self.cache.problem_of(Bucket.TREES, locked.tree)
        return (*(("its code",) if is_damaged else ()), *self.dependencies.damage(locked))

    def request(self, locked: LockedModule) -> PermissionRequest | None:
        """Return the permissions that the locked manifest asks for; None for none, or where the cache has no manifest.

        Raises:
            ManifestError: a part of it is not understood.
        """
        tree = self.cached(locked.tree) if locked.tree else None
        return PermissionRequest.read(tree / locked.subdirectory) if tree is not None else None

    def find_installed(self, module_id: str) -> str | None:
        """Return the name of the installed distribution that has a module of this id, if any has."""
        found = self.installed.find(module_id)
        return found.name if found is not None else None

    def lend(self, uris: Iterable[SourceUri]) -> None:
        """Have these sources be fetched with the user's own rights: the user said so."""
        self.repositories.lend(uris)


NO_RUNNER: Final[CommandRunner] = RefusingRunner(NotFetchedError)
"""Runs nothing, for callers that only look."""
