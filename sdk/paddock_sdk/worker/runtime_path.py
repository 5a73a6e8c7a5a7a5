"""What a worker can import: the standard library, and exactly the top-level packages the host granted its runtime.

The packages live in directories that hold much else (a site-packages folder), so those directories never go on
`sys.path`. A module's own import root is appended to `sys.path` later, by whoever may load it; granted packages win
over what is found there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import Distribution, DistributionFinder
    from types import ModuleType


class RuntimePath:
    """Finds each granted top-level package in the one directory it was granted from.

    A finder by its methods alone: the base class would cost a fresh interpreter a third of its start.
    """

    def __init__(self, directories: Mapping[str, str]) -> None:
        self._directories = dict(directories)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a granted package; its submodules are found by the usual finder through its `__path__`."""
        directory = self._directories.get(fullname)
        return None if directory is None else PathFinder.find_spec(fullname, [directory])

    def find_distributions(self, context: DistributionFinder.Context) -> Iterable[Distribution]:
        """Yield the distribution metadata of granted packages only, so that code can ask for their versions."""
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        if "path" in vars(context):
            return  # asked about certain directories, which are other finders' business
        wanted = None if context.name is None else context.name.lower().replace("_", "-")
        for name, directory in self._directories.items():
            distribution = name.lower().replace("_", "-")
            if wanted in (None, distribution):
                yield from MetadataPathFinder.find_distributions(
                    DistributionFinder.Context(name=distribution, path=[directory])
                )
