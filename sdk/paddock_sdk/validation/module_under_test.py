"""Find the module that a test is about: the one around its file, or the one that was named.

A module's repository is a folder named `amplifier-module-<type>-<name>` with a package `amplifier_...` in it. If it has
several, a test is about the one that it imports. Nothing is imported here: the type comes from the declaration in the
package's source, or from the name.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_DECLARATION: Final = "__amplifier_module_type__"

_TYPE_BY_WORD: Final = {
    "provider": "provider",
    "tool": "tool",
    "hook": "hook",
    "hooks": "hook",
    "loop": "orchestrator",
    "orchestrator": "orchestrator",
    "context": "context",
}


@dataclass(frozen=True, slots=True)
class ModuleUnderTest:
    """The package of a module, and its type, None if that is unknown."""

    package: Path
    type: str | None

    @classmethod
    def at(cls, path: Path) -> ModuleUnderTest:
        """Return the module at a path that the user named: its package, or its repository."""
        path = path.resolve()
        package = path if (path / "__init__.py").is_file() else _package_in(path) or path
        return cls(package, _declared_type(package) or _type_by_name(package.name) or _type_by_name(path.name))

    @classmethod
    def around(cls, path: Path) -> ModuleUnderTest | None:
        """Return the module whose repository holds this path, None outside one."""
        path = path.resolve()
        for folder in (path, *path.parents):
            if folder.name.startswith("amplifier-module-"):
                package = _package_in(folder, path)
                if package is not None:
                    return cls(package, _declared_type(package) or _type_by_name(folder.name))
        return None


def _package_in(folder: Path, test: Path | None = None) -> Path | None:
    packages = [code.parent for code in sorted(folder.glob("amplifier_*/__init__.py"))]
    if len(packages) > 1 and test is not None and test.is_file():
        statements = _parsed(test).body
        whole = {alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names}
        parts = {node.module or "" for node in statements if isinstance(node, ast.ImportFrom)}
        names = {name.partition(".")[0] for name in whole | parts}
        return next((package for package in packages if package.name in names), packages[0])
    return next(iter(packages), None)


def _type_by_name(name: str) -> str | None:
    """Return the type in `amplifier-module-<type>-<name>`, spelled as a folder or as a package."""
    found = re.match(r"amplifier[-_]module[-_]([a-z]+)", name)
    return None if found is None else _TYPE_BY_WORD.get(found[1])


def _declared_type(package: Path) -> str | None:
    for node in _parsed(package / "__init__.py").body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == _DECLARATION and isinstance(node.value.value, str):
                    return node.value.value
    return None


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # importing it will raise the reason
        return ast.Module([], [])
