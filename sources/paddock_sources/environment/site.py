"""A folder of installed packages, checked as untrusted.

It may hold only read-only code. Scripts for people are removed. So are files that an interpreter would run when it
starts. Anything that is neither file nor folder is refused.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.errors import SourceError

MAX_FILES = 100_000  # of packages; a site may have twice as many, as each may have a compiled one beside it
MAX_BYTES = 8 << 30  # machine learning comes in gigabytes
_MAX_DEPTH = 64
_LEFT_OUT = ("bin", "Scripts")  # at the top; below that they are a package's own
_RUN_AT_START = ("sitecustomize", "usercustomize")  # an interpreter imports them wherever its path has them
_INFO = re.compile(r"(.+?)-([^-]+)\.dist-info")


def clean_site(site: Path, *, max_files: int = 2 * MAX_FILES, max_bytes: int = MAX_BYTES) -> None:
    """Remove from a fresh site what no worker may have or needs.

    No other process may write to it any more.

    Raises:
        SourceError: it holds something that no package may hold, or too much.
    """
    from paddock_sources.cache.errors import UnsafeTreeError
    from paddock_sources.cache.tree_names import TreeNames

    files, size, names = 0, 0, TreeNames()
    for path, status in _entries(site):
        shown = path.relative_to(site).as_posix()
        if not shown.isprintable() or "\\" in shown:
            raise _unsafe(shown, "has a character in its name that no file of a package needs")
        if stat.S_ISDIR(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _unsafe(shown, "is neither a file nor a folder")
        if status.st_nlink != 1:
            raise _unsafe(shown, "is one file with another name elsewhere")
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            raise _unsafe(shown, "would be run with another user's rights")
        try:
            names.admit(shown)
        except UnsafeTreeError as error:
            raise _unsafe(shown, f"cannot be kept: {error.problem}") from None
        files, size = files + 1, size + status.st_size
        if files > max_files:
            raise _unsafe(shown, f"is one file too many: a module may need {max_files}")
        if size > max_bytes:
            raise _unsafe(shown, f"is too large: all that a module needs may be {max_bytes >> 20} MiB")
    for name in os.listdir(site):
        if name in _LEFT_OUT or name.lower().endswith(".pth") or name.partition(".")[0] in _RUN_AT_START:
            shutil.rmtree(site / name) if (site / name).is_dir() else (site / name).unlink()


def check_distributions(site: Path, locked: Iterable[LockedDistribution]) -> None:
    """Check that a site holds exactly the distributions that were to be installed.

    Raises:
        SourceError: one is missing, of another version, or extra.
    """
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    wanted = {(one.name, Version(one.version)) for one in locked}
    for found in sorted(os.listdir(site)):
        match = _INFO.fullmatch(found)
        if match is None:
            continue
        try:
            wanted.remove((canonicalize_name(match[1]), Version(match[2])))
        except (KeyError, InvalidVersion):
            raise _unsafe(found, "was not asked for") from None
    if wanted:
        name, version = min(wanted)
        raise _unsafe(f"{name}=={version}", "is missing from it")


def _entries(folder: Path, depth: int = 0) -> Iterator[tuple[Path, os.stat_result]]:
    if depth > _MAX_DEPTH:
        raise _unsafe(folder.name, "is too many folders deep")
    with os.scandir(folder) as entries:
        for entry in entries:
            yield Path(entry.path), entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(Path(entry.path), depth + 1)


def _unsafe(path: str, problem: str) -> SourceError:
    """Return the error for installed packages that hold something that no package may hold."""
    hints = ["report it to the package's publisher; nothing of it was kept"]
    summary = f"what was installed is not safe to use: `{path}` {problem}"
    return SourceError(summary, code="UnsafeSiteError", hints=hints)
