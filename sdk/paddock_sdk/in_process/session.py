"""The two session classes with a loader: modules on disk or installed, mounted in this process.

`AmplifierSession` is the class that applications get from the top level of the contract package,
`PlainAmplifierSession` the one from its `session` module. Each makes itself a loader if it gets none. The session's
cleanup removes that loader's additions to the import path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.kernel import session as kernel
from paddock_sdk.kernel.startup import initialization

if TYPE_CHECKING:
    from paddock_sdk.kernel.coordinator import ModuleCoordinator
    from paddock_sdk.kernel.loading import ModuleLoading


class AmplifierSession(kernel.AmplifierSession):
    """A session that loads its modules into this process."""

    _own_loader: ModuleLoader | None = None

    async def cleanup(self) -> None:
        """End the session like every session, and remove its loader's additions from the import path."""
        try:
            await super().cleanup()
        finally:
            self._clean_up_loader()

    def _clean_up_loader(self) -> None:
        if self._own_loader is not None:
            self._own_loader.cleanup()

    def _make_loader(self) -> ModuleLoading:
        self._own_loader = ModuleLoader(self._coordinator)
        return self._own_loader


class PlainAmplifierSession(AmplifierSession, kernel.PlainAmplifierSession):
    """The session of the contract package's `session` module; it has its loader from the beginning."""

    def _clean_up_loader(self) -> None:
        clean_up = getattr(self.loader, "cleanup", None)  # a loader that the caller passed may have none
        if clean_up is not None:
            clean_up()

    def _accept_loader(self, loader: ModuleLoading | None) -> None:
        super()._accept_loader(self._make_loader() if loader is None else loader)


async def initialize_session(
    config: dict[str, Any], coordinator: ModuleCoordinator, session_id: str, parent_id: str | None
) -> None:
    """Load and mount everything a mount plan lists, with a new loader where the coordinator has none.

    Raises:
        RuntimeError: the orchestrator or the context manager could not be loaded.
        ValueError: several provider entries of one module lack an `instance_id`.
        TypeError: a section of the plan is not a list, or an entry not a mapping.
    """
    if coordinator.loader is None:
        coordinator.loader = ModuleLoader(coordinator)
    await initialization.initialize_session(config, coordinator, session_id, parent_id)
