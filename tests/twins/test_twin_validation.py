"""Validators and inherited tests pass and fail the modules that those of the published package do.

`observed/validation.json` says what was observed of version 2.0.2, for every module of `modules`: the checks with their
severity, whether the module as a single file gets the same, and which of the inherited tests fail.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.examples import IN_FULL, repeating
from support.plain_pytest import PLAIN
from twins.modules import MODULES
from twins.published import Python

# The acts of one kernel take as long as some hundred tests.
pytestmark = pytest.mark.timeout(900)

_OBSERVED: dict[str, Any] = json.loads((Path(__file__).parent / "observed/validation.json").read_text())
# By the inherited tests that fail: of modules of a kind that fail the same, the first; a third of these in `make test`.
_FIRST = {(kind, *_OBSERVED[name]["failed"]): name for name, (kind, _) in reversed(MODULES.items())}
_TESTED = [*(MODULES if IN_FULL else list(_FIRST.values())[::3])]


# What was observed of the published package does not change: that it is so still, `make test-all` shows.
@pytest.mark.parametrize("kernel", ["ours", *repeating("published")], indirect=True, scope="session")
def test_modules_are_judged_as_they_were_observed_to_be(kernel: Python, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(json.dumps(MODULES))
    (tmp_path / "tested.json").write_text(json.dumps(_TESTED))
    outcomes = kernel.outcomes("validation.py", str(tmp_path), *PLAIN)
    expected = {
        name: {**seen, "failed": seen["failed"] if name in _TESTED else None} for name, seen in _OBSERVED.items()
    }
    assert {name: outcomes[name] for name in MODULES if outcomes[name] != expected[name]} == {}


def test_every_module_was_observed() -> None:
    assert sorted(_OBSERVED) == sorted(MODULES)
