"""Read `[tool.paddock]` of a module's `pyproject.toml` as data; the module's author wrote it, and it grants nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from paddock_sources.bounded_toml import TomlError, read_toml
from paddock_sources.errors import ManifestError
from paddock_sources.tree import SourceTree

_MAX_BYTES: Final = 256 * 1024


def read_paddock_table(root: Path) -> Mapping[str, Any]:
    """Return the table of the module in the folder `root`; it is empty where the file or the table is missing.

    Raises:
        ManifestError: the file cannot be read as TOML, or has something else in the table's place.
    """
    tree = SourceTree(root)
    content = tree.read("pyproject.toml", limit_bytes=_MAX_BYTES)
    if content is None:
        return {}
    path = tree.root / "pyproject.toml"
    try:
        table: Any = read_toml(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ManifestError(path, "it is not UTF-8 text") from error
    except TomlError as error:
        raise ManifestError(path, f"it is {error.problem}") from error
    for key in ("tool", "paddock"):
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise ManifestError(path, f"`{key}` is not a table")
    found: Mapping[str, Any] = table
    return found
