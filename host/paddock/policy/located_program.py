"""Find programs that a plan grants by their paths, and all that each needs from outside the system's folders.

A path is followed once, as any granted path is, and so is each thing that the program needs: interpreters, shared
libraries, and the folders of the installation it belongs to. Known installations are `PREFIX/bin` with its libraries,
virtual environments with the Python they were made from, and the shims of version managers with the versions they
choose from. A folder stands for every program in it.

A program's statement of its needs may come with a repository, so each need is checked: an interpreter may be executed,
a library is a binary, the base of an environment is a Python, and the parts of an installation lie in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from paddock.plan.problems import NotAcceptedError
from paddock.policy.executable import is_binary, libraries_of, loader_of, open_plain_file
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from paddock.policy.programs import PROGRAM_FOLDERS, SEARCH_PATH, Program, helpers_of, is_of_system, started_with
from paddock.text import reason_of

_Read = TypeVar("_Read")

_MAX_LIBRARIES: Final = 64
_MAX_CONFIG_BYTES: Final = 1 << 16
_ENVIRONMENTS: Final = (".venv", "venv")
_ENVIRONMENT_FILE: Final = "pyvenv.cfg"
_OF_ENVIRONMENT: Final = ("bin", "lib", "lib64", _ENVIRONMENT_FILE)
_OF_INSTALLATION: Final = ("lib", "lib64", "libexec", "conf")  # `share` is left out: in `~/.local` it holds keyrings
_OF_PYTHON: Final = ("lib", "lib64", "libexec")
_LEADS_TO: Final = {"rustup": (".rustup", False), "volta-shim": ("tools", True)}
"""By the file that a shim executes: the folder of versions, below the home, or beside the shims' own folder."""


def locate(written: str, working_dir: Path, owner: Owner) -> Program:
    """Find the program, or the folder of programs, at a path.

    Raises:
        NotAcceptedError: it cannot be executed, a file that it needs is missing, or another user could replace either.
    """
    return _Search(written, working_dir, owner).find()


def paths_of(family: str, written: str, working_dir: Path, owner: Owner) -> tuple[GrantedPath, ...]:
    """Return the paths of a grant; for a program, with all that it needs from outside the system's folders.

    Raises:
        NotAcceptedError: it cannot be granted.
    """
    if family == "run":
        return locate(written, working_dir, owner).judged
    return (GrantedPath.resolve(written, working_dir, owner),)


def environments_in(folders: Iterable[Path], working_dir: Path, owner: Owner) -> Iterator[Program]:
    """Yield the Python of each virtual environment that lies directly in one of these folders, if it can run."""
    for folder in folders:
        for name in _ENVIRONMENTS:
            python = folder / name / "bin" / "python"
            if (folder / name / _ENVIRONMENT_FILE).is_file() and python.is_file():
                try:
                    yield locate(_written(python, working_dir), working_dir, owner)
                except NotAcceptedError:
                    continue  # the grant does not name it


def brings_python_alone(program: Program, folders: Iterable[Path]) -> bool:
    """Return whether the program needs, beyond these folders, only files of one Python or another.

    An environment names its own base, and a person who granted every program has not read that.
    """
    granted = tuple(folders)
    outside = [one for one in program.judged if not any(one.path.is_relative_to(folder) for folder in granted)]
    is_python = program.path not in (one.path for one in outside) or _is_python(program.path.parent.parent)
    return is_python and all(_is_part_of_python(one) for one in outside)


def _is_part_of_python(place: GrantedPath) -> bool:
    if not place.is_directory and is_binary(place.path):
        return True  # the interpreter, or a library that a file names
    return any(one.name in _OF_PYTHON and _is_python(one.parent) for one in (place.path, *place.path.parents))


def _is_python(prefix: Path) -> bool:
    """Return whether a folder holds a Python, by the landmark file of the standard library that Python itself uses."""
    return any(any((prefix / library).glob("py*/os.py")) for library in ("lib", "lib64"))


def _written(path: Path, working_dir: Path) -> str:
    return str(path.relative_to(working_dir)) if path.is_relative_to(working_dir) else str(path)


