"""The first code of every interpreter started for modules: make the runtime importable, then become a part of it.

Started as `python -I -S -c <bootstrap> <directory of this package> <settings as JSON>`. The bootstrap directory is
taken off the import path again before anything else is imported from it. Never returns: the process is a template, the
init of one worker, or what guards mounts.
"""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from paddock_sdk.worker.runtime_path import RuntimePath

# A small part of a library that modules forget to say they need; one that brings the whole of it has that instead.
_SPARE = ("amplifier_foundation",)


def main() -> NoReturn:
    """Read the settings from the command line and become what they say."""
    bootstrap, settings = sys.argv[1], json.loads(sys.argv[2])
    sys.argv[:] = ["paddock-worker"]
    sys.path.remove(bootstrap)
    sys.path_importer_cache.pop(bootstrap, None)
    # Interpreters name an archive of their library that few have. A module that looks for a package's metadata opens
    # it, which would be a refusal to report to the person, of nothing that the module wants.
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".zip") or os.path.exists(entry)]
    packages = settings["packages"]
    spare = {name: packages.pop(name) for name in _SPARE if name in packages}
    sys.meta_path[:] = [RuntimePath(packages), *sys.meta_path, RuntimePath(spare)]

    if "guard" in settings:
        from paddock_sdk.worker.mount_guard import serve as guard

        guard(settings["guard"], settings["host"])
    elif "control" in settings:
        from paddock_sdk.worker.fork_server import serve

        serve(settings["control"], settings["preload"], settings["host"], settings["shared"], settings["cgroups"])
    else:
        from paddock_sdk.worker.birth import start_single_worker

        start_single_worker(
            settings["lifeline"], settings["rpc"], settings["stdout"], settings["stderr"], settings["cgroups"]
        )
