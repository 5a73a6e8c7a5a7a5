"""Give a module the packages it needs in the way a person without an installer does: laid beside its own code."""

from __future__ import annotations

import shutil
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement


def lay_beside(root: Path, *names: str) -> None:
    """Copy installed distributions, and all that they require, into the folder that a module is imported from."""
    for name in _closure(names):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if not file.parts[0].startswith("..")}:
            source, target = Path(str(found.locate_file(top))), root / top
            if target.exists() or top == "__pycache__":
                continue
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile
                )
            else:
                shutil.copyfile(source, target)


def _closure(names: tuple[str, ...]) -> list[str]:
    """Return these distributions and, without their extras, all that they need here."""
    wanted, waiting = dict.fromkeys(()), list(names)
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        wanted[name] = None
        for written in distribution(name).requires or ():
            requirement = Requirement(written)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return list(wanted)
