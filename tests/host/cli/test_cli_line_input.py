"""The lines of stdin where it is no terminal: a pipe, a file, or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from paddock.cli.terminal.line_input import PipedLines


def _all(path: Path) -> list[str]:
    """Return the lines of a file."""

    async def read(descriptor: int) -> list[str]:
        lines, found = PipedLines(descriptor), []
        with anyio.fail_after(60):
            while (line := await lines.line()) is not None:
                found.append(line)
        return found

    with open(path, "rb") as file:
        return anyio.run(read, file.fileno())


async def test_a_pipes_lines_come_as_they_are_complete() -> None:
    reader, writer = os.pipe()
    lines = PipedLines(reader)
    with anyio.fail_after(60):
        os.write(writer, "\ufeffone\r\ntw".encode())
        assert await lines.line() == "one"
        with anyio.move_on_after(0.05):
            raise AssertionError(await lines.line())
        os.write(writer, b"o\n\nlast")
        os.close(writer)
        assert [await lines.line() for _ in range(4)] == ["two", "", "last", None]
    os.close(reader)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\n", ["a", ""]),
        (b"fine\ncaf\xe9\n", ["fine", "caf\ufffd", ""]),
    ],
)
def test_a_file_is_read_to_its_end_and_made_well_formed(tmp_path: Path, content: bytes, found: list[str]) -> None:
    (tmp_path / "input").write_bytes(content)
    assert _all(tmp_path / "input") == found
