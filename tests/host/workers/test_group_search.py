"""The search for control groups, which a command makes while it loads itself: once, and over before the command is."""

from __future__ import annotations

import subprocess
import sys

# A process of its own: the search is made once in each.
_PROGRAM = """
import threading
from paddock_sandbox.cgroup import CgroupHome

begun, may_end, made = threading.Event(), threading.Event(), []

def find():
    begun.set()
    assert may_end.wait(100)
    made.append(CgroupHome())
    return made[-1]

CgroupHome.find = find
from paddock.workers.group_search import find_groups, searching

with searching():
    assert begun.wait(100) and not made  # this thread goes on meanwhile
    may_end.set()
    if {asks!r}:
        assert find_groups() is made[0] is find_groups()
print(len(made))
"""


def test_groups_are_searched_once_while_a_command_loads() -> None:
    for asks in (True, False):
        program = [sys.executable, "-c", _PROGRAM.format(asks=asks)]
        answer = subprocess.run(program, capture_output=True, text=True, timeout=200)
        assert (answer.stdout, answer.stderr) == ("1\n", "")
