"""Watch how much lies in a folder that a module fills and no file system bounds.

Once a second, in a thread, the folder is counted, without following a link. So a module may get beyond its quota by as
much as it writes in a second. Knows nothing of modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio.to_thread

from paddock.plan.units import size_text
from paddock.process.clock import Clock, SystemClock
from paddock.process.exit_report import LimitHit

_INTERVAL: Final = 1.0  # seconds from one count to the next
_MAX_FILES: Final = 100_000  # that are counted; each also takes room of the file system that no size tells
_BLOCK_BYTES: Final = 512  # what `st_blocks` counts in, whatever the file system's own blocks are


class FolderQuota:
    """At most `most` bytes in `folder`; `on_exceeded` is called with what was found, at each count that finds more."""

    def __init__(
        self, folder: Path, most: int, on_exceeded: Callable[[LimitHit], None], *, clock: Clock | None = None
    ) -> None:
        self._folder = folder
        self._most = most
        self._on_exceeded = on_exceeded
        self._clock = clock or SystemClock()

    async def run(self) -> None:
        """Count until cancelled."""
        while True:
            held = await anyio.to_thread.run_sync(held_bytes, self._folder, self._most)
            if held > self._most:
                self._on_exceeded(LimitHit("tmp_max", size_text(self._most), size_text(held), "folder count"))
            await self._clock.sleep(_INTERVAL)


def held_bytes(folder: Path, most: int) -> int:
    """Return how many bytes the files in a folder take, counted no further than beyond `most`.

    What disappears meanwhile does not count. A folder that nobody may look into could hold anything, and more files
    than anybody needs take room that no size tells: both are more than `most`.
    """
    held = files = 0
    waiting = [os.fspath(folder)]
    while waiting and held <= most:
        try:
            with os.scandir(waiting.pop()) as found:
                for item in found:
                    files += 1
                    if item.is_dir(follow_symlinks=False):
                        waiting.append(item.path)
                    held += item.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return max(held, most + 1)
        if files > _MAX_FILES:
            return max(held, most + 1)
    return held
