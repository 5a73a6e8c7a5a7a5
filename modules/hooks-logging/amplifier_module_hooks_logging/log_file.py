"""Append lines to a file that appears with its first line.

Every line is one write of its own: what was logged survives a crash of the process, and sessions may share a file.
Only its owner can read a file made here, for conversations are private.
"""

from __future__ import annotations

import os
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class LogFile:
    """An append-only file, opened when needed."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def append(self, path: Path, line: bytes) -> None:
        """Write one line; the path counts only until the file is open.

        Raises:
            OSError: the file cannot be opened or written; the next line tries again.
        """
        if self._descriptor is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, _FLAGS, 0o600)
        try:
            while line:  # a nearly full disk takes part of a line
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            self._release()
            raise

    def close(self) -> None:
        """Bring what was written to the disk and close the file.

        Raises:
            OSError: the disk refused; the file is closed all the same.
        """
        if self._descriptor is None:
            return
        try:
            os.fsync(self._descriptor)
        finally:
            self._release()

    def _release(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)
