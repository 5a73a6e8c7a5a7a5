"""What checks add up to."""

from __future__ import annotations

from paddock_sdk.validation import ValidationCheck, ValidationResult
from paddock_sdk.validation.result import Severity
from support.rows import each_row


@each_row(
    ("checks", "passed", "errors", "warnings", "summary"),
    [
        ([], True, 0, 0, "PASSED: 0/0 checks passed (0 errors, 0 warnings)"),
        ([(True, "info")], True, 0, 0, "PASSED: 1/1 checks passed (0 errors, 0 warnings)"),
        ([(False, "error")], False, 1, 0, "FAILED: 0/1 checks passed (1 errors, 0 warnings)"),
        ([(True, "error")], True, 0, 0, "PASSED: 1/1 checks passed (0 errors, 0 warnings)"),
        ([(False, "warning")], True, 0, 1, "PASSED: 0/1 checks passed (0 errors, 1 warnings)"),
        ([(True, "warning")], True, 0, 0, "PASSED: 1/1 checks passed (0 errors, 0 warnings)"),
        (
            [(True, "info"), (False, "error"), (False, "warning"), (True, "info")],
            False,
            1,
            1,
            "FAILED: 2/4 checks passed (1 errors, 1 warnings)",
        ),
    ],
)
def test_only_failed_errors_make_a_result_fail(
    checks: list[tuple[bool, Severity]], passed: bool, errors: int, warnings: int, summary: str
) -> None:
    result = ValidationResult(module_type="tool", module_path="/a/module")
    for number, (ok, severity) in enumerate(checks):
        result.add(ValidationCheck(name=f"check-{number}", passed=ok, message="seen", severity=severity))
    assert (result.passed, len(result.errors), len(result.warnings)) == (passed, errors, warnings)
    assert result.summary() == summary


def test_a_result_is_made_of_a_type_a_path_and_checks() -> None:
    check = ValidationCheck("name", True, "message", "info")
    result = ValidationResult("tool", "/a/module", checks=[check])
    assert (result.module_type, result.module_path, result.checks) == ("tool", "/a/module", [check])
