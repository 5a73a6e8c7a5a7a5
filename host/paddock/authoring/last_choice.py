"""What was chosen the last time for a trial of a folder, kept for whoever tries it again without a network.

A file of the user's own for each folder and purpose, out of the author's way and of any module's reach. It is a
convenience: one that cannot be read or written is as good as none.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from paddock.audit import state_folder
from paddock_sources import SourceError
from paddock_sources.lock.lock_file import LockedModule, LockFile

_FOLDER: Final = "trials"
_DIGITS: Final = 32

_log = logging.getLogger(__name__)


class LastChoice:
    """The choice that is kept in `file`, of nothing where there is none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    @classmethod
    def of(cls, root: Path, purpose: str, environ: Mapping[str, str]) -> Self:
        """Return the one for trials of that purpose, of the folder `root`, by the user who has `environ`."""
        name = hashlib.sha256(f"{purpose}\n{root}".encode()).hexdigest()[:_DIGITS]
        try:
            folder = state_folder(environ) / _FOLDER
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            _log.debug("nothing is remembered of trials: %s", error)
            return cls(None)
        return cls(folder / f"{name}.lock")

    def read(self, source: str) -> LockedModule | None:
        """Return what was chosen."""
        try:
            return None if self._file is None else LockFile.read(self._file).get(source)
        except SourceError:
            return None

    def write(self, chosen: LockedModule) -> None:
        """Remember a choice in place of the one before."""
        if self._file is None:
            return
        try:
            LockFile().with_modules([chosen]).write(self._file)
        except SourceError as error:
            _log.debug("what was chosen is not remembered: %s", error)
