"""A runtime whose workers run the sandbox's code with a change at the end of one of its modules."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from paddock.workers.runtime import WorkerRuntime


def altered(runtime: WorkerRuntime, folder: Path, module: str, code: str) -> WorkerRuntime:
    """Return the runtime with a copy of the sandbox, made in the folder, in which `code` is added to a module."""
    place = dict(runtime.packages)["paddock_sandbox"]
    copy = folder / "altered"
    shutil.copytree(place / "paddock_sandbox", copy / "paddock_sandbox")
    with (copy / "paddock_sandbox" / f"{module}.py").open("a") as file:
        file.write(f"\n\n{code}")
    packages = tuple((name, copy if name == "paddock_sandbox" else found) for name, found in runtime.packages)
    return dataclasses.replace(runtime, packages=packages)
