"""The further requirements of a project's tests: those in its own file, and the programs that run the tests.

They are read as data, under caps: the extras and the dependency groups (PEP 735) that developers install.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from paddock.authoring.provided import TrialNeeds
from paddock_sources.environment.errors import RequirementsError
from paddock_sources.environment.project_file import read_project_file
from paddock_sources.environment.requirements import normalised

RUNNERS: Final = ("pytest", "pytest-asyncio")

_FOR_DEVELOPERS: Final = frozenset({"dev", "test", "tests", "testing"})
_MAX_REQUIREMENTS: Final = 1000
_MAX_DEPTH: Final = 50  # of groups in groups; real projects have two or three


def dev_requirements(root: Path) -> TrialNeeds:
    """Return the requirements of the tests of the project in the folder `root`.

    Raises:
        RequirementsError: its file cannot be read, or a group is invalid.
    """
    path = root / "pyproject.toml"
    document = read_project_file(root)
    project = document.get("project", {})
    optional = project.get("optional-dependencies", {}) if isinstance(project, dict) else {}
    extras = [name for name in optional if normalised(name) in _FOR_DEVELOPERS] if isinstance(optional, dict) else []
    groups = document.get("dependency-groups", {})
    if not isinstance(groups, dict):
        raise RequirementsError(path, "`dependency-groups` is not a table")
    reading = _Groups({normalised(name): group for name, group in groups.items()}, path)
    named = [line for name in reading.groups if name in _FOR_DEVELOPERS for line in reading.lines(name)]
    return TrialNeeds(tuple(extras), tuple(dict.fromkeys((*named, *RUNNERS))))


class _Groups:
    """The dependency groups of one project, each read once however many others include it."""

    def __init__(self, groups: Mapping[str, Any], path: Path) -> None:
        self.groups = groups
        self._path = path
        self._read: set[str] = set()

    def lines(self, name: str, inside: tuple[str, ...] = ()) -> Iterator[str]:
        """Yield the requirements of a group and of those it includes, without those yielded before."""
        group = self.groups.get(name)
        if not isinstance(group, list) or len(group) > _MAX_REQUIREMENTS:
            raise RequirementsError(self._path, f"there is no dependency group `{name}` of a reasonable size")
        if name in inside:
            raise RequirementsError(self._path, f"the dependency group `{name}` includes itself")
        if len(inside) > _MAX_DEPTH:
            raise RequirementsError(self._path, f"the dependency group `{inside[0]}` includes others too deeply")
        if name in self._read:
            return
        self._read.add(name)
        for entry in group:
            match entry:
                case str():
                    yield entry
                case {"include-group": str() as included}:
                    yield from self.lines(normalised(included), (*inside, name))
                case _:
                    problem = f"the dependency group `{name}` has something that is no requirement"
                    raise RequirementsError(self._path, problem)
