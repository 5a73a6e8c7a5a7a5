"""Memory that the machine has used once, before anything is measured.

A virtual machine may get a page from its host only when it first uses it. That takes longer than any later use, and
whichever row came upon such a page would pay for it: many modules would seem to cost twice as much each as few.
"""

from __future__ import annotations

import mmap
from typing import Final

import psutil

_MOST: Final = 6 << 30  # half more than 400 modules take side by side
_SHARE: Final = 2  # at most half of what is available
_PIECE: Final = b"\1" * (1 << 20)


def use_memory_once() -> None:
    """Write to as much memory as the measurements will take, and give it back."""
    size = min(_MOST, psutil.virtual_memory().available // _SHARE)
    own = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, max(size, len(_PIECE)), flags=own) as memory:
        for _ in range(size // len(_PIECE)):
            memory.write(_PIECE)
