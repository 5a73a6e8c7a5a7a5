"""What a plan may say and this version does not do keeps a module from starting, with its place and what to write."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.errors import UnsupportedError
from paddock.policy import require_supported

from .entries import entry, problems_of


@pytest.mark.parametrize(
    ("keys", "place", "told"),
    [
        ({"permissions": {"net": ["example.com"]}}, "permissions.net", "no network in this version"),
        (
            {"permissions": {"secrets": ["A", {"name": "KEY", "inject": "host"}]}},
            "permissions.secrets[1].inject",
            "write `KEY` alone",
        ),
        ({"state": "keep"}, "state", "grant `write` to a folder"),
    ],
)
def test_it_is_refused_with_its_place_and_what_to_do(keys: dict[str, Any], place: str, told: str) -> None:
    one = entry(**keys)
    found = problems_of(lambda: require_supported(one))
    assert list(found) == [f"tools[0].{place}"]
    assert told in found[f"tools[0].{place}"]


def test_everything_of_an_entry_is_told_at_once() -> None:
    with pytest.raises(UnsupportedError) as caught:
        require_supported(entry(permissions={"net": ["a.example", "b.example"]}, state="keep"))
    assert len(caught.value.problems) == 2
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"permissions": "shell"},
        {"permissions": {"net": [], "secrets": ["A"], "read": ["/"], "run": ["*"], "env": ["A"], "call": ["*"]}},
        {"state": "ephemeral"},
    ],
)
def test_the_rest_is_not(keys: dict[str, Any]) -> None:
    require_supported(entry(**keys))
