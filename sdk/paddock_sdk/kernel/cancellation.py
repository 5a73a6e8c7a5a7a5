"""Asking a running turn to stop: gracefully, after the running tools, or at once.

A token only holds the request and passes it on to child tokens; orchestrators poll it. Requests grow and never shrink
until `reset`. Callbacks run when an orchestrator triggers them, every time, and their errors are swallowed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

from paddock_sdk.kernel.settle import CancelWatch, settled

__all__ = ["CancellationState", "CancellationToken"]

_log = logging.getLogger(__name__)


class CancellationState(Enum):
    """How urgently the turn is to stop."""

    NONE = "none"
    GRACEFUL = "graceful"
    IMMEDIATE = "immediate"


class CancellationToken:
    """One session's wish to stop."""

    def __init__(self) -> None:
        #: Called with the new state's text after each change.
        self.observer: Callable[[str], None] | None = None
        self._state = CancellationState.NONE
        self._running_tools: dict[str, str] = {}
        self._children: list[CancellationToken] = []
        self._callbacks: list[Callable[[], Any]] = []

    @property
    def state(self) -> str:
        """The state as text: "none", "graceful" or "immediate"."""
        return self._state.value

    @property
    def is_cancelled(self) -> bool:
        return self._state is not CancellationState.NONE

    @property
    def is_graceful(self) -> bool:
        return self._state is CancellationState.GRACEFUL

    @property
    def is_immediate(self) -> bool:
        return self._state is CancellationState.IMMEDIATE

    @property
    def running_tools(self) -> set[str]:
        """The call ids of the tools that run now; a snapshot."""
        return set(self._running_tools)

    @property
    def running_calls(self) -> dict[str, str]:
        """The names of the tools that run now, by call id; a snapshot."""
        return dict(self._running_tools)

    @property
    def running_tool_names(self) -> list[str]:
        return list(self._running_tools.values())

    def request_graceful(self) -> bool:
        """Ask to stop after the tools that run; return whether that changed anything."""
        if self._state is not CancellationState.NONE:
            return False
        self._change(CancellationState.GRACEFUL)
        for child in list(self._children):
            child.request_graceful()
        return True

    def request_immediate(self) -> bool:
        """Ask to stop at once; return whether that changed anything."""
        if self._state is CancellationState.IMMEDIATE:
            return False
        self._change(CancellationState.IMMEDIATE)
        for child in list(self._children):
            child.request_immediate()
        return True

    def request_cancellation(self) -> None:
        """The same as `request_graceful`."""
        self.request_graceful()

    def reset(self) -> None:
        """Withdraw the wish and forget the running tools; children and callbacks stay as they are."""
        self._running_tools.clear()
        if self._state is not CancellationState.NONE:
            self._change(CancellationState.NONE)

    def register_tool_start(self, tool_call_id: str, tool_name: str) -> None:
        self._running_tools[tool_call_id] = tool_name

    def register_tool_complete(self, tool_call_id: str) -> None:
        """Note that a tool has finished; an unknown id is ignored."""
        self._running_tools.pop(tool_call_id, None)

    def register_child(self, child: CancellationToken) -> None:
        """Pass this token's wish, as it is now and as it grows, on to another."""
        self._children.append(child)
        if self.is_immediate:
            child.request_immediate()
        elif self.is_graceful:
            child.request_graceful()

    def unregister_child(self, child: CancellationToken) -> None:
        """Stop passing the wish on; an unknown child is ignored."""
        self._children = [other for other in self._children if other is not child]

    def on_cancel(self, callback: Callable[[], Any]) -> None:
        """Add a synchronous or asynchronous function for `trigger_callbacks`."""
        self._callbacks.append(callback)

    async def trigger_callbacks(self) -> None:
        """Run every callback, in the order they were added, however often this is called."""
        watch = CancelWatch()
        for callback in list(self._callbacks):
            try:
                await settled(callback())
            except (Exception, asyncio.CancelledError) as error:
                if watch.cancelled:
                    raise
                _log.warning("A cancellation callback failed", exc_info=error)

    def _change(self, state: CancellationState) -> None:
        self._state = state
        if self.observer is not None:
            self.observer(state.value)
