"""What an orchestrator says of a turn when it is over, heard as any hook would hear it.

It is a module's word: what is not of the form that the contract has is left at what every turn is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock_sdk.contract import events
from paddock_sdk.kernel.hooks import HookRegistry

_MAX_STATUS = 100  # characters


class TurnReport:
    """Listens to the events of one session, until its end."""

    def __init__(self, hooks: HookRegistry) -> None:
        self.status = "success"
        self.turn_count = 1
        self.metadata: dict[str, Any] = {}
        hooks.register(events.ORCHESTRATOR_COMPLETE, self)

    async def __call__(self, event: str, data: Mapping[str, Any]) -> None:
        match data:
            case {"status": str() as status} if len(status) <= _MAX_STATUS:
                self.status = status
        match data:
            case {"turn_count": int() as turns} if turns >= 0:
                self.turn_count = turns
        match data:
            case {"metadata": dict() as metadata}:
                self.metadata = metadata
