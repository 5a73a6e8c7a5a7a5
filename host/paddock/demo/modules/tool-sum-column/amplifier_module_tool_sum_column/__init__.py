"""Mount `sum_column`: add up one column of several CSV files, and append the sums to a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from amplifier_core.models import ToolResult

__all__ = ["SumColumn", "mount"]
__amplifier_module_type__ = "tool"


class SumColumn:
    """Exact sums: decimal, as written in the files."""

    name = "sum_column"
    description = "Add up a column of CSV files, append the sums to a file as a table, and return the total."
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "files": {"type": "array", "items": {"type": "string"}},
            "column": {"type": "string"},
            "append_to": {"type": "string"},
        },
        "required": ["files", "column", "append_to"],
    }

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return the total as text."""
        try:
            return ToolResult(output=_add_up(input["files"], input["column"], input["append_to"]))
        except (OSError, KeyError, InvalidOperation) as error:
            return ToolResult(success=False, error={"type": type(error).__name__, "message": f"cannot add up: {error}"})


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool; it has no settings."""
    await coordinator.mount("tools", SumColumn())


def _add_up(files: Iterable[str], column: str, append_to: str) -> str:
    sums = {name: _sum(Path(name), column) for name in files}
    total = sum(sums.values(), Decimal(0))
    with Path(append_to).open("a", encoding="utf-8") as file:
        file.writelines(_table(sums, total))
    return str(total)


def _sum(path: Path, column: str) -> Decimal:
    with path.open(encoding="utf-8", newline="") as file:
        return sum((Decimal(row[column]) for row in csv.DictReader(file)), Decimal(0))


def _table(sums: Mapping[str, Decimal], total: Decimal) -> Iterable[str]:
    yield "| file | sum |\n|---|---:|\n"
    for name, value in sums.items():
        yield f"| {name} | {value} |\n"
    yield f"| **total** | **{total}** |\n"
