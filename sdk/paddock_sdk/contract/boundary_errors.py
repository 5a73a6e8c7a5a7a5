"""Errors that only exist because a module's neighbour is in another process.

They are part of what module code may see, so they derive from the builtins that code already
handles. Free of pydantic and of everything else.
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
    """Raised when the host does not let this module make the call."""


class OverLimitError(RuntimeError):
    """Raised for what is more than one message, one answer or the conversation may hold."""


class SteeringQueueFull(RuntimeError):
    """Raised by `session.steer` for one message too many.

    Orchestrators define it themselves; here it is what theirs arrives as, for applications to tell it by its class.
    """


class CannotCrossError(TypeError):
    """Raised where module code hands over a value that only means something in its own process.

    `path` leads to the value (`data["callback"]`), `kind` says what it is, `hint` what would work.
    """

    def __init__(self, path: str, kind: str, hint: str) -> None:
        super().__init__(f"{path} is {kind}, which cannot leave the process it was made in; {hint}")
        self.path = path
        self.kind = kind
        self.hint = hint
