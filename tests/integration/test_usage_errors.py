"""A command line that is not understood ends with 2, says how commands are used, and does nothing."""

from __future__ import annotations

import pytest

from integration.command_line import paddock

pytestmark = pytest.mark.usefixtures("commands_end")


# More are in the frozen `usage`, `a_session` and `calls_that_do_not_start`.
_MISTAKES = [
    [],
    ["call", "tool-filesystem", "read_file", '{"n": NaN}'],
    ["call", "tool-filesystem", "read_file", "[" * 100_000],
    ["call", "tool-filesystem", "read_file", "--allow-all=x"],
    ["doctor", "everything"],
    ["run", "plan.yaml", "  "],
]
_TOOL = ("call", "tool-filesystem", "read_file")
_READ = """write '{"file_path": "x"}'"""
_HINTS = [
    ([*_TOOL, "{file_path: x}"], _READ),
    ([*_TOOL, "{file_path:", "x}"], _READ),  # as a shell leaves `{"file_path": "x"}` without quotes around it
    ([*_TOOL, "file_path=x"], _READ),
    ([*_TOOL, "x"], "write an object, as in"),
    ([*_TOOL, "--limit", "memory_max=512"], "`512` is too little for a module (write 8M or more)"),
    (["run", ""], "the prompt is empty; add one: `paddock run plan.yaml hello`"),
    (["run", "plan.yaml", "What", "changed"], "the prompt is one argument: `paddock run plan.yaml 'What changed'`"),
    (["module", "test", ".", "-k", "deny"], "one for pytest comes behind `--`, as in `-- -k`"),
]


def test_a_command_that_is_not_understood_is_a_usage_error() -> None:
    for args, hint in [*((args, "Usage: paddock") for args in _MISTAKES), *_HINTS]:
        done = paddock(*args)
        assert (done.returncode, done.stdout) == (2, ""), args
        assert "Usage: paddock" in done.stderr and hint in done.stderr, args
