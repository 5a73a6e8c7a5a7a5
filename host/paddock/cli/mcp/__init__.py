"""The commands about MCP servers: one for a client, a plan's tools for a client, the clients' own files, and pins."""

from __future__ import annotations

from typing import Final

import click

from paddock.cli.command_group import CommandGroup, ForeseenWorkers, LazyCommand, example

# One line each, with the first sentence of its help; `NAME_command.py` beside this file has the function `NAME`.
COMMANDS: Final = {
    "protect": "Have the client that FILE belongs to start its MCP servers through Paddock.",
    "run": "Run an MCP server in a sandbox, for the client whose configuration has this command.",
    "accept": "Accept an MCP server with its flags, for this folder, and fetch and lock it.",
    "serve": "Serve the tools of PLAN to an MCP client, over stdin and stdout.",
    "pin": "Show how the tools of a plan's MCP servers differ from their pins, and pin them.",
}
_STARTS_MODULES: Final = frozenset({"run", "serve", "pin"})


def _workers_of(name: str) -> ForeseenWorkers:
    return lambda args: "modules" if name in _STARTS_MODULES else None


@click.group(
    cls=CommandGroup,
    commands=[
        LazyCommand(name, f"{__name__}.{name}_command:{name}", brief, workers=_workers_of(name))
        for name, brief in COMMANDS.items()
    ],
    epilog=example("paddock mcp run mcp+pypi:mcp-server-time"),
)
def mcp() -> None:
    """Sandbox the MCP servers that a client starts, and serve a plan's tools to a client."""
