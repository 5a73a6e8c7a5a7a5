"""A session's means with fixture modules on them: real workers, mounted and called as a session would."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from paddock.kernel.coordinator import HostedCoordinator
from paddock.kernel.hosting import Hosting
from paddock.kernel.module import HostedModule
from paddock.plan.models import EntryPlace, Kind, ModuleEntry

_MODULES = Path(__file__).resolve().parent.parent / "modules"


class Stage:
    """Modules come on as they are asked for, and stay."""

    def __init__(self, hosting: Hosting, coordinator: HostedCoordinator) -> None:
        self._hosting = hosting
        self.coordinator = coordinator
        self._entries = 0

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Stage]:
        """Yield a stage; its processes end with it."""
        async with Hosting(working_dir=Path.cwd(), environ=os.environ, base=_MODULES) as hosting:
            session = SimpleNamespace(session_id="bench", parent_id=None, config={})
            coordinator = HostedCoordinator(session, hosting.values, hosting.mirrors)
            hosting.bind(coordinator)
            yield cls(hosting, coordinator)

    def entry(
        self, kind: Kind, module: str, config: dict[str, Any] | None = None, **options: Any
    ) -> ModuleEntry:
        """Return the plan entry of a fixture module."""
        self._entries += 1
        place = EntryPlace(kind, f"{kind}s[{self._entries}]", _MODULES)
        return ModuleEntry.read({"module": module, "source": f"./{module}", "config": config or {}, **options}, place)

    async def start(
        self, kind: Kind, module: str, config: dict[str, Any] | None = None, **options: Any
    ) -> HostedModule:
        """Start a fixture module and have it mounted."""
        entry = self.entry(kind, module, config, **options)
        return await self._hosting.start(entry, self._hosting.resolve(entry))

    def tool(self, name: str) -> Any:
        """Return the host's stand-in for a mounted tool."""
        return self.coordinator.get("tools", name)
