"""Run pytest in children of a process that has loaded it: that is most of what a run of a few tests takes."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.warm_process import WarmProcess, become_each, run_and_end
from support.warm_templates import WarmTemplates

_PROGRAM = "import sys; sys.path[0] = sys.argv.pop(1); from support.warm_pytest import serve; serve()"


class WarmPytest(WarmProcess):
    """A process that becomes `python -m pytest`, and has loaded `imported` as well.

    No plugin and no tests are among them: pytest rewrites what is asserted there as it loads them. With `templates`,
    hosts begin warm in it.
    """

    def __init__(self, imported: Sequence[str], templates: WarmTemplates | None = None) -> None:
        command = [sys.executable, "-c", _PROGRAM, str(Path(__file__).parents[1]), " ".join(imported)]
        super().__init__(command, [templates.connection.fileno()] if templates else [])

    def run_in(
        self, folder: Path, args: Sequence[str], environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run pytest to its end; what is imported from PYTHONPATH comes first."""
        return self.run(args, "", folder, os.environ if environ is None else environ)


def serve() -> None:
    """Load pytest and what else is named, then become each run that is asked for."""
    sys.path.pop(0)  # the folder of these tests
    import _pytest
    import pytest

    _, imported, *given = sys.argv
    for name in (*imported.split(), *(f"_pytest.{module.name}" for module in pkgutil.iter_modules(_pytest.__path__))):
        importlib.import_module(name)
    *templates, connection = (socket.socket(fileno=int(number)) for number in given)
    del sys.argv[1:]
    for one in templates:
        from paddock.workers.runtime import WorkerRuntime

        WorkerRuntime.spawn = WarmTemplates(one).spawner()  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()  # what is collected there is copied in each child
    if become_each(connection):
        sys.path[:0] = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        run_and_end(lambda: sys.exit(pytest.main(sys.argv[1:])))
