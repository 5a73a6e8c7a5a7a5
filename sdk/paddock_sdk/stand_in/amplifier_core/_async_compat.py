"""A coroutine for any awaitable."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.settle import settled as _wrap

__all__ = ["_wrap"]
