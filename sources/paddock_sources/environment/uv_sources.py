"""The origins of a project's dependencies in `[tool.uv.sources]`, read as data.

A repository counts as one that the requirement itself names, and is pinned and judged as such. An entry for a folder,
an archive, a workspace or an index is refused: code comes from the user's index, or from a repository.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paddock_sources.environment.errors import RequirementsError

__all__ = ["UvSources"]

_MAX_SOURCES: Final = 1000
_REFERENCES: Final = ("rev", "tag", "branch")
_OF_GIT: Final = frozenset({"git", "subdirectory", "marker", "lfs", *_REFERENCES})
_REFUSED: Final = {
    "path": "a folder or file beside the project",
    "url": "an archive at an address",
    "workspace": "a workspace around the project",
    "index": "an index of the project's own choice",
}


@dataclass(frozen=True, slots=True)
class UvSources:
    """The table of the project whose `pyproject.toml` is at `path`; names are normalised."""

    path: Path
    entries: Mapping[str, Any]

    @staticmethod
    def of(path: Path, document: Mapping[str, Any], normalised: Callable[[str], str]) -> UvSources:
        """Return the sources in a project file.

        Raises:
            RequirementsError: they are no table of a reasonable size.
        """
        table: Any = document
        for key in ("tool", "uv", "sources"):
            table = table.get(key, {}) if isinstance(table, dict) else None
        if not isinstance(table, dict) or len(table) > _MAX_SOURCES:
            raise RequirementsError(path, "`tool.uv.sources` is not a table of a reasonable size")
        return UvSources(path, {normalised(name): entry for name, entry in table.items()})

    def address_of(self, name: str, applies: Callable[[str], bool]) -> str | None:
        """Return the address of a dependency's repository, in the form of a requirement; None if it has no source.

        `applies` evaluates a requirement with a marker, and raises ValueError for an invalid one.

        Raises:
            RequirementsError: it comes from elsewhere, or the entry is not understood.
        """
        written = self.entries.get(name)
        entries = written if isinstance(written, list) else [written]
        entry = next((entry for entry in entries if self._applies(name, entry, applies)), None)
        if entry is None:
            return None
        refused = next((kind for kind in _REFUSED if kind in entry), None)
        if refused is not None:
            raise RequirementsError(
                self.path,
                f"`{name}` in `tool.uv.sources` comes from {_REFUSED[refused]} (`{refused}`)",
                hints=[
                    f'write `{name} = {{git = "https://host/path", rev = "…"}}`, a folder in it by `subdirectory`',
                    f"or leave `{name}` to the package index",
                ],
            )
        return self._repository(name, entry)

    def _applies(self, name: str, entry: object, applies: Callable[[str], bool]) -> bool:
        if entry is None:
            return False
        if not isinstance(entry, dict):
            raise self._unreadable(name)
        marker = entry.get("marker")
        try:
            return marker is None or applies(f"{name}; {marker}")
        except ValueError as error:
            raise self._unreadable(name) from error

    def _repository(self, name: str, entry: Mapping[str, Any]) -> str:
        texts = {key: value for key, value in entry.items() if key != "lfs"}
        references = [texts[key] for key in _REFERENCES if key in texts]
        if entry.keys() - _OF_GIT or "git" not in texts or len(references) > 1:
            raise self._unreadable(name)
        if not all(isinstance(value, str) for value in texts.values()):
            raise self._unreadable(name)
        address = f"git+{texts['git'].removeprefix('git+')}" + "".join(f"@{reference}" for reference in references)
        return address + (f"#subdirectory={texts['subdirectory']}" if "subdirectory" in texts else "")

    def _unreadable(self, name: str) -> RequirementsError:
        return RequirementsError(self.path, f"`tool.uv.sources.{name}` is no source that is known")
