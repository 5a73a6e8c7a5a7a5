"""Where the modules of one session are sheltered: those of the first session as was decided, of others each anew.

Two workers of one entry share no gate and no traffic, and what they may do is the same. They share no folder but the
home of an entry with `state: keep`: that is one for the entry's module, source, project and instance, whoever works
there, so they find there what others write at the same time, and all of it together is held against each one's
`tmp_max`. Closing ends every connection, and removes what was made; such a home stays.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from paddock.audit import AuditLog
from paddock.isolation.network import Networks
from paddock.isolation.planner import SandboxedModule, SandboxPlanner
from paddock.plan.model import ModuleEntry
from paddock.workers.scratch import remove_private_folder


class SessionSandboxes(Protocol):
    """The shelters of one session."""

    networks: Networks

    def of(self, entry: ModuleEntry) -> SandboxedModule:
        """Return what an entry's module runs in."""
        ...

    async def aclose(self) -> None:
        """Give up what was made for this session alone."""
        ...


class PlannedSandboxes:
    """The shelters as they were decided on; they go with the resources."""

    def __init__(self, sandbox_planner: SandboxPlanner, networks: Networks) -> None:
        self.networks = networks
        self._sandbox_planner = sandbox_planner

    def of(self, entry: ModuleEntry) -> SandboxedModule:
        return self._sandbox_planner.of(entry)

    async def aclose(self) -> None:
        """Leave them to the resources."""


class AdditionalSandboxes:
    """Shelters for further workers of the same entries."""

    def __init__(self, sandbox_planner: SandboxPlanner, folder: Path, audit: AuditLog) -> None:
        self._sandbox_planner = sandbox_planner
        self._folder = Path(tempfile.mkdtemp(prefix="session-", dir=folder))
        self.networks = Networks(self._folder, audit)

    def of(self, entry: ModuleEntry) -> SandboxedModule:
        return self._sandbox_planner.another(entry, self.networks, self._folder)

    async def aclose(self) -> None:
        try:
            await self.networks.aclose()
        finally:
            with anyio.CancelScope(shield=True):  # in a thread: modules may have left any number of files
                await anyio.to_thread.run_sync(remove_private_folder, self._folder)
