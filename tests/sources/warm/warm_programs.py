"""The process that becomes the Python programs of installers, and pip: each in a child, with its imports loaded.

It is started as they are, isolated and without any package, with the folders of these tests and of pip's package.
"""

from __future__ import annotations

import gc
import importlib
import runpy
import socket
import sys

from support.warm_process import become_each, run_and_end

_IMPORTED = (
    *("base64", "concurrent.futures.thread", "html.parser", "importlib.util", "json", "secrets", "ssl", "zipfile"),
    *("urllib.request", "encodings.idna", "email.parser"),
)
_IMPORTED_BY_PIP = (
    *("pip._internal.cli.main", "pip._internal.commands.install", "pip._internal.resolution.resolvelib.resolver"),
    *("pip._internal.operations.install.wheel", "pip._internal.network.lazy_wheel", "pip._vendor.rich.console"),
)


def serve() -> None:
    """Load what the programs import, then become each that is asked for, until the connection is closed."""
    sys.path.pop(0)  # the folder of these tests
    connection = socket.socket(fileno=int(sys.argv.pop()))
    kept = sys.path[:]
    for name in _IMPORTED:
        importlib.import_module(name)
    sys.path[0] = sys.argv.pop()  # as `pip_program` has it
    for name in _IMPORTED_BY_PIP:
        importlib.import_module(name)
    sys.path[:] = kept
    gc.collect()
    gc.freeze()  # what is collected there is copied in each child
    if become_each(connection):
        sys.argv[:1] = []
        run_and_end(lambda: runpy.run_path(sys.argv[0], run_name="__main__"))
