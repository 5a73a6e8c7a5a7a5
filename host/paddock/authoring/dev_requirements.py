"""What a project's tests need besides the project: what its own file says of that, and the programs that run them.

Read as data, under caps: the extras and the dependency groups (PEP 735) that developers install.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from paddock.authoring.provided import Needs
from paddock_sources.bounded_toml import read_toml
from paddock_sources.environment.errors import RequirementsError
from paddock_sources.environment.requirements import MAX_PYPROJECT_BYTES, normalised
from paddock_sources.errors import ManifestError
from paddock_sources.tree import SourceTree

RUNNERS: Final = ("pytest", "pytest-asyncio")

_FOR_DEVELOPERS: Final = frozenset({"dev", "test", "tests", "testing"})
_MAX_REQUIREMENTS: Final = 1000
_NAME: Final = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")


def dev_requirements(root: Path) -> Needs:
    """Return what the tests of the project in the folder `root` need.

    Raises:
        RequirementsError: its file cannot be read, or a group is none.
    """
    path = root / "pyproject.toml"
    document = _document(root, path)
    project = document.get("project", {})
    optional = project.get("optional-dependencies", {}) if isinstance(project, dict) else {}
    extras = [name for name in optional if normalised(name) in _FOR_DEVELOPERS] if isinstance(optional, dict) else []
    groups = document.get("dependency-groups", {})
    if not isinstance(groups, dict):
        raise RequirementsError(path, "`dependency-groups` is not a table")
    by_name = {normalised(name): group for name, group in groups.items()}
    named = [line for name in by_name if name in _FOR_DEVELOPERS for line in _group(by_name, name, path, ())]
    if len(named) > _MAX_REQUIREMENTS:
        raise RequirementsError(path, f"its dependency groups have more than {_MAX_REQUIREMENTS} entries")
    return Needs(tuple(extras), tuple(dict.fromkeys((*named, *RUNNERS))))


def _document(root: Path, path: Path) -> Mapping[str, Any]:
    try:
        content = SourceTree(root).read("pyproject.toml", limit_bytes=MAX_PYPROJECT_BYTES)
        return read_toml((content or b"").decode("utf-8"))
    except ManifestError as error:
        raise RequirementsError(path, error.problem) from error
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise RequirementsError(path, f"it is not TOML: {error}") from error


def _group(groups: Mapping[str, Any], name: str, path: Path, inside: tuple[str, ...]) -> Iterator[str]:
    """Yield the requirements of a group, and of those that it includes."""
    group = groups.get(name)
    if not isinstance(group, list):
        raise RequirementsError(path, f"there is no dependency group `{name}`")
    if name in inside:
        raise RequirementsError(path, f"the dependency group `{name}` includes itself")
    for entry in group[:_MAX_REQUIREMENTS]:
        match entry:
            case str():
                yield entry
            case {"include-group": str() as included}:
                yield from _group(groups, normalised(included), path, (*inside, name))
            case _:
                raise RequirementsError(path, f"the dependency group `{name}` has something that is no requirement")
