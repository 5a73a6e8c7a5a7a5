"""Why a load failed, and how one plan entry is loaded."""

from __future__ import annotations

from paddock_sdk.contract.module_sources import ModuleNotFoundError as SourceNotFoundError
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT, ModuleValidationError, module_failure_reason
from paddock_sdk.kernel.settle import safe_exception_str
from support.rows import each_row


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unspeakable(Unprintable):
    __repr__ = Unprintable.__str__


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def circular() -> Exception:
    error = ValueError("it is its own cause")
    error.__cause__ = error
    return error


@each_row(
    ("error", "reason"),
    [
        (ValueError("x"), "unknown"),
        (ModuleValidationError("x"), "validation_failed"),
        (ModuleValidationError("x", reason_code="invalid_entry_point"), "invalid_entry_point"),
        (ModuleValidationError("x", reason_code="made up"), "unknown"),
        (SourceNotFoundError("x"), "missing_source"),
        (ModuleNotFoundError("the builtin"), "unknown"),
        (caused(RuntimeError("x"), SourceNotFoundError("y")), "missing_source"),
        (caused(RuntimeError("x"), ModuleValidationError("y")), "validation_failed"),
        (circular(), "unknown"),
    ],
)
def test_a_failure_comes_down_to_one_word(error: Exception, reason: str) -> None:
    assert module_failure_reason(error) == reason


def test_an_exception_without_text_has_a_text() -> None:
    assert safe_exception_str(Unprintable(b"\x9d")) == r"Unprintable(b'\x9d')"
    assert "Unspeakable" in safe_exception_str(Unspeakable())
    assert safe_exception_str(ValueError("text")) == "text"


def test_every_type_has_its_mount_point() -> None:
    assert set(TYPE_TO_MOUNT_POINT.values()) == set(ModuleCoordinator().mount_points)
