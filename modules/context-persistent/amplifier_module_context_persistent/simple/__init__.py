"""The files of `context-simple`, as they are there: what is stored in memory, and how a request is made of it.

Modules are installed alone, so that neither can import the other; a test of the project keeps the copies the same.
"""

from __future__ import annotations

from .context import EVENTS, SimpleContextManager
from .settings import MODULE, Settings

__all__ = ["EVENTS", "MODULE", "Settings", "SimpleContextManager"]
