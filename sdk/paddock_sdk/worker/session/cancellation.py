"""The session's cancellation token as a module sees it.

Its state is the host's, kept current by the mirror, so polling it costs nothing; requests and callbacks go to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock_sdk.kernel.cancellation import CancellationToken
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.driver import Driver


class RemoteCancellationToken(CancellationToken):
    """A `CancellationToken` whose state is the host's."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver

    def request_graceful(self) -> bool:
        """Ask the host to cancel after the running tools; return whether that changed anything."""
        return bool(self._driver.call_sync(0, HostMethod.REQUEST_CANCEL, ["graceful"]))

    def request_immediate(self) -> bool:
        """Ask the host to cancel at once; return whether that changed anything."""
        return bool(self._driver.call_sync(0, HostMethod.REQUEST_CANCEL, ["immediate"]))

    def reset(self) -> None:
        """Withdraw the cancellation, and forget the running tools."""
        self._driver.call_sync(0, HostMethod.REQUEST_CANCEL, ["reset"])
        self._running_tools.clear()

    def register_tool_start(self, tool_call_id: str, tool_name: str) -> None:
        super().register_tool_start(tool_call_id, tool_name)
        self._driver.notify(HostMethod.TOOL_STARTED, [str(tool_call_id), str(tool_name)], along=True)

    def register_tool_complete(self, tool_call_id: str) -> None:
        super().register_tool_complete(tool_call_id)
        self._driver.notify(HostMethod.TOOL_COMPLETED, [str(tool_call_id)], along=True)

    def on_cancel(self, callback: Callable[[], Any]) -> None:
        """Register `callback` with the host, which calls it when callbacks are triggered."""
        self._driver.call_sync(0, HostMethod.ON_CANCEL, [callback])

    async def trigger_callbacks(self) -> None:
        """Ask the host to run every callback of the session."""
        await self._driver.call(0, HostMethod.TRIGGER_CANCEL_CALLBACKS, [])

    def mirror(self, state: str, running: dict[str, str]) -> None:
        """Take the host's state."""
        self._running_tools = dict(running)
        if state == "none":
            super().reset()
        elif state == "graceful":
            super().request_graceful()
        else:
            super().request_immediate()
