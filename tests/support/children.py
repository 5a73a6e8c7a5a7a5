"""The processes below this one, as the kernel lists them, which is far cheaper than to look at all processes."""

from __future__ import annotations

import os
from pathlib import Path


def children_of_this_process() -> set[int]:
    return _children_of("self")


def descendants_of_this_process() -> set[int]:
    return descendants_of("self")


def descendants_of(pid: int | str) -> set[int]:
    found = unseen = _children_of(pid)
    while unseen:
        unseen = {child for one in unseen for child in _children_of(one)} - found
        found = found | unseen
    return found


def _children_of(pid: int | str) -> set[int]:
    children: set[int] = set()
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children.update(map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()))
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ended meanwhile
    return children
