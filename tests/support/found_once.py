"""Have hosts of tests find the interpreter's paths once in a process: they are the same for each host.

A host whose runtime is another looks for itself, and so does each host in tests of cold commands.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from paddock.isolation import runtime_paths
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.workers.runtime import WorkerRuntime

Locate = Callable[[Path, Iterable[tuple[str, Path]], Path], RuntimePaths]


def found_once() -> Locate:
    """Find them, and return what takes the place of `RuntimePaths.locate`."""
    usual, cold, prefix = WorkerRuntime.locate(), RuntimePaths.locate, sys.prefix
    with tempfile.TemporaryDirectory() as folder:
        found = cold(usual.interpreter, usual.packages, Path(folder))

    def locate(interpreter: Path, packages: Iterable[tuple[str, Path]], covers: Path) -> RuntimePaths:
        if (interpreter, packages, sys.prefix) != (usual.interpreter, usual.packages, prefix):
            return cold(interpreter, packages, covers)
        hidden = tuple((path, covers / cover.name) for path, cover in found.hidden)
        for path, cover in hidden:
            runtime_paths._make_cover(cover, path, found.code)
        return replace(found, hidden=hidden)

    return locate
