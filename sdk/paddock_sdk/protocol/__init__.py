"""The protocol between host and module processes, without any input or output.

`Connection` turns bytes into events and calls into bytes; `body` turns values into opaque message bodies and back.
Nothing in here owns a socket, reads a clock, logs or awaits, so both sides of the boundary, and every test, run the
same code. `sdk/PROTOCOL.md` is its description.
"""

from __future__ import annotations

from paddock_sdk.protocol.connection import Connection as Connection
from paddock_sdk.protocol.connection import Role as Role
from paddock_sdk.protocol.decoder import FrameDecoder as FrameDecoder
from paddock_sdk.protocol.errors import LocalProtocolError as LocalProtocolError
from paddock_sdk.protocol.errors import OverBudgetError as OverBudgetError
from paddock_sdk.protocol.errors import ProtocolError as ProtocolError
from paddock_sdk.protocol.errors import RemoteProtocolError as RemoteProtocolError
from paddock_sdk.protocol.frames import *
