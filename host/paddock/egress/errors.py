"""The ways in which a module's connection, lookup or request fails: refused, unreached, unanswered, idle.

Each is raised where it is found out. The code that serves the connection records it, reports a refusal once, and
answers the client in the client's protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paddock.errors import Denial
from paddock.plan.host_name import Destination

UNENCRYPTED: Final = "a key is put in here, and would leave the machine unencrypted: name an https:// address"
"""Why a request in plain HTTP is refused where a key is put in."""


class EgressRefusedError(Exception):
    """Raised for a refused connection, lookup or request; `lacks` are grants that would allow it, if any can.

    `status` is the HTTP status, None where no answer is possible; `denial` is its report, once there is one.
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


class DialError(Exception):
    """Raised when an allowed destination cannot be reached; `timed_out` means that it took too long."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.timed_out = timed_out


class BadRequestError(Exception):
    """Raised for a request that no grant would allow; `status` answers it, None if no answer is possible."""

    def __init__(self, reason: str, status: int | None = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class AnswerError(Exception):
    """Raised when there is no answer to pass on; `status` is to be answered instead, None if an answer has begun.

    `answer` is all of that answer, where it says more than the reason.
    """

    def __init__(self, reason: str, status: int | None, *, answer: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.answer = answer


class IdleError(Exception):
    """Raised when nothing has happened for too long."""


def not_granted(destination: Destination, reason: str) -> EgressRefusedError:
    """Return the refusal of a destination that a rule of its own would allow."""
    return EgressRefusedError(destination.text, reason, lacks=[destination.text])
