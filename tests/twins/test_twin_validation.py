"""Validators and inherited tests pass and fail the modules that those of the published package do.

`observed/validation.json` says what was observed of version 2.0.2, for every module of `modules`: the checks with their
severity, whether the module as a single file gets the same, and which of the inherited tests fail.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.examples import repeating
from support.plain_pytest import PLAIN
from twins.modules import MODULES
from twins.published import Python

# The acts of one kernel take as long as some hundred tests.
pytestmark = pytest.mark.timeout(900)

_OBSERVED: dict[str, Any] = json.loads((Path(__file__).parent / "observed/validation.json").read_text())


@pytest.fixture(scope="module")
def outcomes(kernel: Python, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "modules.json").write_text(json.dumps(MODULES))
    return dict(kernel.outcomes("validation.py", str(folder), *PLAIN))


# What was observed of the published package does not change: that it is so still, `make test-all` shows.
@pytest.mark.parametrize("kernel", ["ours", *repeating("published")], indirect=True, scope="session")
@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_judged_as_it_was_observed_to_be(outcomes: dict[str, Any], module: str) -> None:
    assert outcomes[module] == _OBSERVED[module]


def test_every_module_was_observed() -> None:
    assert sorted(_OBSERVED) == sorted(MODULES)
