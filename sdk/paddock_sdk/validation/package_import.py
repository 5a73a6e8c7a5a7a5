"""Import a package from where it lies, and leave the process as if that had never happened.

A validator imports code that another module of the same name may follow, or has preceded. While `own_imports` lasts
the package has its name to itself; afterwards the names and the import path are what they were. What the package
brought in from elsewhere, its dependencies, stays imported: they are not ours to pull from under anyone.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

__all__ = ["import_package", "own_imports"]


@contextmanager
def own_imports(package: Path) -> Iterator[None]:
    """Let the package at this path be imported by its name, for as long as this lasts."""
    folder = package.parent
    shadowed = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_part(name, package.name)}
    imported, searched = set(sys.modules), set(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        _forget_paths(folder, searched)
        # What lies beside the package was found only because of the path, unless it could be found before.
        reach = None if str(folder) in searched else folder
        for name in [name for name in sys.modules if name not in imported]:
            if _is_part(name, package.name) or (reach is not None and _lies_in(sys.modules[name], reach)):
                del sys.modules[name]
        sys.modules.update(shadowed)


def import_package(package: Path) -> ModuleType:
    """Return the package at this path, imported now; what its code raises is raised.

    Raises:
        ImportError: there is no package.
    """
    code = package / "__init__.py"
    if not code.is_file():
        raise ImportError(_no_package(package), path=str(package))
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(package.name, code, submodule_search_locations=[str(package)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[package.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(package.name, None)
        raise
    # A package may put another module in its place.
    return sys.modules.get(package.name, module)


def _no_package(package: Path) -> str:
    if not package.exists():
        return f"{package} does not exist"
    if not package.is_dir():
        return f"{package} is no folder; give the folder of the package, the one with the `__init__.py`"
    inside = sorted(code.parent for code in package.glob("amplifier_*/__init__.py"))
    hint = f": give {inside[0]}" if inside else "; give the folder of the package, the one with the `__init__.py`"
    return f"{package} has no `__init__.py`{hint}"


def _forget_paths(folder: Path, searched: set[str]) -> None:
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.path[:] = [
        entry for entry in sys.path if entry in searched or not Path(entry).absolute().is_relative_to(folder)
    ]


def _is_part(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _lies_in(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).is_relative_to(folder)
