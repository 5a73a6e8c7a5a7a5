"""Write a new module in the community's layout, which validates and passes its own tests as it is.

It gets a project of its own, whose folder must not exist yet; or it becomes a further module of a project that holds
some, whose project file is the only existing file that is changed. What could not be written completely is removed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, Final

from paddock.authoring.module_name import ModuleName
from paddock.errors import KindError
from paddock_sources import SourceError
from paddock_sources.manifest.read import HeldModules
from paddock_sources.module_id import PACKAGE_PREFIX

_SUFFIX: Final = ".template"
_SHARED: Final = "shared"
_PACKAGE: Final = "package"  # the folder of a template that stands for the module's package
_PROJECT_FILE: Final = "pyproject.toml"
_GROUP: Final = '[project.entry-points."amplifier.modules"]'
_HEADER: Final = re.compile(r"""\[ *project *\. *entry-points *\. *(["'])amplifier\.modules\1 *\]""")


@dataclass(frozen=True, slots=True)
class Project:
    """A project with a new module; `files`, relative to `folder`, were written or changed."""

    name: ModuleName
    folder: Path
    files: tuple[str, ...]


def write_module(name: ModuleName, parent: Path) -> Project:
    """Write a new module to the project `parent`, if that holds modules; else to a project of its own in `parent`.

    Raises:
        KindError: there is such a module already, or it cannot be written.
    """
    try:
        held = HeldModules.read(parent)
    except SourceError as error:
        raise _not_written(parent, error.summary) from error
    return _add(name, parent, held) if held.entry_points else write_project(name, parent)


def write_project(name: ModuleName, parent: Path) -> Project:
    """Write the project of a new module to a folder of its own in `parent`.

    Raises:
        KindError: the folder exists already, or cannot be written.
    """
    folder = parent / name.folder
    try:
        folder.mkdir()
    except FileExistsError:
        raise _not_written(
            folder,
            "there is something of that name already",
            hint="choose another name, or another folder: `--path DIR`",
        ) from None
    except OSError as error:
        raise _not_written(folder, _reason(error)) from error
    try:
        files = tuple(sorted(_write(name, folder)))
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise _not_written(folder, _reason(error)) from error
        raise
    return Project(name, folder, files)


def _add(name: ModuleName, folder: Path, held: HeldModules) -> Project:
    """Write a package and its tests to a project, and its entry point to the project file."""
    if name.module_id in held.entry_points:
        raise _not_written(folder, f"it holds a module `{name.module_id}` already", hint="choose another name")
    try:
        place = held.manifest(next(iter(held.entry_points))).import_root.relative_to(held.tree.root)
    except SourceError as error:
        raise _not_written(folder, error.summary) from error
    package = place / name.package
    test = Path("tests") / f"test_{name.package.removeprefix(PACKAGE_PREFIX)}.py"
    written: list[Path] = []
    try:
        (folder / package).mkdir()
        written.append(package)
        for path, text in _texts(name):
            if path.startswith("tests/"):
                (folder / test.parent).mkdir(exist_ok=True)
                with (folder / test).open("x", encoding="utf-8") as file:
                    written.append(test)
                    file.write(text)
            elif path.startswith(f"{name.package}/"):
                (folder / place / path).write_text(text, encoding="utf-8")
        declaring = _declaring(name, folder, package)
        (folder / _PROJECT_FILE).write_text(declaring, encoding="utf-8")
    except BaseException as error:
        for one in written:
            shutil.rmtree(folder / one) if (folder / one).is_dir() else (folder / one).unlink()
        if isinstance(error, FileExistsError):
            problem = f"there is `{Path(error.filename).relative_to(folder)}` already"
            raise _not_written(folder, problem, hint="choose another name") from error
        if isinstance(error, OSError):
            raise _not_written(folder, _reason(error)) from error
        raise
    files = (path.relative_to(folder).as_posix() for path in (folder / package).iterdir())
    return Project(name, folder, (*sorted(files), _PROJECT_FILE, test.as_posix()))


def _declaring(name: ModuleName, folder: Path, package: Path) -> str:
    """Return the project's file that also has the module's entry point and, if it lists packages, its package."""
    import tomlkit  # `module new` alone needs it
    from tomlkit.exceptions import TOMLKitError

    lines = (folder / _PROJECT_FILE).read_text(encoding="utf-8").splitlines()
    header = next((number for number, line in enumerate(lines) if _HEADER.match(line.strip())), None)
    if header is None:
        lines += ["", _GROUP]
        header = len(lines) - 1
    end = header + 1
    while end < len(lines) and lines[end].strip() and not lines[end].lstrip().startswith(("[", "#")):
        end += 1
    declared = f'{name.module_id} = "{name.package}:mount"'
    lines.insert(end, declared)
    try:
        document = tomlkit.parse("\n".join(lines) + "\n")
    except TOMLKitError as error:  # such as a table of groups on one line
        problem = f"its `{_PROJECT_FILE}` has no table for `{declared}`"
        raise _not_written(folder, problem, hint=f"begin one: `{_GROUP}`") from error
    wheel: Any = document.get("tool", {}).get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    if isinstance(wheel.get("packages"), list):
        wheel["packages"].append(package.as_posix())
    return tomlkit.dumps(document)


def _not_written(folder: Path, problem: str, *, hint: str = "") -> KindError:
    """Return the error for a project that cannot be written to `folder`."""
    summary = f"no project was written to `{folder}`: {problem}"
    return KindError("ProjectError", summary, hints=[hint] if hint else ())


def _write(name: ModuleName, folder: Path) -> Iterator[str]:
    for path, text in _texts(name):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        yield path


def _texts(name: ModuleName) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of a module's project."""
    values = {
        "module_id": name.module_id,
        "package": name.package,
        "distribution": name.folder,
        "identifier": name.identifier,
        "class_name": name.class_name,
    }
    for room in (_SHARED, name.kind):
        for path, text in _templates(room):
            target = path.replace(f"{_PACKAGE}/", f"{name.package}/", 1).removesuffix(_SUFFIX)
            yield target, Template(text).substitute(values)


def _templates(room: str) -> Iterator[tuple[str, str]]:
    root = resources.files(__package__) / "templates" / room
    waiting = [("", root)]
    while waiting:
        prefix, folder = waiting.pop()
        for entry in folder.iterdir():
            if entry.is_dir():
                waiting.append((f"{prefix}{entry.name}/", entry))
            elif entry.name.endswith(_SUFFIX):
                yield prefix + entry.name, entry.read_text(encoding="utf-8")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
