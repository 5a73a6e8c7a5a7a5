"""The paths that every worker sees, whatever it was granted: interpreter, libraries, and the runtime's packages.

A folder of installed packages is never shown as a whole: modules must not see what else is installed there, least of
all the host's own code. Where the interpreter keeps such a folder inside its standard library, an empty one is laid
over it, which contains only places for the packages of the runtime. At a level without mounts, the library's entries
are named one by one instead. The paths are looked up once for a host.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from paddock.isolation.mount_table import MountTable
from paddock_sources import BuiltinSource

_LIBRARY_FOLDERS: Final = ("/lib64", "/usr/lib64")
_LIBRARY_FOLDERS_ELSEWHERE: Final = ("/lib", "/usr/lib")  # of systems that keep all libraries in one folder
_MAX_LIBRARY_FILES: Final = 32  # of an interpreter outside the system's folders; beyond, its folder as a whole
# The last names the system, which vendors' libraries send to their servers; some fail if it is refused.
_DATA: Final = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/locale", "/etc/os-release")
_INSTALLED: Final = ("site-packages", "dist-packages")
_OWN_PACKAGES: Final = ("paddock", "paddock_sandbox", "paddock_sdk", "paddock_sources")
_OF_PREFIX: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
_SYSTEM_PREFIXES: Final = tuple(map(Path, ("/", "/usr", "/usr/local")))


@dataclass(frozen=True, slots=True)
class RuntimePaths:
    """Where on this machine the runtime of workers is; no path but those of `links` contains a link.

    `code` may be mapped into memory, `data` only read, and `links` are further names that programs know them by.
    `standard_library` are the interpreter's folders, `entries` the contents of those with `hidden` folders of installed
    packages, each with the `cover` to lay over it. `installation` are the paths that no module may change: the
    interpreter and Paddock.
    """

    interpreter: Path
    code: tuple[Path, ...]
    data: tuple[Path, ...]
    links: tuple[tuple[Path, Path], ...]
    standard_library: tuple[Path, ...]
    entries: tuple[Path, ...]
    hidden: tuple[tuple[Path, Path], ...]
    installation: tuple[Path, ...]

    @classmethod
    def locate(cls, interpreter: Path, packages: Iterable[tuple[str, Path]], covers: Path) -> Self:
        """Find all of it, for the base interpreter of this process, which is the one that workers run on.

        `packages` are the runtime's top-level packages, each with the folder it is found in. What is laid over other
        folders is made in `covers`, an empty folder that only the host may write to and that lasts as long as it.
        """
        libraries = [*_system_libraries(), *_libraries_of_interpreter()]
        data = [path for path in map(Path, _DATA) if path.exists()]
        parts = list(_parts_of(packages))
        standard_library = _standard_library()
        hidden = {path: covers / str(number) for number, path in enumerate(_hidden_in(standard_library))}
        real = {path: path.resolve() for path in (interpreter, *libraries, *parts, *data)}
        for path, cover in hidden.items():
            _make_cover(cover, path, dict.fromkeys(real[part] for part in parts))
        return cls(
            interpreter=interpreter,
            code=tuple(dict.fromkeys(real[path] for path in (interpreter, *libraries, *parts))),
            data=tuple(dict.fromkeys(real[path] for path in data)),
            links=tuple((path, real[path]) for path in (*libraries, *data) if path != real[path]),
            standard_library=standard_library,
            entries=tuple(
                path
                for folder in dict.fromkeys(path.parent for path in hidden)
                for path in _entries_of(folder)
                if path not in hidden
            ),
            hidden=tuple(hidden.items()),
            installation=tuple(dict.fromkeys(_installation(standard_library))),
        )

    def show(self, table: MountTable, *, by_mounts: bool, seen: Iterable[Path] = ()) -> None:
        """Show it all to a worker.

        With mounts, which can lie over one another, other installed packages are hidden, unless they are in one of the
        folders that are `seen` anyway. Without, they are not named.
        """
        for path in self.code:
            table.fix(path, mappable=True)
        for path in self.data:
            table.fix(path)
        for link, path in self.links:
            table.fix(path, link, mappable=path in self.code)
        shown = self.standard_library if by_mounts else self._without_hidden()
        for path in shown:
            table.fix(path, mappable=True)
        if by_mounts:
            visible = tuple(seen)
            for path, cover in self.hidden:
                if not any(path.is_relative_to(one) or one.is_relative_to(path) for one in visible):
                    table.fix(cover, path, mappable=True)

    def _without_hidden(self) -> tuple[Path, ...]:
        split = {path.parent for path, _ in self.hidden}
        return (*(folder for folder in self.standard_library if folder not in split), *self.entries)


def _standard_library() -> tuple[Path, ...]:
    # The defaults of `sysconfig` belong, in part, to a virtual environment.
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    base |= {"installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix}
    folders = (sysconfig.get_path(name, vars=base) for name in ("stdlib", "platstdlib"))
    return tuple(dict.fromkeys(Path(folder).resolve() for folder in folders))


def _hidden_in(folders: Iterable[Path]) -> list[Path]:
    paths = (folder / name for folder in folders for name in _INSTALLED)
    return [path for path in paths if path.is_dir() and not path.is_symlink()]


def _entries_of(folder: Path) -> list[Path]:
    """Return what is in a folder, by name, without its links."""
    with os.scandir(folder) as entries:
        return [folder / name for name in sorted(entry.name for entry in entries if not entry.is_symlink())]


def _make_cover(cover: Path, hidden: Path, parts: Iterable[Path]) -> None:
    """Make a folder that shows nothing, with places in it for the parts of the hidden one that are mounted there."""
    cover.mkdir(mode=0o755)
    for part in parts:
        if part.is_relative_to(hidden):
            place = cover / part.relative_to(hidden)
            if part.is_dir():
                place.mkdir(mode=0o755, parents=True)
            else:
                place.touch(mode=0o644)


def _system_libraries() -> list[Path]:
    """Return the system's folders of libraries, as few as possible, under each of their names."""
    several = sysconfig.get_config_var("MULTIARCH") or f"{platform.machine()}-linux-gnu"
    candidates = (*_LIBRARY_FOLDERS, f"/lib/{several}", f"/usr/lib/{several}")
    found = [path for path in map(Path, candidates) if path.is_dir()]
    if not any((path / "libc.so.6").exists() for path in found):
        found += [path for path in map(Path, _LIBRARY_FOLDERS_ELSEWHERE) if path.is_dir()]
    return found


