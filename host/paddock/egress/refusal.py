"""What a module wanted of the network and does not get: raised where that is found, told once by whoever serves it."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.errors import Denial
from paddock.plan.host_name import Destination


def line_of(targets: Sequence[str]) -> str:
    """Return what the entry of a module that is granted nothing else would say to allow connections there."""
    listed = ", ".join(f'"{target}"' for target in targets)
    return f"permissions: {{net: [{listed}]}}"


class EgressRefusedError(Exception):
    """Raised for a connection, lookup or request that is not to be; `lacks` are the grants that allow it, if any can.

    `status` is what HTTP calls it, None where nothing can be said, `denial` what was told of it, once it was.
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


def not_granted(destination: Destination, reason: str) -> EgressRefusedError:
    """Return the refusal of a destination that a rule of its own would allow."""
    return EgressRefusedError(destination.text, reason, lacks=[destination.text])
