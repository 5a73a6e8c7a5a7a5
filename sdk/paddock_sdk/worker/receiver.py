"""The interface between the driver and the receiver of incoming frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from paddock_sdk.protocol import Frame


class FrameReceiver(Protocol):
    """Receives incoming frames from the driver; no method may block. An exception affects only that frame.

    A worker's receiver is `ModuleRuntime` (`main.py`). It passes some of these methods on to its parts, as attributes
    that its constructor sets: requests go to `Dispatcher.on_request`, shared state to `SessionMirror`.
    """

    def on_request(self, request: Frame) -> None: ...

    def on_mirror(self, change: Frame) -> None: ...

    def on_welcome(self, welcome: Frame) -> None: ...

    def on_goodbye(self) -> None: ...

    def catch_up(self, place: tuple[str, str | None] | None = None) -> None:
        """Apply the mounts that are kept unread; if a place is given, only when one of them is there."""

    def keep_up(self) -> None:
        """Apply the mounts that are kept unread, and later ones as they come."""

    def before_send(self) -> None:
        """Send the changes of shared state since the last frame, before the next one leaves."""

    def circumstances(self) -> Sequence[Any]:
        """Return the data sent with an `execute` beside its arguments: one mapping, or nothing."""
        ...
