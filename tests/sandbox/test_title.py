"""A title is cut to the room there is, and holds no character that acts on a terminal."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from paddock_sandbox import title
from support.rows import each_row

_TITLED = """
import sys
sys.path.insert(0, sys.argv[1])
from paddock_sandbox.title import set_title
set_title({given}, {given})
print([open("/proc/self/" + name, "rb").read() for name in ("cmdline", "comm")])
"""


@each_row(
    ("given", "shown"),
    [
        ("'tool-x [98d5]'", b"tool-x [98d5]"),
        (r"'we\x1b[31m\u202e\n\0ird'", b"we?[31m???ird"),
        ("'x' * 3000", b"x" * 3000),
    ],
)
def test_the_command_line_and_the_short_name_are_replaced(given: str, shown: bytes) -> None:
    code = _TITLED.format(given=given)
    command = [sys.executable, "-I", "-S", "-c", code, str(Path(title.__file__).parents[1])]
    room = sum(len(word.encode()) + 1 for word in command) - 2
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    line, name = ast.literal_eval(done.stdout)
    assert line.rstrip(b"\0") == (b"paddock: " + shown)[:room]
    assert name == shown[:15] + b"\n"
