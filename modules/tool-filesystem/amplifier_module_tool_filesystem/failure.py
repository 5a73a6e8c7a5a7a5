"""Why a file tool failed, in words the model can act on."""

from __future__ import annotations

from amplifier_core.models import ToolResult


class Failure(Exception):
    """Raised inside the tools and turned into a failed `ToolResult`; never reaches the caller of a tool."""

    def __init__(self, kind: str, message: str, access: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.access = access  # which a path was refused, `read` or `write`: its host tells a person how to allow that

    def result(self) -> ToolResult:
        """Return the failure as the contract reports it."""
        more = {"access": self.access} if self.access else {}
        return ToolResult(success=False, error={"type": self.kind, "message": self.message, **more})


def from_os_error(error: OSError, doing: str) -> Failure:
    """Return an operating system error as a failure for the model; `doing` completes "Cannot …"."""
    kind = {
        FileNotFoundError: "not_found",
        IsADirectoryError: "not_a_file",
        NotADirectoryError: "not_found",
        PermissionError: "permission_denied",
    }.get(type(error), "io_error")
    return Failure(kind, f"Cannot {doing}: {error.strerror or error}.")
