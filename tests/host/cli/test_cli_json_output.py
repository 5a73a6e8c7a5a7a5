from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.json_output import plain, print_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), None),
        ([float("inf"), 1.5], [None, 1.5]),
        (b"\xff", "_w=="),
        ({1}, [1]),
        ((1, 2), [1, 2]),
        ({1: "a"}, {"1": "a"}),
        (Decimal("1.50"), "1.50"),
        (Path("/a"), "/a"),
        (datetime(2030, 1, 1, tzinfo=UTC), "2030-01-01T00:00:00Z"),
        (Ellipsis, "Ellipsis"),
    ],
)
def test_a_value_without_a_form_in_json_gets_one(value: object, shown: object) -> None:
    assert plain(value) == shown


@given(_VALUES)
def test_whatever_a_module_answers_is_one_line_of_plain_valid_json(value: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []

        class Stdout:
            def write(self, text: str) -> None:
                written.append(text)

            def flush(self) -> None: ...

        patch.setattr("sys.stdout", Stdout())
        print_json(value)
    (line,) = written
    assert line.isascii() and line.index("\n") == len(line) - 1
    assert line[:-1].isprintable()
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
