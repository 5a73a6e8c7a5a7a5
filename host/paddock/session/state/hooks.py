"""The session's hooks: the kernel's own registry, with a bound on the memory of answers while they are gathered.

A module's default fields replace the session's own and go over the application's, until its worker is gone.
"""

from __future__ import annotations

from typing import Any, Final

from paddock.rpc.fan_in import ResponseBudget
from paddock.rpc.peer import Peer
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.hooks import HandlerRegistration, HookObserver, HookRegistry
from paddock_sdk.kernel.payload import Payload

_OF_THE_SESSION: Final = frozenset({"session_id", "parent_id"})


class HostedHooks(HookRegistry):
    """A `HookRegistry` whose handlers run in workers."""

    def __init__(self, observer: HookObserver) -> None:
        super().__init__()
        self.observer = observer
        self._given: dict[str, Any] = {}  # the default fields of the session and the application
        self._laid_over: tuple[Peer, dict[str, Any]] | None = None

    def set_default_fields(self, **fields: Any) -> None:
        """Set the fields of the session and the application; those of a module stay.

        Raises:
            RuntimeError: a value has no JSON form.
        """
        self._given = Payload.of(fields).data()
        self._merge_defaults()

    def set_fields_of_module(self, owner: Peer, fields: dict[str, Any]) -> None:
        """Set fields, which are JSON types, for as long as a module's worker lives."""
        self._laid_over = (owner, fields)
        self._merge_defaults()

    def forget(self, owner: Peer) -> None:
        """Drop the fields of a module whose worker is gone."""
        if self._laid_over is not None and self._laid_over[0] is owner:
            self._laid_over = None
            self._merge_defaults()

    def _merge_defaults(self) -> None:
        if self._laid_over is None:
            self._defaults = self._given
        else:
            kept = {name: value for name, value in self._given.items() if name not in _OF_THE_SESSION}
            self._defaults = {**kept, **self._laid_over[1]}

    async def emit_payload(self, event: str, payload: Payload) -> HookResult:
        if not self.has_handlers(event):
            return await super().emit_payload(event, payload)
        with ResponseBudget(keeps_all=False):
            return await super().emit_payload(event, payload)

    def handlers_of(self, event: str) -> tuple[HandlerRegistration, ...]:
        """Return the handlers of an event, in the order in which they are asked."""
        return self._handlers.get(event, ())

    def stamped(self, payload: Payload) -> Payload:
        """Return an event's data with the default fields and the time, as handlers get it."""
        return self._stamped(payload)

    async def ask(self, event: str, payload: Payload, registrations: tuple[HandlerRegistration, ...]) -> HookResult:
        """Ask handlers about an event whose data is stamped, and return their combined result."""
        with ResponseBudget(keeps_all=False):
            return await self._ask_all(event, payload, registrations)

    async def emit_and_collect(self, event: str, data: Any, timeout: float = 1.0) -> list[dict[str, Any]]:
        with ResponseBudget(keeps_all=True):
            return await super().emit_and_collect(event, data, timeout)
