"""Why a load failed, and how one plan entry is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from paddock_sdk.contract.module_sources import ModuleNotFoundError as SourceNotFoundError
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT, ModuleValidationError, load_entry, module_failure_reason
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


async def test_what_mount_returns_becomes_a_cleanup_if_it_can_be_called(loader: Any) -> None:
    coordinator = ModuleCoordinator()
    coordinator.loader = loader
    ran: list[str] = []
    for returned in (None, {}, "text", object(), lambda: ran.append("cleaned")):
        loader.modules["tool-t"] = loader.mounts("tools", "it", "t", cleanup=returned)
        await load_entry(coordinator, {"module": "tool-t"})
    await coordinator.cleanup()
    assert ran == ["cleaned"]


@pytest.mark.parametrize(
    ("entry", "given"),
    [
        ({"module": "tool-t"}, ("tool-t", {}, None)),
        ({"module": "tool-t", "config": None, "source": "git+x"}, ("tool-t", {}, "git+x")),
        ({"module": "tool-t", "config": {"a": 1}}, ("tool-t", {"a": 1}, None)),
    ],
)
async def test_the_loader_is_given_id_config_and_source(
    loader: Any, entry: dict[str, Any], given: tuple[Any, ...]
) -> None:
    coordinator = ModuleCoordinator()
    coordinator.loader = loader
    loader.modules["tool-t"] = loader.mounts("tools", "it", "t")
    await load_entry(coordinator, entry)
    assert loader.loaded == [given]
