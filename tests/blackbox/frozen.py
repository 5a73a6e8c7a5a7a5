"""What is frozen: the values in `golden`, and how one that differs is shown."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parent / "golden"


def text_of(value: Any) -> str:
    """Return a value as it stands in a file: the same value is always the same text."""
    return json.dumps(value, indent=1, ensure_ascii=True, sort_keys=True) + "\n"


def frozen(name: str) -> Any:
    """Return what was frozen under a name."""
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def assert_as_frozen(name: str, value: Any) -> None:
    """Fail, showing each line that differs, unless `value` is what was frozen under a name."""
    was, now = text_of(frozen(name)), text_of(value)
    differences = difflib.unified_diff(was.splitlines(), now.splitlines(), f"golden/{name}.json", "now", lineterm="")
    assert was == now, "this is frozen:\n" + "\n".join(differences)
