"""The two session classes with a loader: modules on disk or installed, mounted in this very process.

`AmplifierSession` is what applications get from the top level of the contract package, `PlainAmplifierSession` what
they get from its `session` module. Each makes itself a loader where it is given none, and that one's additions to the
import path end with the session's cleanup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.kernel import session as kernel

if TYPE_CHECKING:
    from paddock_sdk.kernel.loading import ModuleLoading

__all__ = ["AmplifierSession", "PlainAmplifierSession"]


class AmplifierSession(kernel.AmplifierSession):
    """A session that loads its modules into this process."""

    _own_loader: ModuleLoader | None = None

    async def cleanup(self) -> None:
        """End the session, as every session ends, and take back what its loader added to the import path."""
        try:
            await super().cleanup()
        finally:
            if self._own_loader is not None:
                self._own_loader.cleanup()

    def _make_loader(self) -> ModuleLoading:
        self._own_loader = ModuleLoader(self._coordinator)
        return self._own_loader


class PlainAmplifierSession(AmplifierSession, kernel.PlainAmplifierSession):
    """The session of the contract package's `session` module; it has its loader from the beginning."""

    def _accept_loader(self, loader: ModuleLoading | None) -> None:
        self._coordinator.loader = self._make_loader() if loader is None else loader
