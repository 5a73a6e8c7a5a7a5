"""Find the files that a module left in its private folder, which goes with the module.

The worker looks at its own end. The host looks where a worker was killed, and the folder is one of the host's.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

_MAX_ENTRIES: Final = 2000  # of the private folder that are looked at
_MAX_DEPTH: Final = 16
_MAX_LEFT: Final = 8
_PASSING: Final = re.compile(r"tmp[.\w-]{6,}|\.cache|__pycache__|\.-.*")  # `.-tmp` is its /tmp


def left_in(folder: str) -> list[str]:
    """Return the files that are left in `folder`; of several below one name, the innermost folder that has all of them.

    Temporary files and caches are left out: their loss costs nothing but time. The search is bounded, follows no links,
    and raises nothing.
    """
    left: dict[str, str] = {}
    for path in _files(folder):
        top = os.path.relpath(path, folder).partition(os.sep)[0]
        left[top] = os.path.commonpath((left[top], path)) if top in left else path
    return list(left.values())[:_MAX_LEFT]


def _files(top: str) -> Iterator[str]:
    folders, looked_at = [(top, 0)], 0
    while folders:
        folder, depth = folders.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                looked_at += 1
                if looked_at > _MAX_ENTRIES:
                    return
                if _PASSING.fullmatch(entry.name):
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISREG(mode):
                    yield entry.path
                elif stat.S_ISDIR(mode) and depth < _MAX_DEPTH:
                    folders.append((entry.path, depth + 1))
