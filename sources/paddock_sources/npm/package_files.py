"""What npm chose, and what an installed package says of itself: the two files are untrusted, and read with bounds.

Of each package in the `package-lock.json` that npm wrote, only its place, version and sha512 are taken. One that these
do not pin is refused by name: a repository, a folder, what is bundled in another package, what comes from elsewhere.
The `package.json` of a package names its programs, and the scripts of its installation.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from paddock_sources.environment.index import Index
from paddock_sources.errors import SourceError
from paddock_sources.kinds.npm_name import NPM_NAME, NPM_VERSION, is_npm_path
from paddock_sources.lock.locked_module import LockedDependency
from paddock_sources.tree import SourceTree

MAX_PACKAGES: Final = 2000

_INTEGRITY: Final = re.compile(r"(?<!\S)sha512-([A-Za-z0-9+/]{86}==)(?!\S)")
_ARCHITECTURES: Final = {"x86_64": "x64", "aarch64": "arm64", "armv7l": "arm"}
_PACKAGE_JSON: Final = "package.json"
_MAX_BYTES: Final = 1 << 20
_MAX_PROGRAMS: Final = 200
_SCRIPTS: Final = ("preinstall", "install", "postinstall")
_BUILD: Final = "binding.gyp"  # npm builds a package with such a file, where it has no script of its own


def this_machine() -> Mapping[str, str]:
    """Return this machine in npm's words, by the keys under which packages say where they run."""
    machine = platform.machine()
    libc = "glibc" if platform.libc_ver()[0] == "glibc" else "musl"
    return {
        "os": "linux",
        "cpu": _ARCHITECTURES.get(machine, machine),
        "libc": libc,
    }


def read_package_lock(
    content: bytes,
    registry: Index,
    machine: Mapping[str, str],
) -> tuple[LockedDependency, ...]:
    """Return the packages by their paths, without optional ones for other machines.

    Raises:
        SourceError: the file is not understood, or one of the packages is refused.
    """
    packages = parsed(content, "package-lock.json").get("packages")
    if not isinstance(packages, dict) or len(packages) > MAX_PACKAGES:
        raise refused("package-lock.json", f"it names no packages, or more than {MAX_PACKAGES}")
    rows = []
    for path, facts in sorted(packages.items()):
        known = facts if isinstance(facts, dict) else {}
        # npm itself refuses what is needed, and does not run here.
        is_for_here = all(_is_listed(value, known.get(key)) for key, value in machine.items())
        if path and (is_for_here or not known.get("optional")):
            rows.append(_row(path, known, registry))
    return tuple(rows)


def parsed(content: bytes, shown: str) -> Mapping[str, Any]:
    """Return the object that is written in JSON.

    Raises:
        SourceError: it is none.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise refused(shown, "it is no object in JSON")
    return found


def refused(name: str, problem: str) -> SourceError:
    """Return the error for a package, or a file of npm, that is not taken."""
    return SourceError(
        f"`{name[:300]}` of npm is refused: {problem}",
        code="NpmPackageError",
    )


def _row(
    path: str,
    facts: Mapping[str, Any],
    registry: Index,
) -> LockedDependency:
    name = str(facts.get("name", path.rpartition("node_modules/")[2]))
    version = str(facts.get("version"))
    origin = str(facts.get("resolved", registry.url))
    if not registry.serves(origin):
        raise refused(path, f"it comes from `{origin[:300]}`, and not from the registry")
    digest = _INTEGRITY.search(str(facts.get("integrity")))
    is_named = NPM_NAME.fullmatch(name) and NPM_VERSION.fullmatch(version)
    if digest is None or not is_named or not is_npm_path(path):
        raise refused(path, "it is bundled, a folder, or without a version and a sha512 at the registry")
    sha512 = base64.b64decode(digest[1]).hex()
    return LockedDependency(
        name,
        version,
        (f"sha512:{sha512}",),
        path=path,
    )


def _is_listed(value: str, listed: object) -> bool:
    """Return whether a list of npm's has a value: each is one that fits, or with a `!` one that does not."""
    written = listed if isinstance(listed, list) else [listed or "any"]
    wanted = [one for one in written if not str(one).startswith("!")]
    return f"!{value}" not in written and (value in wanted or wanted in ([], ["any"]))


# -- of an installed package -----------------------------------------------------------------


def scripts(root: Path, packages: Iterable[LockedDependency]) -> Iterator[str]:
    """Yield each package in the tree `root` of which npm would run something, with what that is.

    Raises:
        SourceError: a file is not understood.
    """
    for package in packages:
        written = _package_json(root, package).get("scripts")
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
    named = _package_json(root, package).get("bin") or {}
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


def _package_json(root: Path, package: LockedDependency) -> Mapping[str, Any]:
    content = b""
    # The tree is one of the cache's, without links: the names on the way to each of a hundred files need no look.
    with suppress(OSError), open(f"{root}/{package.path}/{_PACKAGE_JSON}", "rb") as file:
        content = file.read(_MAX_BYTES)
    return parsed(content, f"{package.path}/{_PACKAGE_JSON}")
