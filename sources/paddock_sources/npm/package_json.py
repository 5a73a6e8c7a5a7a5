"""What the `package.json` of an installed package says: its programs, and the scripts of its installation.

The files are untrusted: they are read as data, with bounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from paddock_sources.lock.locked_module import LockedDependency
from paddock_sources.npm.package_lock import parsed, refused
from paddock_sources.tree import SourceTree

_NAME: Final = "package.json"
_MAX_BYTES: Final = 1 << 20
_MAX_PROGRAMS: Final = 200
_SCRIPTS: Final = ("preinstall", "install", "postinstall")
_BUILD: Final = "binding.gyp"  # npm builds a package with such a file, where it has no script of its own


def scripts(root: Path, packages: Iterable[LockedDependency]) -> Iterator[str]:
    """Yield each package in the tree `root` of which npm would run something, with what that is.

    Raises:
        SourceError: a file is not understood.
    """
    for package in packages:
        written = _read(root, package).get("scripts")
        found = []
        if isinstance(written, dict):
            found += [name for name in _SCRIPTS if written.get(name)]
        if os.path.exists(f"{root}/{package.path}/{_BUILD}"):
            found.append(_BUILD)
        if found:
            yield f"{package.name} {package.version} ({', '.join(found)})"


def programs(root: Path, package: LockedDependency) -> Mapping[str, Path]:
    """Return the programs of a package in the tree `root`, by their names.

    Raises:
        SourceError: one is no file in the package, or what it says of them is not understood.
    """
    named = _read(root, package).get("bin") or {}
    if isinstance(named, str):
        named = {package.name.rpartition("/")[2]: named}
    if not isinstance(named, dict) or len(named) > _MAX_PROGRAMS:
        raise refused(package.path, "its `bin` names no programs, or too many")
    tree = SourceTree(root / package.path)
    found: dict[str, Path] = {}
    for name, written in named.items():
        path = tree.find(written) if isinstance(written, str) else None
        if path is None or not path.is_file():
            raise refused(package.path, "a program in its `bin` is no file in the package")
        found[name] = path
    return found


def _read(root: Path, package: LockedDependency) -> Mapping[str, Any]:
    content = b""
    # The tree is one of the cache's, without links: the names on the way to each of a hundred files need no look.
    with suppress(OSError), open(f"{root}/{package.path}/{_NAME}", "rb") as file:
        content = file.read(_MAX_BYTES)
    return parsed(content, f"{package.path}/{_NAME}")
