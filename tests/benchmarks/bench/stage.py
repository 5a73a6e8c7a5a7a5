"""A session's means with fixture modules on them: real workers, mounted and called as a session would."""

from __future__ import annotations

import compileall
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
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
        compileall.compile_dir(_MODULES, quiet=1)  # workers write no bytecode; an installed module comes with its own
        async with Hosting(working_dir=Path.cwd(), environ=os.environ, base=_MODULES) as hosting:
            session = SimpleNamespace(session_id="bench", parent_id=None, config={})
            coordinator = HostedCoordinator(session, hosting.values, hosting.mirrors)
            hosting.bind(coordinator)
            yield cls(hosting, coordinator)

    def cast(
        self, kind: Kind, module: str, config: dict[str, Any] | None = None, **options: Any
    ) -> Callable[[], Awaitable[HostedModule]]:
        """Return what starts a fixture module and has it mounted; its plan entry is read and its code found by then."""
        self._entries += 1
        place = EntryPlace(kind, f"{kind}s[{self._entries}]", _MODULES)
        written = {"module": module, "source": f"./{module}", "config": config or {}, **options}
        entry = ModuleEntry.read(written, place)
        return partial(self._hosting.start, entry, self._hosting.resolve(entry))

    async def start(
        self, kind: Kind, module: str, config: dict[str, Any] | None = None, **options: Any
    ) -> HostedModule:
        """Start a fixture module and have it mounted."""
        return await self.cast(kind, module, config, **options)()

    def tool(self, name: str) -> Any:
        """Return the host's stand-in for a mounted tool."""
        return self.coordinator.get("tools", name)
