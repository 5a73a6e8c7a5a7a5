from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.terminal.json_output import plain, print_json
from paddock_sdk.contract.content_models import TextContent
from paddock_sdk.contract.models import ToolResult
from support.rows import each_row

_TEXT = st.text(st.characters(exclude_categories=()), max_size=5)  # lone surrogates included
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | _TEXT
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes()
)
_KEYS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=2).map(tuple) | st.frozensets(inner, max_size=2), max_leaves=3
)
_VALUES = st.recursive(
    _LEAVES | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3) | st.sets(_KEYS, max_size=3),
    max_leaves=10,
)


class Holder:
    def __repr__(self) -> str:
        return "holds hunter2"


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def _deep(levels: int) -> object:
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


@each_row(
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
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ({None: 1, True: 2, 1.5: 3, b"\xff": 4}, {"null": 1, "true": 2, "1.5": 3, "_w==": 4}),
        ({(1, "a"): 1, frozenset({"y", "x"}): 2}, {'[1, "a"]': 1, '["x", "y"]': 2}),
        ({float("inf"): 1}, {"inf": 1}),
        ({"\udc80": "\udc80"}, {"\udc80": "\udc80"}),
        ([{Decimal("1.5"): {Path("/a")}}], [{"1.5": ["/a"]}]),
        (Unspeakable(), "a tests.host.cli.test_cli_json_output.Unspeakable"),
        (TextContent(text="a", raw={(1,): 2}), {"type": "text", "text": "a", "raw": {"[1]": 2}}),
    ],
)
def test_a_value_without_a_form_in_json_gets_one(value: object, shown: object) -> None:
    assert plain(value) == shown


def test_an_integer_of_more_digits_than_python_writes_is_hexadecimal() -> None:
    assert plain({10**5000: [10**5000]}) == {hex(10**5000): [hex(10**5000)]}


def test_a_value_without_an_end_is_cut() -> None:
    circle: list[object] = []
    circle.append(circle)
    for value in (circle, _deep(100_000)):
        assert len(json.dumps(plain(value))) < 5000


@each_row("output", [{"\udc80": 1}, {frozenset({1}): 1}, {(1, 2): b"\xff"}, Unspeakable(), {(): {1: {2: 3}}}])
def test_a_tool_result_keeps_its_shape_whatever_is_in_it(output: object) -> None:
    shown = plain(ToolResult(success=False, output=output, error={"message": "no", "more": output}))
    assert shown.keys() == {"success", "output", "error"}
    assert shown["success"] is False
    assert shown["error"]["message"] == "no"
    json.dumps(shown)


@given(_VALUES)
def test_whatever_a_module_answers_is_one_line_of_plain_valid_json(value: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []

        class Stdout:
            encoding = "ascii"

            def write(self, text: str) -> None:
                written.append(text)

            def flush(self) -> None: ...

        patch.setattr("sys.stdout", Stdout())
        for Stdout.encoding in ("ascii", "utf-8"):
            print_json(value)
    assert written[0].isascii() and json.loads(written[0]) == json.loads(written[1])
    for line in written:
        assert line.index("\n") == len(line) - 1 and line[:-1].isprintable()
        line.encode()
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_what_is_masked_is_hidden_in_every_text_of_a_value() -> None:
    value = {
        "key hunter2": ["hunter2", {"a": "x hunter2 y"}, {"hunter2"}, Path("/hunter2")],
        "result": ToolResult(success=True, output="hunter2"),
        "object": Holder(),
    }
    shown = json.dumps(plain(value, lambda text: text.replace("hunter2", "***")))
    assert "hunter2" not in shown and shown.count("***") == 7
