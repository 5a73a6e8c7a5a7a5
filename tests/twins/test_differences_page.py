"""The page of differences names what tests show to differ, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from integration.semantics import test_differences as tables

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "sdk/docs/differences.md"
_TABLES = "tests/integration/semantics/test_differences.py"


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the title, the reason and the test of each line of the page's tables."""
    for line in _PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 3 and "::" in cells[2]:
            yield cells[0], cells[1], cells[2].strip("`")


def marked() -> Iterator[tuple[str, str]]:
    """Yield the title and the test of each mark of a difference."""
    for file in sorted((_ROOT / "tests").rglob("test_*.py")):
        if "mark.difference(" not in (text := file.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for mark in map(ast.unparse, node.decorator_list):
                    if mark.startswith("pytest.mark.difference("):
                        title = ast.literal_eval(mark.removeprefix("pytest.mark.difference"))
                        yield title, f"{file.relative_to(_ROOT)}::{node.name}"


def test_the_page_has_a_line_for_each_difference_that_a_test_shows() -> None:
    by_table = {
        (title, difference.reason, f"{_TABLES}::test_the_boundary_makes_this_difference")
        for title, difference in tables.DIFFERENCES.items()
    } | {
        (title, reason, f"{_TABLES}::test_a_tool_keeps_to_its_place_where_a_host_can_see_to_it")
        for title, (_, _, reason) in tables.A_TOOLS_PLACE.items()
    }
    on_page = set(rows())
    assert by_table <= on_page
    others = on_page - by_table
    assert {(title, test) for title, _, test in others} == set(marked())
    assert all(reason for _, reason, _ in others)
