"""Why a web tool failed, in words the model can act on."""

from __future__ import annotations

from typing import Any

from amplifier_core.models import ToolResult


class Failure(Exception):
    """Raised inside the tools and turned into a failed `ToolResult`; never reaches the caller of a tool."""

    def __init__(self, kind: str, message: str, **about: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.about = about

    def with_hint(self, hint: str) -> Failure:
        """Return the failure with one more sentence, a remedy."""
        return Failure(self.kind, f"{self.message} {hint}", **self.about)

    def result(self) -> ToolResult:
        """Return the failure as the contract reports it."""
        return ToolResult(success=False, error={"type": self.kind, "message": self.message, **self.about})
