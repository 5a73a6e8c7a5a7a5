"""Watch how much a module keeps in a folder that no file system bounds, in files with or without a name.

Once a second a thread counts the folder, without following a link. It also counts files that were unlinked and that the
module's processes still hold open. So a module may exceed its quota by as much as it writes in a second. A folder that
cannot be counted three times in a row counts as over the quota. This file knows nothing of modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio.to_thread

from paddock.plan.units import size_text
from paddock.workers.exit_report import LimitHit
from paddock.workers.limits.process_tree import ProcessTree
from paddock.workers.limits.unlinked_files import Unlinked, UnlinkedFiles
from paddock.workers.limits.watchdog import Clock
from paddock.workers.process import ModuleProcess

_INTERVAL: Final = 1.0  # seconds from one count to the next
_MAX_FILES: Final = 100_000  # that are counted; each also takes room of the file system that no size shows
_BLOCK_BYTES: Final = 512  # the unit of `st_blocks`, independent of the file system's own blocks
_DOUBTS: Final = 3  # counts in a row: descriptors that are sent to a process are on their way for a moment


class FolderQuota:
    """At most `most` bytes in `folder`; each count that finds more calls `on_exceeded` with the result.

    A file counts if it has a name in the folder, independent of its owner, or if it has none and the
    tree of the `process` that runs at the time has it open.
    """

    def __init__(
        self,
        folder: Path,
        most: int,
        process: Callable[[], ModuleProcess | None],
        on_exceeded: Callable[[LimitHit], None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._folder = folder
        self._most = most
        self._process = process
        self._on_exceeded = on_exceeded
        self._clock = clock or Clock()
        self._unlinked = UnlinkedFiles(folder)
        self._doubts = 0

    async def run(self) -> None:
        """Count until cancelled."""
        while True:
            process = self._process()
            root = None if process is None else process.init_pid
            # Abandoned when cancelled: a file system that does not answer does not delay the caller.
            counted = await anyio.to_thread.run_sync(self._count, root, abandon_on_cancel=True)
            # The counts of one process do not apply to the next.
            if process is self._process():
                self._judge(counted)
            await self._clock.sleep(_INTERVAL)

    def _count(self, root: int | None) -> Unlinked:
        named = held_bytes(self._folder, self._most)
        if root is None or named > self._most:
            return Unlinked(named)
        try:
            reading = ProcessTree(root).read()
            found = self._unlinked.held_by(reading.pids, self._most - named) if reading is not None else Unlinked()
        except ProcessLookupError:
            return Unlinked(named)
        except OSError:
            return Unlinked(named, hidden=True)
        is_complete = reading is None or reading.is_complete
        return Unlinked(named + found.held, hidden=found.hidden or not is_complete)

    def _judge(self, counted: Unlinked) -> None:
        self._doubts = self._doubts + 1 if counted.hidden else 0
        if counted.held > self._most:
            self._exceeded(size_text(counted.held))
        elif self._doubts >= _DOUBTS:
            self._exceeded("files that cannot be counted")

    def _exceeded(self, observed: str) -> None:
        self._doubts = 0
        self._on_exceeded(LimitHit("tmp_max", self._most, observed, "folder count"))


def held_bytes(folder: Path, most: int) -> int:
    """Return how many bytes the files in a folder take; counting stops beyond `most`.

    A file that disappears meanwhile does not count. A folder that cannot be looked into could hold any amount, and too
    many files take room that no size shows: both count as more than `most`.
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
