"""How an MCP server of this machine is got: it is there, and runs as it is."""

from __future__ import annotations

import os
from typing import Final

from paddock_sources.constraints import DependencyRules
from paddock_sources.dependencies import Choice
from paddock_sources.errors import SourceError, SourceUriError
from paddock_sources.kinds.mcp_command_uri import McpCommandUri
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.resolution import PinnedSource, ServerProgram
from paddock_sources.supplies.mcp import McpSupply, program_of_machine

_OF_NODE: Final = (".js", ".mjs", ".cjs")


class McpCommandSupply(McpSupply[McpCommandUri]):
    """See `Supply`."""

    def pin(self, uri: McpCommandUri, *, allow_impostor: bool = False) -> PinnedSource:
        return PinnedSource("", "folder", "")

    def needs_lock(self, uri: McpCommandUri) -> bool:
        return False

    def lock(self, uri: McpCommandUri, pinned: PinnedSource | None, choice: Choice) -> LockedModule:
        if choice.previous is None:
            raise SourceUriError(uri.text, f"there is nothing to lock: {uri.no_lock}")
        return choice.previous

    def server(self, uri: McpCommandUri, locked: LockedModule | None, rules: DependencyRules) -> ServerProgram:
        path = uri.path
        if not path.is_file():
            raise _no_program(uri, "there is no such file", "name a program, or a script that ends in `.py` or `.js`")
        if path.suffix == ".py":
            runner = self.workshop.dependencies.python.path
        elif path.suffix in _OF_NODE:
            runner = program_of_machine("node", "apt install nodejs")
        elif os.access(path, os.X_OK):
            runner = None
        else:
            raise _no_program(uri, "it may not be executed", f"chmod +x {path}")
        command = [str(path)] if runner is None else [str(runner), str(path)]
        return ServerProgram(
            tuple(command),
            programs=(runner or path,),
            trees=(path.resolve(),),
            beside=(path.parent,),
        )


def _no_program(uri: McpCommandUri, problem: str, hint: str) -> SourceError:
    return SourceError(
        f"`{uri.path}` is no server that can be started: {problem}",
        code="NoServerError",
        hints=[hint],
    )
