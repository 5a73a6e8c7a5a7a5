"""How a server of MCP in a Python package is got: from wheels alone, its dependencies with it, all by their hashes.

The server is a process of its own and shares nothing with a worker's runtime, so all packages are in one folder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.dependencies import Choice, distributions
from paddock_sources.kinds.mcp_uri import McpPypiUri
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.resolution import PinnedSource, ServerProgram
from paddock_sources.supplies.mcp import McpSupply, chosen_program
from paddock_sources.supplies.package import check_version, locked_package

if TYPE_CHECKING:
    pass

# Without the packages that this machine's interpreter would find as well. `exit`, which some servers call, is made with
# those otherwise.
_LAUNCH: Final = (
    "import sys, site; site.setquit(); sys.path.insert(0, {site!r}); sys.argv[0] = {name!r}; "
    "from {module} import {function}; sys.exit({function}())"
)


class McpPypiSupply(McpSupply[McpPypiUri]):
    """See `Supply`."""

    def pin(self, uri: McpPypiUri, *, allow_impostor: bool = False) -> PinnedSource:
        version = uri.version or self._locked(uri, "", self.rules(uri, NO_RULES)).commit
        return PinnedSource(uri.version, "version", version)

    def lock(self, uri: McpPypiUri, pinned: PinnedSource | None, choice: Choice) -> LockedModule:
        version = pinned.commit if pinned is not None else uri.version
        locked = self._locked(uri, version, choice.rules)
        return replace(locked, mcp=choice.previous.mcp if choice.previous is not None else None)

    def server(self, uri: McpPypiUri, locked: LockedModule | None, rules: DependencyRules) -> ServerProgram:
        assert locked is not None, "this kind needs a lock"
        check_version(uri, uri.canonical_name, locked)
        package = self.workshop.package(uri.canonical_name, locked.commit, rules)
        site = package.site(distributions(locked))
        scripts = package.of_index(site).scripts
        name = chosen_program(uri, scripts, rules)
        module, function = scripts[name]
        launch = _LAUNCH.format(site=str(site), name=name, module=module, function=function)
        python = self.workshop.dependencies.python.path
        return ServerProgram(
            (str(python), "-I", "-S", "-c", launch),
            programs=(python,),
            trees=(site,),
        )

    def _locked(self, uri: McpPypiUri, version: str, rules: DependencyRules) -> LockedModule:
        """Return the lock of the package at a version, else of the newest, as the index has it now."""
        chosen = self.workshop.package(uri.canonical_name, version, rules).lock()
        return locked_package(uri, uri.canonical_name, chosen)
