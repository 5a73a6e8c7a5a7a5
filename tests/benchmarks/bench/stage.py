"""A session's means with fixture modules on them: real workers, mounted and called as a session would."""

from __future__ import annotations

import asyncio
import compileall
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from paddock.authorization.authorizer import Clerk
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.policy.files.policy import Policy
from paddock.session.machinery import SessionResources
from paddock.session.module import HostedModule
from paddock.session.runtime import Hosting
from paddock.session.state.coordinator import HostedCoordinator
from paddock_sources import FileSource

MODULES = Path(__file__).resolve().parent.parent / "modules"


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
        compileall.compile_dir(MODULES, quiet=1)  # workers write no bytecode; an installed module comes with its own
        async with (
            SessionResources(working_dir=Path.cwd(), environ=os.environ) as session_resources,
            Hosting(session_resources) as hosting,
        ):
            session = SimpleNamespace(session_id="bench", parent_id=None, config={})
            coordinator = HostedCoordinator(session, hosting.values, hosting.mirrors)
            hosting.bind(coordinator)
            yield cls(hosting, coordinator)

    async def cast(
        self, kind: Kind, module: str, config: dict[str, Any] | None = None, **options: Any
    ) -> Callable[[], Awaitable[HostedModule]]:
        """Return what starts a fixture module and has it mounted.

        By then its plan entry is read, its code found, and decided what it is shut into.
        """
        self._entries += 1
        place = EntryPlace(kind, f"{kind}s[{self._entries}]", MODULES)
        written = {"module": module, "source": f"./{module}", "config": config or {}, **options}
        entry = ModuleEntry.read(written, place)
        resolution = FileSource(MODULES / module).resolve(module)
        session_resources = self._hosting.session_resources
        clerk = await Clerk.at_work(session_resources.working_dir, os.environ, Policy())
        clearance = await clerk.clear_call(entry, resolution, None)
        await session_resources.shelter(replace(clearance, accepts_weaker=True))
        return partial(self._hosting.start, clearance.modules[0])

    async def start(
        self, kind: Kind, module: str, config: dict[str, Any] | None = None, **options: Any
    ) -> HostedModule:
        """Start a fixture module and have it mounted."""
        return await (await self.cast(kind, module, config, **options))()

    async def stop(self, modules: Iterable[HostedModule], tools: Iterable[str]) -> None:
        """End modules and forget their tools, or every later module would be told of all that came before it."""
        await asyncio.gather(*(module.stop() for module in modules))
        for name in tools:
            self.coordinator.unmount("tools", name)

    def tool(self, name: str) -> Any:
        """Return the host's stand-in for a mounted tool."""
        return self.coordinator.get("tools", name)
