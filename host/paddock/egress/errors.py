"""How a connection, lookup or request of a module ends other than in order: refused, unreached, unanswered, idle.

Each is raised where that is found out. Who serves the connection records it, reports a refusal once, and answers the
client in the protocol that it speaks.
"""

from __future__ import annotations

from collections.abc import Sequence

from paddock.errors import Denial
from paddock.plan.host_name import Destination


class EgressRefusedError(Exception):
    """Raised for a connection, lookup or request that is not to be; `lacks` are the grants that allow it, if any can.

    `status` is what HTTP calls it, None where nothing can be said, `denial` is its report, once there is one.
    """

    def __init__(
        self,
        target: str,
        reason: str,
        *,
        lacks: Sequence[str] = (),
        status: int | None = 403,
        operation: str = "connect to",
    ) -> None:
        super().__init__(f"{target}: {reason}")
        self.operation = operation
        self.target = target
        self.reason = reason
        self.lacks = tuple(lacks)
        self.status = status
        self.denial: Denial | None = None

    def reported_as(self, denial: Denial) -> None:
        """Keep its report, so that there is one."""
        self.denial = denial


class DialError(Exception):
    """Raised when a destination is allowed and cannot be reached; `timed_out` says that it took too long."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.timed_out = timed_out


class BadRequestError(Exception):
    """Raised for a request that is not passed on, whatever is granted; `status` answers it, None if nothing can."""

    def __init__(self, reason: str, status: int | None = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class AnswerError(Exception):
    """Raised when there is no answer to pass on; `status` is what to answer instead, None if an answer has begun."""

    def __init__(self, reason: str, status: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class IdleError(Exception):
    """Raised when nothing has happened for too long."""


def not_granted(destination: Destination, reason: str) -> EgressRefusedError:
    """Return the refusal of a destination that a rule of its own would allow."""
    return EgressRefusedError(destination.text, reason, lacks=[destination.text])


def line_of(targets: Sequence[str]) -> str:
    """Return what the entry of a module that is granted nothing else would say to allow connections there."""
    listed = ", ".join(f'"{target}"' for target in targets)
    return f"permissions: {{net: [{listed}]}}"
