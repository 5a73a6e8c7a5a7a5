"""What a plan may say and this version does not do keeps a module from starting, with its place and what to write."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.errors import UnsupportedError
from paddock.policy import require_supported

from .entries import entry, problems_of


def test_it_is_refused_with_its_place_and_what_to_do() -> None:
    one = entry(state="keep")
    found = problems_of(lambda: require_supported(one))
    assert list(found) == ["tools[0].state"]
    assert "grant `write` to a folder" in found["tools[0].state"]


def test_it_is_the_plan_that_has_to_change() -> None:
    with pytest.raises(UnsupportedError) as caught:
        require_supported(entry(state="keep"))
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"permissions": "shell"},
        {"permissions": {"net": ["a.example"], "secrets": ["A", {"name": "KEY", "inject": "a.example"}]}},
        {"permissions": {"read": ["/"], "run": ["*"], "env": ["A", "B=${A}"], "call": ["*"]}},
        {"state": "ephemeral"},
    ],
)
def test_the_rest_is_not(keys: dict[str, Any]) -> None:
    require_supported(entry(**keys))
