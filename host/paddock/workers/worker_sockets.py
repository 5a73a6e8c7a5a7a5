"""The sockets at which everything arrives that a worker with a network of its own sends.

They belong to the worker's network namespace, which lasts as long as they do, and were made before any code of the
module ran. Whoever has them answers, and closes them. Knows nothing of what is said on them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerSockets:
    """Where names are looked up, by UDP, and a listener for each of the profile's ports, in their order.

    None of them blocks. A connection's own name, as `getsockname` has it, is the address that the module meant.
    """

    dns: socket.socket
    listeners: tuple[socket.socket, ...]

    @classmethod
    def of(cls, fds: Sequence[int]) -> WorkerSockets:
        """Return the sockets behind these descriptors, which own them from now on, the one for names first."""
        sockets = [socket.socket(fileno=fd) for fd in fds]
        for each in sockets:
            each.setblocking(False)
        return cls(sockets[0], tuple(sockets[1:]))

    def close(self) -> None:
        """Close all of them; the network ends with its worker then."""
        for each in (self.dns, *self.listeners):
            each.close()
