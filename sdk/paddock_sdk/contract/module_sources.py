"""Where a module's code is: sources, resolvers of sources, and the errors of finding or loading one.

A resolver is mounted at the `module-source-resolver` mount point. `ModuleNotFoundError` here is neither the builtin of
that name nor a subclass of it: code that means this one imports it from here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

__all__ = [
    "FileSystemModuleSource",
    "ModuleLoadError",
    "ModuleNotFoundError",
    "ModuleSource",
    "ModuleSourceResolver",
]


class ModuleNotFoundError(Exception):
    """Raised when no source is known for a module."""


class ModuleLoadError(Exception):
    """Raised when a module was found but cannot be loaded."""


class ModuleSource(ABC):
    """A place that holds one module's code."""

    @abstractmethod
    def resolve(self) -> Path:
        """Return the directory the module's package is in, fetching it first where necessary.

        Raises:
            ModuleNotFoundError: there is nothing at the source.
        """


class ModuleSourceResolver(Protocol):
    """Finds the source of a module; an `async_resolve` of the same signature is preferred where there is one."""

    def resolve(
        self, module_id: str, source_hint: object | None = None, profile_hint: object | None = None
    ) -> ModuleSource:
        """Return the module's source; both hints come from the mount plan.

        Raises:
            ModuleNotFoundError: the resolver knows no source for the module.
        """
        ...


class FileSystemModuleSource:
    """Directories that hold modules."""

    def __init__(self, paths: Iterable[str | Path] | None = None) -> None:
        self.paths = [Path(path) for path in paths or ()]

    def get_module_paths(self) -> list[Path]:
        """Return the directories, in the order they are searched."""
        return list(self.paths)

    def get_mention_mappings(self) -> dict[str, Path]:
        """Return the directories `@name:` mentions stand for; plain directories give none."""
        return {}
