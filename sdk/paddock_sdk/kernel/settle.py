"""Take module code's return value, whether or not it has to be awaited.

The contract lets modules pass synchronous and asynchronous functions nearly everywhere. It awaits in the caller's task.
"""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["settled"]


async def settled(value: Any) -> Any:
    """Return the value, or its awaited result."""
    return await value if inspect.isawaitable(value) else value
