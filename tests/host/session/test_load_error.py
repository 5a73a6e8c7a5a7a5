"""What went wrong when a module was mounted is named with what its author changes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from paddock.session.load_error import load_error
from paddock_sources import Resolution
from support.rows import each_row

_COPY = Path("/cache/copy")
_CODE = Resolution("tool-x", "/my/tool-x", _COPY, "x", _COPY / "x", _COPY, "tool")
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
    hints = load_error("tool-x", stage, error, _CODE).hints
    assert len(hints) == bool(hint) and hint in "".join(hints)


def test_an_author_is_shown_the_own_folder_and_no_copy_of_it() -> None:
    error = load_error("tool-x", "import", SyntaxError("invalid syntax"), _CODE)
    assert error.hints == ("its code is in /my/tool-x",)
