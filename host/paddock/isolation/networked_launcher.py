"""Start a module's processes with the host answering what they connect to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.process import ModuleProcess

if TYPE_CHECKING:
    from paddock.egress.gate import EgressGate


class NetworkedLauncher:
    """A launcher for one module whose connections all go through `gate`, over all its lives."""

    def __init__(self, launcher: Launcher, gate: EgressGate) -> None:
        self._launcher = launcher
        self._gate = gate

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process whose network leads to the gate; see `Launcher.launch`."""
        await self._gate.detach()  # what is left of the life before: its connections ended with it
        process = await self._launcher.launch(spec)
        sockets = process.take_network()
        if sockets is not None:
            self._gate.attach(sockets.listeners, sockets.dns)
        return process

    async def aclose(self) -> None:
        """Leave everything to who made the launcher and the gate; both outlive this."""
