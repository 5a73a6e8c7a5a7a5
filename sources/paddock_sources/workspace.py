"""A user's folder of the modules being worked on, each in a folder named by its id.

A folder counts only if it has Python in it: an empty one, such as a submodule before its checkout, counts as absent.
Only names are read.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paddock_sources.errors import ManifestError
from paddock_sources.resolution import NoAnswer
from paddock_sources.uri import FolderUri

_MAX_ENTRIES: Final = 2000  # looked at in one module's folder; its package is at the top, or below `src`
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "venv"})  # and all names that start with a dot


def find_in_workspace(workspace: Path, module_id: str) -> FolderUri | NoAnswer:
    """Return the folder of a module, or the reason why it has none.

    Raises:
        ManifestError: it cannot be looked into.
    """
    folder = workspace / module_id
    try:
        names = os.listdir(folder)
        if _has_python(folder):
            real = folder.resolve()
            return FolderUri(str(real), real)
    except FileNotFoundError:
        return NoAnswer(f"there is no `{folder if workspace.is_dir() else workspace}`")
    except NotADirectoryError:
        return NoAnswer(f"`{folder}` is not a folder")
    except OSError as error:
        raise ManifestError(folder, (error.strerror or str(error)).lower()) from error
    if not names or names == [".git"]:
        return NoAnswer(f"`{folder}` is empty (a submodule that is not checked out: `git submodule update --init`)")
    return NoAnswer(f"there is no Python in `{folder}`")


def _has_python(folder: Path) -> bool:
    looked_at = 0
    for entry in _entries(folder):
        looked_at += 1
        if entry.name.endswith(".py") and entry.is_file():
            return True
        if looked_at == _MAX_ENTRIES:
            break
    return False


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder and below, the nearest first; links to folders are not followed."""
    waiting = deque([os.fspath(folder)])
    while waiting:
        with os.scandir(waiting.popleft()) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.name not in _SKIPPED:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    yield entry
