"""The page of differences names what tests show to differ, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from integration.semantics import test_differences as tables

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "sdk/docs/differences.md"
_TABLES = "tests/integration/semantics/test_differences.py"
_GETS = {
    # By the outcome of what a tool tries.
    "RefusedError": "RefusedError",
    "ValueError": "ValueError",
    "TypeError": "TypeError",
    "unheard": "`continue`; the event is dropped",
    "kept": "no change",
    "left": "no cleanup before the session ends",
}


def rows(columns: int) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each line of the page's tables that have so many columns, without their heads."""
    for table in _PAGE.read_text().split("\n\n"):
        if table.startswith("| ") and table.partition("\n")[0].count(" | ") == columns - 1:
            for line in table.splitlines()[2:]:
                cells = tuple(cell.strip() for cell in line.strip("|").split(" | "))
                assert len(cells) == columns and all(cells), line
                yield cells


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
    named_test = [cells for cells in rows(4) if "::" in cells[3]]
    assert sorted((title, test.strip("`")) for title, *_, test in named_test) == sorted(marked())
    between_workers = [cells for cells in rows(4) if "::" not in cells[3]]
    assert between_workers == [
        (act, difference.under_paddock, difference.in_the_published, difference.reason)
        for act, difference in tables.DIFFERENCES.items()
    ]
    assert list(rows(3)) == [(act, _GETS[across], reason) for act, (_, across, reason) in tables.A_TOOLS_PLACE.items()]
    for test in (
        tables.test_the_boundary_makes_this_difference,
        tables.test_a_tool_keeps_to_its_place_where_a_host_can_see_to_it,
    ):
        assert f"`{_TABLES}::{test.__name__}`" in _PAGE.read_text()
