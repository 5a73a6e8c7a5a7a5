"""Perform one attack as a program of its own, with nothing in its way: `python -I -S -c … <this folder's folder>`.

Reads the attack's name and arguments as one line of JSON from stdin and writes what came of it as another to stdout,
where the attack's own output does not go.
"""

from __future__ import annotations

import json
import os
import sys

from .performance import perform

__all__ = ["main"]


def main() -> None:
    """Do it, and end at once, or as programs end if the order says `and_end`."""
    order = json.loads(sys.stdin.readline())
    answer = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    told = json.dumps(perform(order["name"], order["arguments"])) + "\n"
    os.write(answer, told.encode())
    if not order["and_end"]:
        os._exit(0)
