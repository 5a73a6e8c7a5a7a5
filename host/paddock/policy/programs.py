"""Find the files of the programs that a plan grants, and all that the kernel needs to start them.

A name is looked up in a fixed list of folders, never in the `PATH` of the user who runs the host. With any program
granted, the module can see the system's own folders, since no program works without its data. But only the files found
here may be executed: the program, the loader or interpreters that the kernel starts with it, and its own folder of
helpers, as `/usr/lib/git-core` is git's. An interpreter that may run can execute any script it can read.
`located_program` finds programs that are granted by their paths.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock.plan.problems import NotAcceptedError
from paddock.policy.executable import loader_of, script_line_of
from paddock.policy.path_walk import GrantedPath
from paddock.text import reason_of
from paddock_sources.similar_names import meant

SEARCH_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")

PROGRAM_FOLDERS: Final = ("bin", "sbin", "shims")
"""Names of folders that contain only programs, and that people have in their `PATH`."""

SYSTEM_FOLDERS: Final = (
    *("/usr", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib"),
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
)
_ACCOUNT_FILES: Final = frozenset({"passwd", "group", "nsswitch.conf"})
_MAX_SCRIPTS: Final = 4  # scripts that name scripts: one fewer than the kernel follows


@dataclass(frozen=True, slots=True)
class Program:
    """A granted program: the file of its name, and `needs`, the files and folders executed along with it.

    For one that was granted by its path, `located` is that path, perhaps a folder, with everything visible because of
    it that is not the system's.
    """

    name: str
    path: Path
    needs: tuple[Path, ...] = ()
    located: tuple[GrantedPath, ...] = ()

    @classmethod
    def find(cls, name: str, search: Iterable[str] = SEARCH_PATH) -> Program:
        """Find a program by its name.

        Raises:
            NotAcceptedError: there is none, or what it needs to be started is missing.
        """
        folders = tuple(search)
        path = look_up(name, folders)
        if path is None:
            hint = meant(name, _names_in(folders), "install it, or leave it out")
            raise NotAcceptedError(f"no program `{name}` in {', '.join(folders)}", hint)
        real = Path(os.path.realpath(path))

        started = started_with(name, real, folders, lambda needed: Path(os.path.realpath(needed)))
        return cls(name, real, tuple(dict.fromkeys([*started, *helpers_of(name, real)])))

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that may be executed because of this grant."""
        return (self.path, *self.needs)

    @property
    def home(self) -> Path:
        """The folder that must be visible for it to start, where that is not a system folder: most need one file."""
        if self.located:
            return self.path
        parts = self.path.parts
        return Path(*parts[:3]) if parts[1] == "opt" and len(parts) > 3 else self.path

    def describe(self) -> str:
        """Return the program as a person is shown it."""
        if self.located:
            text = self.located[0].describe()
            text = f"every program in {text}" if self.located[0].is_directory else text
        else:
            text = str(self.path) if self.path.name == self.name else f"{self.name}, which is {self.path}"
        company = dict.fromkeys([*self.needs, *(one.path for one in self.located[1:])])
        company.pop(self.path, None)
        return f"{text} (with {', '.join(map(str, company))})" if company else text

    @property
    def judged(self) -> tuple[GrantedPath, ...]:
        """The paths that rules judge: the path itself, and everything visible with it outside the system."""
        return (*self.located[:1], *(one for one in self.located[1:] if not is_of_system(one.path)))

    @property
    def folder(self) -> Path | None:
        """The folder to search for its name, if it is in a folder of programs, or is one."""
        if not self.located:
            return None
        place = self.located[0]
        if not place.is_directory:
            return place.spelled.parent if place.spelled.parent.name in PROGRAM_FOLDERS else None
        if place.spelled.name in PROGRAM_FOLDERS:
            return place.spelled
        return next((place.spelled / name for name in PROGRAM_FOLDERS if (place.path / name).is_dir()), None)


def is_of_system(path: Path) -> bool:
    """Return whether a path lies in the system's folders, which every worker with a program sees."""
    return any(path.is_relative_to(folder) for folder in SYSTEM_FOLDERS)


def look_up(name: str, folders: Iterable[str] = SEARCH_PATH) -> str | None:
    """Return the file of a program's name, None if there is none; no similar names are looked for."""
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _names_in(folders: Iterable[str]) -> list[str]:
    names: set[str] = set()
    for folder in folders:
        try:
            names.update(os.listdir(folder))
        except OSError:
            continue
    return sorted(names)


def started_with(
    name: str,
    path: Path,
    folders: tuple[str, ...],
    follow: Callable[[str], Path],
) -> Iterator[Path]:
    """Yield the interpreters of a script, one after the other, and the loader of the binary at the end.

    `follow` returns the real path of each; a program for `env` is looked up in `folders`.

    Raises:
        NotAcceptedError: one is missing, or `follow` raised it.
    """

    def found(needed: str) -> Path:
        if not (os.path.isabs(needed) and os.path.isfile(needed)):
            raise NotAcceptedError(f"program `{name}` is started by `{needed}`, which is not there", "install it again")
        # As the kernel requires it: a first line could otherwise name any file, and make it visible.
        if not os.access(needed, os.X_OK):
            raise NotAcceptedError(f"program `{name}` is started by `{needed}`, which may not be executed")
        return follow(needed)

    for _ in range(_MAX_SCRIPTS):
        try:
            line, loader = script_line_of(path), loader_of(path)
        except OSError as error:
            raise NotAcceptedError(f"program `{name}` cannot be read: `{path}`: {reason_of(error)}") from error
        if loader is not None:
            yield found(loader)
        if not line:
            return
        path = found(line[0])
        yield path
        asked_for = None
        if os.path.basename(line[0]) == "env":  # the word past its options and variables
            asked_for = next((word for word in line[1:] if not word.startswith("-") and "=" not in word), None)
        if asked_for is not None:
            if (loader := loader_of(path)) is not None:
                yield found(loader)
            there = look_up(asked_for, folders)
            if there is None:
                raise NotAcceptedError(f"program `{name}` is a script for `{asked_for}`, which is not there")
            path = follow(there)
            yield path
    raise NotAcceptedError(f"program `{name}` is a script whose interpreter is a script, and so on without end")


def helpers_of(name: str, path: Path) -> Iterator[Path]:
    """Yield a program's own folders of helpers, by its name."""
    for folder in ("lib", "libexec"):
        for own in (name, f"{name}-core"):
            helpers = path.parent.parent / folder / own
            if helpers.is_dir() and not helpers.is_symlink():
                yield Path(os.path.realpath(helpers))


def configuration_of(programs: Iterable[Program] | None) -> Iterator[Path]:
    """Yield the files of `/etc` that programs need once it exists: accounts, and files named after the program.

    For workers without an `/etc` of their own. Only single files, and only those that everybody may read.
    """
    prefixes = (
        ("",)
        if programs is None
        else tuple(os.path.basename(program.name) or program.path.name for program in programs)
    )
    for path in sorted(Path("/etc").iterdir()):
        info = path.lstat()
        if stat.S_ISREG(info.st_mode) and info.st_mode & stat.S_IROTH:
            if path.name in _ACCOUNT_FILES or path.name.startswith(prefixes):
                yield path
