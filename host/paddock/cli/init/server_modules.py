"""The MCP servers of a client's file as tools of a plan: fetched and pinned, with the grants that fit.

Values of `env` are not copied: a plan passes the variables on by their names.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock.cli.init.catalogue import ModuleCatalogue
from paddock.cli.mcp.client_file import ClientFile
from paddock.cli.mcp.client_server import FittedServer, fitted_servers, read_file
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.plan.permissions import Permissions
from paddock.plan.writing import PlannedModule
from paddock.policy.owner import Owner

if TYPE_CHECKING:
    from paddock.cli.sources.source_command import CommandContext

_FORMATS: Final = (".json", ".toml")
_NOT_IN_ID: Final = re.compile(r"[^a-z0-9]+")


def client_of(written: str) -> ClientFile | None:
    """Return the client's file of this name; None for anything else, such as a plan."""
    path = Path(os.path.abspath(written))
    if path.suffix.lower() not in _FORMATS:
        return None
    try:
        client = ClientFile.read(read_file(path), path)
    except KindError:  # the reader of plans says what is wrong
        return None
    return None if "session" in client.content else client


def server_modules(client: ClientFile, catalogue: ModuleCatalogue, screen: Screen) -> tuple[PlannedModule, ...]:
    """Return the servers of a client's file as tools; those that are left out are told.

    Raises:
        PaddockError: one could not be fetched.
        Interrupted: a person or a signal ended it.
    """
    from paddock.cli.sources.source_command import with_provider  # few plans begin so

    home = Owner.current(os.environ).home.resolve()

    async def fit(context: CommandContext) -> list[FittedServer]:
        return await fitted_servers(context, client.servers, home)

    def planned() -> Iterator[PlannedModule]:
        for one in asyncio.run(with_provider(fit, screen)):
            if one.flags is None:
                screen.note(f"{one.server.name} is left out: it {one.problem or 'is started by Paddock already'}")
            else:
                yield _planned(one, catalogue.module("tool", one.flags.source))

    return tuple(planned())


def _planned(fitted: FittedServer, found: PlannedModule) -> PlannedModule:
    server, flags = fitted.server, fitted.flags
    assert flags is not None
    values = (f"the value of {name} in that file: set the variable yourself" for name in server.env)
    return replace(
        found,
        module=f"tool-mcp-{_NOT_IN_ID.sub('-', server.name.lower()).strip('-')}",
        source=flags.source,
        config=flags.settings,
        permissions=Permissions.model_validate(dict(flags.permissions)),
        purpose=f"the MCP server {server.name}",
        lacks=(*fitted.lacks, *values),
    )
