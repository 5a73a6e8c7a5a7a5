"""Errors that only exist because a module's neighbour is in another process.

They are part of what module code may see, so they derive from the builtins that code already
handles. Free of pydantic and of everything else.
"""

from __future__ import annotations


class ModuleGoneError(RuntimeError):
    """Raised when the process that owns the called object has ended."""


class DeadlockError(RuntimeError):
    """Raised at once for a call into a process that stands still waiting, in the end, for this very call."""


class RefusedError(PermissionError):
    """Raised when the host does not let this module make the call."""


class NotSendableError(TypeError):
    """Raised when a value can not cross the process boundary in this place."""
