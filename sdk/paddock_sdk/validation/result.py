"""The findings of a validation: single checks, and the result they add up to.

A check that fails is an error or a warning; one that passes is information, or a warning where it found nothing to
check. Only failed errors make a result fail. This file does not know how anything is checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["ValidationCheck", "ValidationResult"]

Severity: TypeAlias = Literal["error", "warning", "info"]


@dataclass
class ValidationCheck:
    """One check and its finding."""

    name: str
    passed: bool
    message: str
    severity: Severity


class CheckList:
    """Checks in the order they were made; a subclass names their subject."""

    checks: list[ValidationCheck]

    @property
    def passed(self) -> bool:
        """Whether no check failed as an error."""
        return not self.errors

    @property
    def errors(self) -> list[ValidationCheck]:
        """The checks that failed as errors."""
        return [check for check in self.checks if check.severity == "error" and not check.passed]

    @property
    def warnings(self) -> list[ValidationCheck]:
        """The checks that failed as warnings."""
        return [check for check in self.checks if check.severity == "warning" and not check.passed]

    def add(self, check: ValidationCheck) -> None:
        """Append one check."""
        self.checks.append(check)

    def summary(self) -> str:
        """Return the outcome in one line."""
        outcome = "PASSED" if self.passed else "FAILED"
        passed = sum(check.passed for check in self.checks)
        return (
            f"{outcome}: {passed}/{len(self.checks)} checks passed "
            f"({len(self.errors)} errors, {len(self.warnings)} warnings)"
        )

    def succeed(self, name: str, message: str) -> None:
        """Record that a check passed."""
        self.add(ValidationCheck(name, True, message, "info"))

    def warn(self, name: str, message: str, *, passed: bool = False) -> None:
        """Record a check that passes today, or for some users, but should be improved."""
        self.add(ValidationCheck(name, passed, message, "warning"))

    def fail(self, name: str, message: str) -> None:
        """Record that a check failed."""
        self.add(ValidationCheck(name, False, message, "error"))


@dataclass
class ValidationResult(CheckList):
    """The findings about one module."""

    module_type: str
    module_path: str
    checks: list[ValidationCheck] = field(default_factory=list)
