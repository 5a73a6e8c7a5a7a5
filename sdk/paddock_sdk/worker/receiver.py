"""The interface between the driver and the receiver of incoming frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from paddock_sdk.protocol import Frame


class FrameReceiver(Protocol):
    """Receives incoming frames from the driver; no method may block. An exception affects only that frame."""

    def on_request(self, request: Frame) -> None: ...

    def on_mirror(self, change: Frame) -> None: ...

    def on_notify(self, notice: Frame) -> None: ...

    def on_welcome(self, welcome: Frame) -> None: ...

    def on_goodbye(self) -> None: ...

    def before_send(self) -> None:
        """Send the changes of shared state since the last frame, before the next one leaves."""

    def circumstances(self) -> Sequence[Any]:
        """Return the data sent with an `execute` beside its arguments: one mapping, or nothing."""
        ...
