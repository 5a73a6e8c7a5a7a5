"""The process that becomes the Python programs that handle packages: each in a child, with its imports loaded.

It is started as they are, isolated and without any package, with the folder of these tests.
"""

from __future__ import annotations

import gc
import importlib
import runpy
import socket
import sys

from support.warm_process import become_each, run_and_end

_IMPORTED = (
    *(
        "base64",
        "concurrent.futures.thread",
        "csv",
        "html.parser",
        "importlib.util",
        "json",
        "secrets",
        "ssl",
        "zipfile",
    ),
    *("urllib.request", "encodings.idna", "email.parser"),
)


def serve() -> None:
    """Load what the programs import, then become each that is asked for, until the connection is closed."""
    sys.path.pop(0)  # the folder of these tests
    connection = socket.socket(fileno=int(sys.argv.pop()))
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is collected there is copied in each child
    if become_each(connection):
        sys.argv[:1] = []
        run_and_end(lambda: runpy.run_path(sys.argv[0], run_name="__main__"))
