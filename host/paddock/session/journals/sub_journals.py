"""The journals of a session's sub-sessions: files in a folder beside the session's own journal, and removed with it.

Each has the form of a session's journal. Modules choose the ids of sub-sessions, so files are named by digests. Only
the host that has the session touches the folder. When another journal begins in it, the oldest beyond a bound go.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from paddock.session.journals.journal_file import JournalFile, Record

_FOLDER: Final = ".sub-sessions"
_SUFFIX: Final = ".journal"
_COUNT_MAX: Final = 256
_BYTES_MAX: Final = 64 << 20  # of all together, when another begins


def place_of(journal: Path, id: str) -> Path:
    """Return where the journal of a sub-session is, or would be, beside that of its first session."""
    return journal.with_suffix(_FOLDER) / f"{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()}{_SUFFIX}"


def opened(journal: Path, id: str, *, is_new: bool) -> tuple[JournalFile, list[Record], Path | None]:
    """Return the journal of a sub-session to write to, its records, and the file with its damaged end.

    Raises:
        JournalError: it cannot be used.
        OSError: it cannot be made or read.
    """
    place = place_of(journal, id)
    if not is_new:
        with suppress(FileNotFoundError):
            return JournalFile.open(place)
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.unlink(missing_ok=True)
    _make_room(place.parent)
    return JournalFile.create(place), [], None


def bytes_of(journal: Path) -> int:
    """Return how many bytes the sub-sessions of a session take."""
    return sum(size for _, size, _ in _files(journal.with_suffix(_FOLDER)))


def remove_all(journal: Path) -> None:
    """Remove the journals of a session's sub-sessions."""
    shutil.rmtree(journal.with_suffix(_FOLDER), ignore_errors=True)


def _make_room(folder: Path) -> None:
    files = sorted(_files(folder))
    taken = sum(size for _, size, _ in files)
    for number, (_, size, path) in enumerate(files):
        if len(files) - number < _COUNT_MAX and taken <= _BYTES_MAX:
            break
        path.unlink(missing_ok=True)
        taken -= size


def _files(folder: Path) -> list[tuple[float, int, Path]]:
    """Return when each file was changed, and its size."""
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                status = path.lstat()
                found.append((status.st_mtime, status.st_size, path))
    return found