class _Search:
    """The program at one path, and its needs as found so far."""

    def __init__(self, written: str, working_dir: Path, owner: Owner) -> None:
        self._written = written
        self._working_dir = working_dir
        self._owner = owner
        self._located: dict[Path, GrantedPath] = {}  # by the name they were looked for
        self._executed: dict[Path, None] = {}
        self._prefixes: set[Path] = set()

    def find(self) -> Program:
        granted = GrantedPath.resolve(self._written, self._working_dir, self._owner)
        self._note(granted)
        if granted.is_directory:
            self._add_folder(granted)
        else:
            self._add_program(granted)
        return Program(self._written, granted.path, tuple(self._executed), tuple(self._located.values()))

    def _add_folder(self, granted: GrantedPath) -> None:
        loader = loader_of(Path(sys.executable).resolve())
        if loader is not None:
            self._executed[Path(os.path.realpath(loader))] = None
        if granted.path.name in PROGRAM_FOLDERS:
            self._add_installation(granted.spelled / "program")
        inside = (granted.path, *(granted.path / name for name in _ENVIRONMENTS))
        around = granted.path.parent if granted.path.name == "bin" else granted.path
        for prefix in (around, *inside):
            python = prefix / "bin" / "python"
            if (prefix / _ENVIRONMENT_FILE).is_file() and python.is_file() and os.access(python, os.X_OK):
                self._executed[self._follow_file(str(python))] = None

    def _add_program(self, granted: GrantedPath) -> None:
        if not os.access(granted.path, os.X_OK):
            raise NotAcceptedError(f"`{self._written}` is no program: it may not be executed", "chmod +x it")
        self._add_file(granted)
        folders = (*self._folders(), *SEARCH_PATH)
        for path in started_with(self._written, granted.path, folders, self._follow_file):
            self._executed[path] = None
        for helpers in helpers_of(granted.path.name, granted.path):
            self._executed[self._follow(str(helpers)).path] = None

    def _folders(self) -> Iterator[str]:
        """Yield the folders that `#!/usr/bin/env` searches first: beside the program, as in the module's `PATH`."""
        folder = Program(self._written, Path(), (), tuple(self._located.values())).folder
        if folder is not None:
            yield str(folder)

    def _follow(self, needed: str) -> GrantedPath:
        known = self._located.get(Path(needed))
        if known is not None:
            return known
        try:
            granted = GrantedPath.resolve(needed, self._working_dir, self._owner)
        except NotAcceptedError as error:
            raise NotAcceptedError(f"program `{self._written}`: {error.problem}", error.accepted) from None
        if not (is_of_system(granted.path) and is_of_system(granted.spelled)):
            self._note(granted)
        return granted

    def _note(self, granted: GrantedPath) -> None:
        try:
            stranger = None if granted.is_directory else self._owner.stranger_writing(granted.path.stat())
        except OSError as error:
            raise NotAcceptedError(f"program `{self._written}`: `{granted.path}`: {reason_of(error)}") from error
        if stranger is not None:
            raise NotAcceptedError(
                f"program `{self._written}`: somebody else could change `{granted.path}`: {stranger}",
                "make it yours alone: chown, chmod go-w",
            )
        self._located[granted.spelled] = granted

    def _follow_file(self, needed: str) -> Path:
        granted = self._follow(needed)
        self._add_file(granted)
        return granted.path

    def _add_file(self, granted: GrantedPath) -> None:
        """Add what an executed file needs, by each of its names."""
        for name in dict.fromkeys((granted.spelled, *granted.others, granted.path)):
            if not is_of_system(name):
                self._add_installation(name)
                self._add_versions(name, granted.path)
        if not is_of_system(granted.path):
            self._add_libraries(granted)

    def _add_installation(self, name: Path) -> None:
        prefix = name.parent.parent
        if name.parent.name not in PROGRAM_FOLDERS or prefix in self._prefixes:
            return
        self._prefixes.add(prefix)
        configuration = prefix / _ENVIRONMENT_FILE
        if configuration.is_file():
            self._add_parts(prefix, _OF_ENVIRONMENT)
            base = self._read(_base_of, configuration)
            if base is not None and base.name in PROGRAM_FOLDERS and _is_python(base.parent):
                self._add_prefix(base.parent)
        else:
            self._add_prefix(prefix)

    def _add_prefix(self, prefix: Path) -> None:
        if self._is_shared(prefix):
            return
        self._add_parts(prefix, _OF_INSTALLATION)
        if (libexec := prefix / "libexec") in self._located:
            self._executed[self._located[libexec].path] = None

    def _add_parts(self, prefix: Path, names: Iterable[str]) -> None:
        if is_of_system(prefix):
            return
        inside = Path(os.path.realpath(prefix))
        for part in (prefix / name for name in names):
            if part.exists() and Path(os.path.realpath(part)).is_relative_to(inside):
                self._follow(str(part))

    def _add_versions(self, name: Path, real: Path) -> None:
        """Add the versions behind a version manager's shim: a manager that runs reads all of them."""
        root = name.parent.parent
        if name.parent.name == "shims" and not self._is_shared(root):
            self._executed[self._follow(str(root)).path] = None
        folder, is_beside = _LEADS_TO.get(real.name, ("", False))
        versions = (root if is_beside else self._owner.home) / folder
        if folder and versions.is_dir():
            self._executed[self._follow(str(versions)).path] = None

    def _is_shared(self, prefix: Path) -> bool:
        """Whether a folder holds a person's work, so that it is no installation although it has a `bin`."""
        real = Path(os.path.realpath(prefix))
        return any(
            Path(os.path.realpath(place)).is_relative_to(real) for place in (self._owner.home, self._working_dir)
        )

    def _add_libraries(self, binary: GrantedPath) -> None:
        """Add libraries that a binary and its libraries name, under each name that the loader may look for."""
        origins = dict.fromkeys(name.parent for name in (binary.path, binary.spelled, *binary.others))
        pending, seen = [binary.path], set[str]()
        while pending:
            found = self._read(libraries_of, pending.pop())
            for name in found.names:
                files = [folder / name for origin in origins for folder in found.folders_from(origin)]
                there = next((file for file in files if file.is_file() and is_binary(file)), None)
                if name in seen or there is None:
                    continue
                seen.add(name)
                if len(seen) > _MAX_LIBRARIES:
                    raise NotAcceptedError(
                        f"program `{self._written}` needs more than {_MAX_LIBRARIES} libraries of its own",
                        "grant the folder of its installation, as in `~/tool/`",
                    )
                library = self._follow(str(there))
                pending.append(library.path)
                origins[library.path.parent] = None
                if library.spelled in self._located:
                    others = dict.fromkeys((*library.others, *files))
                    self._located[library.spelled] = replace(library, others=tuple(others))

    def _read(self, read: Callable[[Path], _Read], file: Path) -> _Read:
        try:
            return read(file)
        except OSError as error:
            raise NotAcceptedError(f"program `{self._written}`: `{file}` cannot be read: {reason_of(error)}") from error


def _base_of(configuration: Path) -> Path | None:
    """Return the folder of the Python that a virtual environment was made from."""
    with open_plain_file(configuration) as file:
        text = os.fsdecode(file.read(_MAX_CONFIG_BYTES))
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home" and os.path.isabs(value.strip()) and "\0" not in value:
            return Path(value.strip())
    return None
