"""Import a module from a path, a package or a single file, and restore the process afterwards.

A validator imports code that another module of the same name may follow, or has preceded. While `own_imports` lasts the
package has its name to itself; afterwards the names and the import path are as before. The package's dependencies from
elsewhere stay imported: other code may use them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


def name_of(package: Path) -> str:
    """Return the name that the package in a folder, or the module in a file, is imported by."""
    return package.stem if package.is_file() else package.name


@contextmanager
def own_imports(package: Path) -> Iterator[None]:
    """Make the package at this path importable by its name, for as long as this lasts."""
    folder, own = package.parent, name_of(package)
    shadowed = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_part(name, own)}
    imported, searched = set(sys.modules), set(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        sys.path[:] = [
            entry for entry in sys.path if entry in searched or not Path(entry).absolute().is_relative_to(folder)
        ]
        # Modules beside the package were found only because of the path, unless they could be found before.
        reach = None if str(folder) in searched else folder
        for name in [name for name in sys.modules if name not in imported]:
            if _is_part(name, own) or (reach is not None and _lies_in(sys.modules[name], reach)):
                del sys.modules[name]
        sys.modules.update(shadowed)


def import_package(package: Path) -> ModuleType:
    """Import the package in a folder, or the module in a file, and return it; exceptions of its code propagate.

    Raises:
        ImportError: the path holds neither.
    """
    name, code = name_of(package), _code_of(package)
    if not code.is_file() or code.suffix != ".py":
        raise ImportError(_no_package(package), path=str(package))
    importlib.invalidate_caches()
    parts = [str(package)] if package.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, code, submodule_search_locations=parts)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    # A package may put another module in its place.
    return sys.modules.get(name, module)


def import_module_from_path(module_path: str | Path) -> ModuleType:
    """Return the module at a path by its name; one that was imported from there before is reused.

    It stays imported; the import path is not changed.

    Raises:
        ImportError: it does not exist, or its name, or one below it, belongs to a module from elsewhere.
    """
    package = Path(module_path).resolve()
    name, code = name_of(package), _code_of(package)
    if not code.is_file():
        raise ImportError(_no_package(package), path=str(package))
    for other in [other for other in list(sys.modules) if _is_part(other, name)]:
        if not _comes_from(sys.modules[other], code if other == name else package):
            found = getattr(sys.modules[other], "__file__", None)
            raise ImportError(f"`{other}` is imported from {found}, so `{name}` in {package} cannot be", name=name)
    path = list(sys.path)
    sys.path.insert(0, str(package.parent))
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(name)
    finally:
        sys.path[:] = path
    if not _comes_from(module, code):
        raise ImportError(f"Python found `{name}` in {getattr(module, '__file__', None)}, not in {package}", name=name)
    return module


def _code_of(package: Path) -> Path:
    return package if package.is_file() else package / "__init__.py"


def _comes_from(module: ModuleType, place: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).resolve().is_relative_to(place)


def _no_package(package: Path) -> str:
    if not package.exists():
        return f"{package} does not exist"
    if not package.is_dir():
        return f"{package} is no Python file; give the folder of the package, the one with the `__init__.py`"
    inside = sorted(code.parent for code in package.glob("amplifier_*/__init__.py"))
    hint = f": give {inside[0]}" if inside else "; give the folder of the package, the one with the `__init__.py`"
    return f"{package} has no `__init__.py`{hint}"


def _is_part(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _lies_in(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).is_relative_to(folder)
