"""A command line that is not understood ends with 2, says how commands are used, and does nothing."""

from __future__ import annotations

import pytest

from integration.command_line import paddock

pytestmark = pytest.mark.usefixtures("commands_end")


_MISTAKES = [
    [],
    ["call"],
    ["call", "tool-filesystem", "read_file", "{not json"],
    ["call", "tool-filesystem", "read_file", "[]"],
    ["call", "tool-filesystem", "read_file", '{"n": NaN}'],
    ["call", "tool-filesystem", "read_file", "[" * 100_000],
    ["call", "tool-filesystem", "read_file", "--limit", "runtime_max"],
    ["call", "tool-filesystem", "read_file", "--limit", "runtime_max=soon"],
    ["call", "tool-filesystem", "read_file", "--limit", "runtim_max=1s"],
    ["call", "tool-filesystem", "read_file", "--limit", "memory_max=lots"],
    ["call", "tool-filesystem", "read_file", "--isolation", "strong"],
    ["call", "tool-filesystem", "read_file", "--allow-read="],
    ["call", "tool-filesystem", "read_file", "--allow-env=1A"],
    ["call", "tool-filesystem", "read_file", "--allow-net=*"],
    ["call", "tool-filesystem", "read_file", "--allow-net=https://example.com/"],
    ["call", "tool-filesystem", "read_file", "--allow-all=x"],
    ["call", "tool-filesystem", "read_file", "--trust-plan"],
    ["run", "plan.yaml", "prompt", "--isolation", "strong"],
    ["run", "plan.yaml", "prompt", "--allow-read=."],
    ["run", "plan.yaml", "prompt", "--grant", "tool-filesystem"],
    ["run", "plan.yaml", "prompt", "--grant", "tool-filesystem=everything"],
    ["doctor", "everything"],
    ["selftest", "--isolation", "strong"],
    ["run", "plan.yaml", "prompt", "-C", "/nowhere/at/all"],
    ["run", "plan.yaml", "  "],
    ["nonsense"],
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
