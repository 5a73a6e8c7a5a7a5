"""How a server of MCP in a Python package is got: from wheels alone, its dependencies with it, all by their hashes.

The server is a process of its own and shares nothing with a worker's runtime, so all packages are in one folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.dependencies import distributions
from paddock_sources.errors import pin_mismatch
from paddock_sources.kinds.mcp_uri import McpPypiUri
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.manifest.permission_request import permissions_digest
from paddock_sources.resolution import PinnedSource, ServerProgram
from paddock_sources.supplies.mcp import McpSupply, chosen_program
from paddock_sources.supplies.supply import Choice

if TYPE_CHECKING:
    from paddock_sources.environment.locked import LockedDistribution

# Without the packages that this machine's interpreter would find as well. `exit`, which some servers call, is made with
# those otherwise.
_LAUNCH: Final = (
    "import sys, site; site.setquit(); sys.path.insert(0, {site!r}); sys.argv[0] = {name!r}; "
    "from {module} import {function}; sys.exit({function}())"
)


class McpPypiSupply(McpSupply[McpPypiUri]):
    """See `Supply`."""

    def pin(self, uri: McpPypiUri, *, allow_impostor: bool = False) -> PinnedSource:
        version = uri.version or _package(uri, self._chosen(uri, "", self.rules(uri, NO_RULES))).version
        return PinnedSource(uri.version, "version", version)

    def needs_lock(self, uri: McpPypiUri) -> bool:
        return True

    def lock(
        self, uri: McpPypiUri, pinned: PinnedSource | None, choice: Choice, *, allow_impostor: bool
    ) -> LockedModule:
        locked = self._locked(uri, pinned.commit if pinned is not None else uri.version, choice.rules)
        return replace(locked, mcp=choice.previous.mcp if choice.previous is not None else None)

    def relock(self, uri: McpPypiUri, locked: LockedModule, rules: DependencyRules) -> LockedModule:
        return replace(self._locked(uri, locked.commit, rules), source=locked.source, mcp=locked.mcp)

    def server(self, uri: McpPypiUri, locked: LockedModule | None, rules: DependencyRules) -> ServerProgram:
        from paddock_sources.environment.builder import install
        from paddock_sources.environment.installed import InstalledDistributions

        assert locked is not None, "this kind needs a lock"
        packages = distributions(locked)
        found = _package(uri, packages)
        if found.version != locked.commit or (uri.version and not found.is_version(uri.version)):
            raise pin_mismatch(uri.text, uri.version or locked.commit, found.version)
        python = self.workshop.dependencies.python
        site = install(
            packages,
            cache=self.workshop.cache,
            runner=self.workshop.runner,
            index=self.workshop.dependencies.index,
            python=python,
            progress=self.workshop.progress,
            subject=uri.canonical_name,
        )
        installed = InstalledDistributions([site]).by_name.get(uri.canonical_name)
        scripts = {} if installed is None else installed.scripts
        name = chosen_program(uri, scripts, rules)
        module, function = scripts[name]
        launch = _LAUNCH.format(site=str(site), name=name, module=module, function=function)
        return ServerProgram((str(python.path), "-I", "-S", "-c", launch), (python.path,), (site,))

    def _chosen(self, uri: McpPypiUri, version: str, rules: DependencyRules) -> tuple[LockedDistribution, ...]:
        """Return the package at a version, or the newest, and all its dependencies, as the index has them now."""
        from paddock_sources.environment.builder import resolve
        from paddock_sources.environment.requirements import Requirements

        name = uri.canonical_name
        return resolve(
            Requirements(name, version, (f"{name}=={version}" if version else name,)),
            cache=self.workshop.cache,
            runner=self.workshop.runner,
            index=self.workshop.dependencies.index,
            python=self.workshop.dependencies.python,
            bounds=rules.constraints,
            progress=self.workshop.progress,
        )

    def _locked(self, uri: McpPypiUri, version: str, rules: DependencyRules) -> LockedModule:
        chosen = self._chosen(uri, version, rules)
        package = _package(uri, chosen)
        return LockedModule(
            source=uri.text,
            requested_ref=uri.version,
            commit=package.version,
            permissions_digest=permissions_digest(None),
            hashes=package.hashes,
            dependencies=tuple(LockedDependency(one.name, one.version, one.hashes) for one in chosen),
        )


def _package(uri: McpPypiUri, packages: Iterable[LockedDistribution]) -> LockedDistribution:
    """Return the server's own package of those that are locked for it.

    Raises:
        SourceError: it is not among them.
    """
    found = next((one for one in packages if one.name == uri.canonical_name), None)
    if found is None:
        raise pin_mismatch(uri.text, uri.version, "none")
    return found
