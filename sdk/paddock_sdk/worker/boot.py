"""The first code of every interpreter started for modules: make the runtime importable, then run one of its parts.

Started as `python -I -S -c <bootstrap> <directory of this package> <settings as JSON>`. The bootstrap directory is
taken off the import path again before anything else is imported from it. `main` never returns: the process becomes a
template, the init of one worker, the mount guard, or the one that attaches what bubblewrap staged.

Only the standard library, and the packages that the host granted its runtime, can be imported. These packages live in
folders that hold much else, so such folders never go on `sys.path`. A module's own import root is appended there later;
granted packages win over packages found in it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import Distribution, DistributionFinder
    from types import ModuleType


# A small part of a library that modules forget to declare; a module that brings the whole library gets that instead.
_SPARE = ("amplifier_foundation",)


def main() -> NoReturn:
    """Read the settings from the command line and start the part that they name."""
    bootstrap, settings = sys.argv[1], json.loads(sys.argv[2])
    sys.argv[:] = ["paddock-worker"]
    sys.path.remove(bootstrap)
    sys.path_importer_cache.pop(bootstrap, None)
    # Interpreters list an archive of their library that rarely exists. A module that looks for a package's metadata
    # opens it. That refusal would be reported to the user, though the module does not need the file.
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".zip") or os.path.exists(entry)]
    packages = settings["packages"]
    spare = {name: packages.pop(name) for name in _SPARE if name in packages}
    sys.meta_path[:] = [RuntimePath(packages), *sys.meta_path, RuntimePath(spare)]

    if "guard" in settings:
        from paddock_sdk.worker.mount_guard import serve as guard

        guard(settings["guard"], settings["host"])
    elif "staged" in settings:
        from paddock_sdk.worker.stager import attach

        attach(settings["staged"])
    elif "control" in settings:
        from paddock_sdk.worker.fork_server import serve

        serve(settings["control"], settings["preload"], settings["host"])
    else:
        from paddock_sdk.worker.prefork import start_single_worker

        start_single_worker(
            settings["init_socket"], settings["rpc"], settings["stdout"], settings["stderr"], settings["cgroups"]
        )


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
            return  # called for certain directories, which other finders serve
        wanted = None if context.name is None else context.name.lower().replace("_", "-")
        for name, directory in self._directories.items():
            distribution = name.lower().replace("_", "-")
            if wanted in (None, distribution):
                yield from MetadataPathFinder.find_distributions(
                    DistributionFinder.Context(name=distribution, path=[directory])
                )
