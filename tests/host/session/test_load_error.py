"""What went wrong when a module was mounted is named with what its author changes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from paddock.session.load_error import load_error
from support.rows import each_row

_SIGNATURE = "async def mount(coordinator, config)"


@each_row(
    ("stage", "error", "hint"),
    [
        ("lookup", AttributeError("package `x` has no function `mount`"), _SIGNATURE),
        ("lookup", AttributeError("package `x` has no function `setup`"), "pyproject.toml names `setup`"),
        ("mount", TypeError("mount() takes 1 positional argument but 2 were given"), _SIGNATURE),
        ("mount", TypeError("mount() missing 1 required positional argument: 'x'"), _SIGNATURE),
        ("mount", ValueError("Unknown mount point: tool"), "`tools`"),
        ("mount", ValueError("its own"), ""),
        ("mount", TypeError("helper() takes 1 positional argument but 2 were given"), ""),
    ],
)
def test_a_fault_of_the_mount_has_the_hint_for_its_author(
    stage: Literal["lookup", "mount"], error: Exception, hint: str
) -> None:
    hints = load_error("tool-x", stage, error, Path("/x")).hints
    assert len(hints) == bool(hint) and hint in "".join(hints)
