"""How a server of MCP is provided: the module's code is that of `tool-mcp`, its source is the server's."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from paddock_sources.constraints import DependencyRules
from paddock_sources.errors import OwnRightsError, SourceError, unavailable
from paddock_sources.kinds.mcp_uri import MCP_MODULE, McpPackageUri, McpUri
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.resolution import Resolution, ServerProgram
from paddock_sources.supplies.supply import Supply

Uri = TypeVar("Uri", bound=McpUri)

_LISTED: Final = 8  # programs that one message names


class McpSupply(Supply[Uri]):
    """Provides servers; a subclass pins and locks one kind of them, and says how it is started."""

    is_base: ClassVar[bool] = True
    has_uv_lock: ClassVar[bool] = False

    @abstractmethod
    def server(self, uri: Uri, locked: LockedModule | None, rules: DependencyRules) -> ServerProgram:
        """Return how the server is started; what the cache lacks is fetched, and must match the lock.

        Of several programs in a package, it is the one that the `rules` name.

        Raises:
            SourceError: it is unavailable, there is none, or it does not match the lock.
        """

    def provide(self, uri: Uri, module_id: str, locked: LockedModule | None, rules: DependencyRules) -> Resolution:
        if locked is None and self.needs_lock(uri):
            raise unavailable(uri.text, "a source that is not locked")
        server = self.server(uri, locked, self.rules(uri, rules))
        if locked is not None and locked.mcp is not None:
            server = replace(server, definitions=locked.mcp.definitions, instructions=locked.mcp.instructions)
        return replace(
            self.workshop.builtin.resolve(MCP_MODULE),
            module_id=module_id,
            source=uri.text,
            commit=locked.commit if locked is not None else "",
            tree=locked.tree if locked is not None else "",
            server=server,
        )

    def module_ids(self, uri: Uri, locked: LockedModule | None) -> tuple[str, ...]:
        return (uri.short_name,)

    def own_rights(self, uri: Uri, locked: LockedModule | None) -> OwnRightsError | None:
        return None


def program_of_machine(name: str, installed_by: str) -> Path:
    """Return a program that this user has.

    Raises:
        SourceError: there is none; `installed_by` is the command that mends it.
    """
    found = shutil.which(name)
    if found is None:
        raise SourceError(
            f"`{name}` is not there, which the server is started by",
            code="NoProgramError",
            hints=[f"install it: `{installed_by}`"],
        )
    return Path(found)


def chosen_program(uri: McpPackageUri, programs: Collection[str], rules: DependencyRules) -> str:
    """Return which of a package's programs is the server: the one that entries name, the only one, or its namesake.

    Raises:
        SourceError: there is none, or no telling which; it names those that are there.
    """
    named = sorted(rules.programs)
    namesake = uri.canonical_name.rpartition("/")[2]
    fitting = [one for one in named or [namesake] if one in programs]
    if len(named) < 2 and fitting:
        return fitting[0]
    if not named and len(programs) == 1:
        return next(iter(programs))
    known = sorted(programs)
    listed = ", ".join(known[:_LISTED]) + (f" and {len(known) - _LISTED} more" if len(known) > _LISTED else "")
    if not known:
        problem, hint = "it has no program that could be started", "take another package, or name a module's source"
    elif len(named) > 1:
        problem = f"entries of one source want several of its programs: {', '.join(named)}"
        hint = f"name one `bin` in all of them; there are: {listed}"
    else:
        problem = f"it has no program `{named[0]}`" if named else "it has several programs"
        hint = f"say which is the server, as in `config: {{bin: {known[0]}}}`; there are: {listed}"
    raise SourceError(
        f"`{uri.text}` is no server that can be started: {problem}",
        code="NoServerError",
        hints=[hint],
    )
