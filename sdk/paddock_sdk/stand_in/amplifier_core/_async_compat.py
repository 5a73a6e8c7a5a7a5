"""A coroutine of whatever can be awaited."""

from __future__ import annotations

from paddock_sdk.kernel.settle import settled as _wrap

__all__ = ["_wrap"]
