"""A coroutine for any awaitable."""

from paddock_sdk.kernel.settle import settled as _wrap

__all__ = ["_wrap"]
