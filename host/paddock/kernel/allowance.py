"""How much one module may leave with the host: things to remember, and bytes of them.

What a module registers or shares is kept for the session and told to every later worker, so it is
bounded for each module; the numbers are far above what any known module leaves.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from paddock_sdk.protocol import RemoteProtocolError

_MAX_THINGS: Final = 4096
_MAX_BYTES: Final = 32 * 1024 * 1024


class Allowance:
    """What one module has left with the host so far."""

    def __init__(self) -> None:
        self._sizes: dict[Hashable, int] = {}
        self._total = 0

    def spend(self, key: Hashable, size: int) -> None:
        """Count something of `size` bytes under `key`, in place of what was counted under it before.

        Raises:
            RemoteProtocolError: that is more than a module may leave.
        """
        self._total += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        if len(self._sizes) > _MAX_THINGS or self._total > _MAX_BYTES:
            raise RemoteProtocolError(
                f"more left with the host than a module may: {len(self._sizes)} things of {self._total} bytes"
            )

    def give_back(self, key: Hashable) -> None:
        """Count what was under `key` no more."""
        self._total -= self._sizes.pop(key, 0)
