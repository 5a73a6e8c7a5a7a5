"""How a server of MCP in a package of npm is got: archives by their hashes, unpacked by the host, and no script run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from paddock_sources.constraints import DependencyRules
from paddock_sources.dependencies import Choice
from paddock_sources.errors import SourceError, pin_mismatch
from paddock_sources.kinds.mcp_uri import McpNpmUri
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.manifest.permission_request import permissions_digest
from paddock_sources.resolution import PinnedSource, ServerProgram
from paddock_sources.supplies.mcp import McpSupply, chosen_program, program_of_machine
from paddock_sources.supplies.supply import expected

if TYPE_CHECKING:
    from paddock_sources.npm.packages import NpmPackages

_INSTALLED_BY: Final = "sudo apt install nodejs npm"
_LISTED: Final = 8  # packages that one message names


class McpNpmSupply(McpSupply[McpNpmUri]):
    """See `Supply`."""

    def pin(self, uri: McpNpmUri, *, allow_impostor: bool = False) -> PinnedSource:
        version = uri.version or _package(uri, self._packages(uri).choose("latest")).version
        return PinnedSource(uri.version, "version", version)

    def lock(self, uri: McpNpmUri, pinned: PinnedSource | None, choice: Choice) -> LockedModule:
        packages, tree = self._packages(uri).lock(pinned.commit if pinned is not None else uri.version or "latest")
        return LockedModule(
            source=uri.text,
            requested_ref=uri.version,
            commit=_package(uri, packages).version,
            tree=tree.digest,
            permissions_digest=permissions_digest(None),
            dependencies=packages,
            mcp=choice.previous.mcp if choice.previous is not None else None,
        )

    def server(
        self,
        uri: McpNpmUri,
        locked: LockedModule | None,
        rules: DependencyRules,
    ) -> ServerProgram:
        from paddock_sources.npm.package_files import programs, scripts

        assert locked is not None, "this kind needs a lock"
        package = _package(uri, locked.dependencies)
        if package.version != locked.commit or uri.version not in ("", package.version):
            raise pin_mismatch(uri.text, uri.version or locked.commit, package.version)
        root = self.workshop.cached(locked.tree)
        if root is None:
            root = expected(self._packages(uri).fetch(locked.dependencies), uri.text, locked.tree)
        if not rules.without_scripts and (with_scripts := list(scripts(root, locked.dependencies))):
            raise _with_scripts(uri, with_scripts)
        named = programs(root, package)
        path = named[chosen_program(uri, named, rules)]
        node = program_of_machine("node", _INSTALLED_BY)
        return ServerProgram(
            (str(node), str(path)),
            (node,),
            (root,),
        )

    def _packages(self, uri: McpNpmUri) -> NpmPackages:
        from paddock_sources.npm.packages import NpmPackages

        return NpmPackages(
            name=uri.name,
            cache=self.workshop.cache,
            runner=self.workshop.fetcher,
            node=program_of_machine("node", _INSTALLED_BY).resolve(),
            npm=program_of_machine("npm", _INSTALLED_BY).resolve(),
            registry=self.workshop.dependencies.registry,
            progress=self.workshop.progress,
        )


def _package(uri: McpNpmUri, packages: Iterable[LockedDependency]) -> LockedDependency:
    """Return the server's own package of those that are locked for it.

    Raises:
        SourceError: it is not among them.
    """
    found = next((one for one in packages if one.path == f"node_modules/{uri.name}"), None)
    if found is None or found.name != uri.name:
        raise pin_mismatch(uri.text, uri.version, "none")
    return found


def _with_scripts(uri: McpNpmUri, packages: Sequence[str]) -> SourceError:
    """Return the error for packages of which npm would run something when it installs them."""
    more = f" and {len(packages) - _LISTED} more" if len(packages) > _LISTED else ""
    return SourceError(
        f"`{uri.text}` has packages that run scripts when they are installed: {', '.join(packages[:_LISTED])}{more}",
        code="InstallScriptsError",
        hints=[
            "none is ever run; to take it without them, write `config: {without_scripts: true}` in its entry,",
            f'as in `- {{module: {uri.short_name}, source: "{uri.text}", config: {{without_scripts: true}}}}`',
        ],
    )
