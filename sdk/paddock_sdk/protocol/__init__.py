"""The protocol between host and module processes, without any input or output.

`Connection` turns bytes into events and calls into bytes; `body` turns values into opaque message bodies and back.
Nothing in here owns a socket, reads a clock, logs or awaits, so both sides of the boundary, and every test, run the
same code. `sdk/PROTOCOL.md` is its description.
"""

from __future__ import annotations

from paddock_sdk.protocol.connection import Connection, Role
from paddock_sdk.protocol.decoder import FrameDecoder
from paddock_sdk.protocol.errors import LocalProtocolError, OverBudgetError, ProtocolError, RemoteProtocolError
from paddock_sdk.protocol.frames import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_FRAME_BYTES,
    MAX_HANDLES,
    PROTOCOL_VERSION,
    Cancel,
    Credit,
    Discarded,
    Failure,
    Flag,
    Frame,
    Goodbye,
    HandleEntry,
    HandleSide,
    Hello,
    Item,
    Kind,
    Mirror,
    Notify,
    Release,
    Request,
    Response,
    Welcome,
)

__all__ = [
    "Connection",
    "Role",
    "FrameDecoder",
    "ProtocolError",
    "LocalProtocolError",
    "RemoteProtocolError",
    "OverBudgetError",
    "Frame",
    "Kind",
    "Flag",
    "HandleEntry",
    "HandleSide",
    "Hello",
    "Welcome",
    "Request",
    "Response",
    "Failure",
    "Notify",
    "Cancel",
    "Item",
    "Credit",
    "Mirror",
    "Release",
    "Goodbye",
    "Discarded",
    "PROTOCOL_VERSION",
    "MAX_FRAME_BYTES",
    "MAX_HANDLES",
    "MAX_DEPTH",
    "MAX_ELEMENTS",
]
