"""The three loops carry the same agent loop; see modules/loop-basic/adr/0001."""

from __future__ import annotations

from pathlib import Path

import pytest

_MODULES = Path(__file__).resolve().parents[2] / "modules"


def _files(module: str) -> dict[str, str]:
    folder = _MODULES / module / f"amplifier_module_{module.replace('-', '_')}" / "agent_loop"
    return {path.name: path.read_text() for path in folder.glob("*.py")}


@pytest.mark.parametrize("module", ["loop-streaming", "loop-events"])
def test_the_loops_carry_the_same_files(module: str) -> None:
    assert _files(module) == _files("loop-basic"), "edit the folder of loop-basic, and copy it to the others"


def test_the_shared_files_name_no_loop_in_code() -> None:
    files = _files("loop-basic")
    assert "turn.py" in files
    about = files.pop("__init__.py")
    assert "loop-basic" in about
    assert [name for name, text in files.items() if "loop-" in text or "amplifier_module" in text] == []
