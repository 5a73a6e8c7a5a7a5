"""The tracebacks that modules print are told apart from each other and from all else, within bounds."""

from __future__ import annotations

from paddock.cli.session_on_screen import Tracebacks
from paddock_sdk.worker.calls.raised import DETAIL

_START = "Traceback (most recent call last):"


def _kept(*lines: tuple[str, str]) -> list[tuple[object, object]]:
    found = Tracebacks()
    for module, line in lines:
        found.add(module, line)
    return [(one["module"], one["traceback"]) for one in found.as_list()]


def test_each_traceback_is_one_with_its_module() -> None:
    lines = [
        ("a", "printed"),
        ("a", DETAIL + _START),
        ("b", DETAIL + _START),
        ("a", DETAIL + "ValueError: 1"),
        ("b", DETAIL + "KeyError: 2"),
        ("a", DETAIL + _START),
        ("a", DETAIL + "ValueError: 3"),
        ("a", "printed"),
        ("a", DETAIL + "  File without a start"),
    ]
    assert _kept(*lines) == [
        ("a", f"{_START}\nValueError: 1"),
        ("b", f"{_START}\nKeyError: 2"),
        ("a", f"{_START}\nValueError: 3"),
        ("a", "  File without a start"),
    ]


def test_a_chain_of_exceptions_stays_together() -> None:
    middle = "During handling of the above exception, another exception occurred:"
    lines = [_START, "ValueError: 1", middle, _START, "KeyError: 2"]
    assert _kept(*(("a", DETAIL + line) for line in lines)) == [("a", "\n".join(lines))]


def test_a_flood_keeps_its_latest_part() -> None:
    lines = [("a", f"{DETAIL}{line}") for number in range(1000) for line in (_START, f"E: {number} " + "x" * 9000)]
    kept = _kept(*lines)
    assert len(kept) == 10 and kept[-1][1] == f"{_START}\nE: 999 "
    assert len(str(_kept(*[("a", DETAIL + "line")] * 1000)[0][1])) < 200 * 5


def test_no_part_of_a_word_is_left_where_a_line_is_cut() -> None:
    tracebacks = Tracebacks()
    tracebacks.add("tool-a", f"{DETAIL}{_START}")
    tracebacks.add("tool-a", f"{DETAIL}ValueError: {'x' * 400} https://example.org/?key={'k' * 200}")
    assert tracebacks.as_list() == [{"module": "tool-a", "traceback": f"{_START}\nValueError: {'x' * 400} "}]


def test_one_module_takes_no_other_modules_place() -> None:
    tracebacks = Tracebacks()
    tracebacks.add("tool-quiet", f"{DETAIL}{_START}")
    for number in range(40):
        tracebacks.add("tool-loud", f"{DETAIL}{_START}")
        tracebacks.add("tool-loud", f"{DETAIL}ValueError: {number}")
    kept = tracebacks.as_list()
    assert [one["module"] for one in kept] == ["tool-quiet", *["tool-loud"] * 10]
    assert str(kept[-1]["traceback"]).endswith("ValueError: 39")
