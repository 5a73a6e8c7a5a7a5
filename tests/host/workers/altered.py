"""A runtime whose workers run the sandbox's code with changes at the end of its modules."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path

from paddock.workers.runtime import WorkerRuntime


def altered(runtime: WorkerRuntime, folder: Path, changes: Mapping[str, str]) -> WorkerRuntime:
    """Return the runtime with a copy of the sandbox, made in the folder, in which code is added to some modules."""
    place = dict(runtime.packages)["paddock_sandbox"]
    copy = folder / "altered"
    shutil.copytree(place / "paddock_sandbox", copy / "paddock_sandbox")
    for module, code in changes.items():
        with (copy / "paddock_sandbox" / f"{module}.py").open("a") as file:
            file.write(f"\n\n{code}")
    packages = tuple((name, copy if name == "paddock_sandbox" else found) for name, found in runtime.packages)
    return dataclasses.replace(runtime, packages=packages)
