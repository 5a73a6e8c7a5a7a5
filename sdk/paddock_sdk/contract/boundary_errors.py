"""Errors that only exist because a module's neighbour is in another process.

Module code sees them, so they derive from the builtins that such code already handles. This file imports neither
pydantic nor anything else.
"""

from __future__ import annotations


class ModuleGoneError(RuntimeError):
    """Raised when the process that owns the called object has ended."""


class DeadlockError(RuntimeError):
    """Raised at once for a call into a process that stands still waiting, in the end, for this very call.

    `chain` names the modules that wait for each other, from the one that stands still round to itself.
    """

    chain: tuple[str, ...] = ()

    def __init__(self, *args: object, chain: tuple[str, ...] = ()) -> None:
        super().__init__(*args)
        if chain:
            self.chain = chain


class RefusedError(PermissionError):
    """Raised when the host does not allow this module to make the call."""


class OverLimitError(RuntimeError):
    """Raised for data over the limit of one message, one answer or the conversation."""


class SteeringQueueFull(RuntimeError):
    """Raised by `session.steer` for one message too many.

    Orchestrators define it themselves. Theirs arrives as this class, so that applications can catch it by its class.
    """


class CannotCrossError(TypeError):
    """Raised where module code passes a value that only has a meaning in its own process.

    `path` leads to the value (`data["callback"]`), `kind` describes it, `hint` is an alternative.
    """

    def __init__(self, path: str, kind: str, hint: str) -> None:
        super().__init__(f"{path} is {kind}, which cannot leave the process it was made in; {hint}")
        self.path = path
        self.kind = kind
        self.hint = hint
