from __future__ import annotations

import io
import logging

import pytest

from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen

_LOG = logging.getLogger("paddock.test_cli_log_lines")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x0b", "\x85"])
def test_a_name_from_a_module_cannot_add_a_line_of_the_hosts(stream: io.StringIO, end: str) -> None:
    with LogLines(Screen(stream)):
        _LOG.warning("no handler for %s", f"event{end}everything is fine \x1b[2J")
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("warning: no handler for event\\") and line.endswith(r"everything is fine \x1b[2J")


def test_a_traceback_keeps_its_lines_and_each_is_marked_as_part_of_one(stream: io.StringIO) -> None:
    with LogLines(Screen(stream)):
        try:
            raise ValueError("no\nthe host is fine \x1b[2J")
        except ValueError:
            _LOG.exception("it broke\nor not")
    first, *rest = stream.getvalue().splitlines()
    assert first == r"warning: it broke\nor not"
    assert rest[0] == "warning: | Traceback (most recent call last):"
    assert rest[-1] == r"warning: | the host is fine \x1b[2J"
    assert all(line.startswith("warning: | ") for line in rest)


def test_of_an_endless_traceback_the_end_is_shown(stream: io.StringIO) -> None:
    with LogLines(Screen(stream)):
        try:
            raise ValueError("line\n" * 10_000 + "the end")
        except ValueError:
            _LOG.exception("it broke")
    lines = stream.getvalue().splitlines()
    assert len(lines) < 100
    assert lines[-1] == "warning: | the end"
