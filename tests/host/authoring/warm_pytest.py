"""Run pytest with the sandboxed plugin in children of a process that has loaded both, and whose templates are warm."""

from __future__ import annotations

import gc
import importlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.warm_process import WarmProcess, become_each, run_and_end
from support.warm_templates import WarmTemplates

_PROGRAM = "import sys; sys.path[0] = sys.argv.pop(1); from host.authoring.warm_pytest import serve; serve()"
# All but the plugin itself, in which pytest rewrites what is asserted as it loads it.
_IMPORTED = (
    *("paddock.authoring.module_sandbox", "paddock.authoring.repository_guard", "anyio.pytest_plugin"),
    *("paddock_sdk.validation.behavioral", "anyio._backends._asyncio", "pygments.lexers.python"),
    *("paddock.workers.fork_server", "_pytest.skipping", "_pytest.terminal"),
)


class WarmPytest(WarmProcess):
    """A process that becomes `python -m pytest`."""

    def __init__(self, templates: WarmTemplates) -> None:
        command = [sys.executable, "-c", _PROGRAM, str(Path(__file__).parents[2])]
        super().__init__(command, [templates.connection.fileno()])

    def run_in(self, folder: Path, args: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run pytest to its end."""
        return self.run(args, "", folder, os.environ)


def serve() -> None:
    """Load pytest and what the plugin needs, then become each run that is asked for."""
    sys.path.pop(0)  # the folder of these tests
    import pytest

    from paddock.workers.runtime import WorkerRuntime

    for name in _IMPORTED:
        importlib.import_module(name)
    connection = socket.socket(fileno=int(sys.argv.pop()))
    templates = WarmTemplates(socket.socket(fileno=int(sys.argv.pop())))
    WorkerRuntime.spawn = templates.spawner()  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()  # what is collected there is copied in each child
    if become_each(connection):
        run_and_end(lambda: sys.exit(pytest.main(sys.argv[1:])))
