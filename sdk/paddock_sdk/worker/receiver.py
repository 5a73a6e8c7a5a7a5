"""What the driver asks of whoever acts on the frames that come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from paddock_sdk.protocol import Frame


class FrameReceiver(Protocol):
    """What the driver hands incoming frames to; no method may block. What one raises ends that frame alone."""

    def on_request(self, request: Frame) -> None: ...

    def on_mirror(self, change: Frame) -> None: ...

    def on_notify(self, notice: Frame) -> None: ...

    def on_welcome(self, welcome: Frame) -> None: ...

    def on_goodbye(self) -> None: ...

    def before_send(self) -> None:
        """Say what changed in shared state since the last frame, before the next one leaves."""

    def circumstances(self) -> Sequence[Any]:
        """Return what the callee of an `execute` is told beside its arguments: one mapping, or nothing."""
        ...
