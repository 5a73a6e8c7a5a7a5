"""Take what module code returned, whether or not it has to be awaited.

The contract lets modules pass synchronous and asynchronous functions nearly everywhere. Awaits in the caller's task.
"""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["settled"]


async def settled(value: Any) -> Any:
    """Return the value, or what it comes to when it can be awaited."""
    return await value if inspect.isawaitable(value) else value
