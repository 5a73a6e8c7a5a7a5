"""The files of the stand-in are those of its table, and those that are known to be written by hand."""

from __future__ import annotations

from .reexports import BY_HAND, STAND_IN, rendered, table


def test_files_that_pass_names_on_are_as_the_table_writes_them() -> None:
    written = {path: (STAND_IN / path).read_text(encoding="utf-8") for path in table()}
    assert written == {path: rendered(one) for path, one in table().items()}


def test_no_other_file_is_written_by_hand() -> None:
    there = {path.relative_to(STAND_IN).as_posix() for path in STAND_IN.rglob("*.py")}
    assert there == {*table(), *BY_HAND}
