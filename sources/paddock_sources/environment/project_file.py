"""The project file of a source tree, as data and under a cap; what it requires is read elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock_sources.bounded_toml import TomlError, read_toml
from paddock_sources.environment.errors import RequirementsError
from paddock_sources.errors import ManifestError
from paddock_sources.tree import SourceTree

MAX_PYPROJECT_BYTES = 256 * 1024


def read_project(tree_root: Path) -> Mapping[str, Any]:
    """Return the `project` table of the tree's `pyproject.toml`; an empty one where there is none.

    Raises:
        RequirementsError: the file cannot be read as data.
    """
    return project_in(read_project_file(tree_root), tree_root / "pyproject.toml")


def read_project_file(tree_root: Path) -> Mapping[str, Any]:
    """Return the tree's `pyproject.toml`; empty where there is none.

    Raises:
        RequirementsError: the file cannot be read as data.
    """
    path = tree_root / "pyproject.toml"
    try:
        content = SourceTree(tree_root).read("pyproject.toml", limit_bytes=MAX_PYPROJECT_BYTES)
        return read_toml(content or b"")
    except ManifestError as error:
        raise RequirementsError(path, error.problem) from error
    except TomlError as error:
        raise RequirementsError(path, f"it is {error.problem}") from error


def project_in(document: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return the `project` table of a document that was read from `path`.

    Raises:
        RequirementsError: it is no table.
    """
    project = document.get("project", {})
    if not isinstance(project, dict):
        raise RequirementsError(path, "`project` is not a table")
    return project


def wheel_packages(tree_root: Path) -> tuple[str, ...]:
    """Return the packages that the tree's `pyproject.toml` has hatch put into a wheel, each as a path in the tree.

    Raises:
        RequirementsError: the file cannot be read as data.
    """
    table: Any = read_project_file(tree_root)
    for key in ("tool", "hatch", "build", "targets", "wheel", "packages"):
        table = table.get(key) if isinstance(table, dict) else None
    return tuple(one for one in table if isinstance(one, str)) if isinstance(table, list) else ()
