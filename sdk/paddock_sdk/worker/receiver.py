"""What the driver asks of whoever acts on the frames that come in."""

from __future__ import annotations

from typing import Protocol

from paddock_sdk.protocol import Frame


class FrameReceiver(Protocol):
    """What the driver hands incoming frames to; no method may block. What one raises ends that frame alone."""

    def on_request(self, request: Frame) -> None: ...

    def on_mirror(self, change: Frame) -> None: ...

    def on_notify(self, notice: Frame) -> None: ...

    def on_welcome(self, welcome: Frame) -> None: ...

    def on_goodbye(self) -> None: ...
