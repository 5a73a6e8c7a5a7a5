"""Write a new module's project in the community's layout: it validates and passes its own tests as it is.

No existing file is changed: the project's folder must not exist yet, and a project that could not be written completely
is removed again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final

from paddock.authoring.module_name import ModuleName
from paddock.errors import KindError

_SUFFIX: Final = ".template"
_SHARED: Final = "shared"
_PACKAGE: Final = "package"  # the folder of a template that stands for the module's package


@dataclass(frozen=True, slots=True)
class Project:
    """A written project; `files` are relative to `folder`."""

    name: ModuleName
    folder: Path
    files: tuple[str, ...]


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
            folder, "there is something of that name already", hint="choose another name, or another folder: `--path`"
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


def _not_written(folder: Path, problem: str, *, hint: str = "") -> KindError:
    """Return the error for a project that cannot be written to `folder`."""
    summary = f"no project was written to `{folder}`: {problem}"
    return KindError("ProjectError", summary, hints=[hint] if hint else ())


def _write(name: ModuleName, folder: Path) -> Iterator[str]:
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
            (folder / target).parent.mkdir(exist_ok=True)
            (folder / target).write_text(_filled(text, values), encoding="utf-8")
            yield target


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


def _filled(text: str, values: Mapping[str, str]) -> str:
    return Template(text).substitute(values)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
