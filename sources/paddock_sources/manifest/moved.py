"""Find the folder that holds a module now, where the folder that an address names holds none.

A project may have taken in the module of a former folder. Project files are read as data, and only so many of them: the
folders may be a stranger's. A project that cannot be read is passed over.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from paddock_sources.errors import SourceError
from paddock_sources.manifest.read import HeldModules, id_of_name, names_module

_MAX_DEPTH: Final = 4  # of folders in a repository; `modules/x` is the usual place
_MAX_ENTRIES: Final = 10_000  # looked at
_MAX_PROJECTS: Final = 200  # looked into
_MAX_READ: Final = 5  # as projects, of those that name the module anywhere


def moved_within(top: Path, subdirectory: str) -> str | None:
    """Return the folder below `top` that declares the module which `subdirectory` is named for, relative to `top`."""
    found = _holder(top, id_of_name(subdirectory), _MAX_DEPTH)
    return None if found is None else str(found.relative_to(top))


def hints_beside(folder: Path) -> tuple[str, ...]:
    """Return the hint for a user's folder that is missing, or no project, if one beside it declares its module."""
    if os.path.exists(folder / "pyproject.toml"):
        return ()
    around = next((place for place in folder.absolute().parents if os.path.isdir(place)), folder)
    module_id = id_of_name(folder.name)
    found = _holder(around, module_id, 1)
    return () if found is None else (f"module `{module_id}` is in another folder: `{found}`",)


@contextmanager
def telling_where_it_is(folder: Path) -> Iterator[None]:
    """Add that hint to a `SourceError` about a user's folder."""
    try:
        yield
    except SourceError as error:
        error.add_hints(hints_beside(folder))
        raise


def _holder(top: Path, module_id: str, depth: int) -> Path | None:
    """Return the project that declares a module by an entry point, the nearest below `top`; links are not followed."""
    entries = projects = read = 0
    waiting = deque([(top, 0)])
    while waiting:
        folder, level = waiting.popleft()
        try:
            names = sorted(entry.name for entry in _entries(folder) if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
        for name in names:
            entries += 1
            place = folder / name
            if os.path.isfile(place / "pyproject.toml"):  # unlike a path's method, False where it may not be known
                projects += 1
                declares = _declares(place, module_id)
                read += declares is not None
                if declares:
                    return place
            if entries >= _MAX_ENTRIES or projects >= _MAX_PROJECTS or read >= _MAX_READ:
                return None
            if level + 1 < depth and not name.startswith("."):
                waiting.append((place, level + 1))
    return None


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == _MAX_ENTRIES:
                return
            yield entry


def _declares(folder: Path, module_id: str) -> bool | None:
    """Return whether a project declares a module; None where that is known without parsing it."""
    try:
        return module_id in HeldModules.read(folder).entry_points if names_module(folder, module_id) else None
    except SourceError:
        return False
