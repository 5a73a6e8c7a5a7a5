"""What a session, its coordinator and its events do is what they do in the published package.

`observed/kernel.json` says what was observed of version 2.0.2, for every case of `acts/kernel.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twins.published import Python

# The acts of one kernel take as long as some hundred tests.
pytestmark = pytest.mark.timeout(900)

_OBSERVED: dict[str, Any] = json.loads((Path(__file__).parent / "observed/kernel.json").read_text())


@pytest.fixture(scope="module")
def outcomes(kernel: Python) -> dict[str, Any]:
    return dict(kernel.outcomes("kernel.py"))


@pytest.mark.exhaustive("published")
def test_cases_end_as_they_were_observed_to(outcomes: dict[str, Any]) -> None:
    assert {case: outcomes.get(case) for case in _OBSERVED if outcomes.get(case) != _OBSERVED[case]} == {}


@pytest.mark.exhaustive("published")
def test_every_case_was_observed(outcomes: dict[str, Any]) -> None:
    assert sorted(outcomes) == sorted(_OBSERVED)
