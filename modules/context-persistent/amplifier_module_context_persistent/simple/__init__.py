"""The files of `context-simple`, unchanged: messages in memory, and requests made of them.

Modules are installed alone, so that neither can import the other; a test of the project keeps the copies the same.
"""

from __future__ import annotations

from .context import EVENTS, SimpleContextManager
from .settings import MODULE, Settings

__all__ = ["EVENTS", "MODULE", "Settings", "SimpleContextManager"]
