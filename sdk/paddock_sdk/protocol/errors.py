"""Protocol errors, one class for each side's mistakes."""

from __future__ import annotations


class ProtocolError(Exception):
    """The common base of both errors; never raised itself."""

    def __init__(self, message: str) -> None:
        if type(self) is ProtocolError:
            raise TypeError("raise LocalProtocolError or RemoteProtocolError, not ProtocolError")
        super().__init__(message)


class LocalProtocolError(ProtocolError):
    """Raised when this side asked the connection for an action that the protocol does not allow."""


class RemoteProtocolError(ProtocolError):
    """Raised when the peer sent bytes that the protocol does not allow; the connection is then unusable."""


class UnfitValueError(RemoteProtocolError, ValueError):
    """Raised for a value that no class accepts, for arguments that do not fit, and for a method that is not there.

    It is the meaning of a whole body that is wrong, so only the call that it belongs to fails. Every other
    `RemoteProtocolError` ends the connection.
    """


class OverBudgetError(RemoteProtocolError):
    """Raised when the peer sent more than it may; `limit` names the budget, `allowed` and `observed` are numbers."""

    def __init__(self, limit: str, *, allowed: int, observed: int, message: str) -> None:
        self.limit = limit
        self.allowed = allowed
        self.observed = observed
        super().__init__(message)