def _libraries_of_interpreter() -> list[Path]:
    """Return the shared libraries that an interpreter outside the system's folders brings along."""
    folder = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib").resolve()
    if not folder.is_dir() or any(folder.is_relative_to(place) for place in map(Path, _LIBRARY_FOLDERS_ELSEWHERE)):
        return []
    files = sorted(path for path in folder.glob("*.so.*") if path.is_file())
    return [folder] if len(files) > _MAX_LIBRARY_FILES else files


def _parts_of(packages: Iterable[tuple[str, Path]]) -> Iterator[Path]:
    """Yield each top-level package or module, and its distribution's metadata where there is any beside it."""
    listed: dict[Path, list[tuple[str, Path]]] = {}
    for name, folder in packages:
        yield from (part for part in (folder / name, folder / f"{name}.py") if part.exists())
        if folder not in listed:
            listed[folder] = list(_distributions_in(folder))
        wanted = _normalised(name)
        yield from (path for distribution, path in listed[folder] if distribution == wanted)


def _distributions_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name of each distribution whose metadata is in the folder, with the path of that."""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".dist-info"):
            yield _normalised(name.removesuffix(".dist-info").rpartition("-")[0]), folder / name


def _normalised(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def _installation(standard_library: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that the host itself runs from: its environment, interpreter, packages and reference modules."""
    # By their parts: an environment may have been made in a folder that holds a person's work as well.
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, sys.base_exec_prefix)):
        if Path(prefix).resolve() not in _SYSTEM_PREFIXES:
            yield from (path.resolve() for path in (Path(prefix) / name for name in _OF_PREFIX) if path.exists())
    yield from standard_library
    for package in _OWN_PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations is not None  # this code is part of them
        yield from (Path(folder).resolve() for folder in spec.submodule_search_locations)
    yield BuiltinSource().folder.resolve()
