"""Run commands without having the interpreter load Paddock for each: that takes most of what a short command takes.

A process loads it once, and for each request becomes the command in a child. How a command starts, and what of it is in
its process, is shown by tests that start it as people do.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import pkgutil
import socket
import sys
import threading
from pathlib import Path

from pydantic import BaseModel

from integration.policed_machine import enter
from support.found_once import found_once
from support.unwritten_cache import ask_once, write_nothing_out
from support.warm_process import WarmProcess, become_each, run_and_end
from support.warm_templates import WarmTemplates

_LATER = ("anyio._backends._asyncio", "concurrent.futures.thread", "email.parser", "encodings.utf_8_sig")  # at run time
_PROGRAM = "import sys; sys.path[0] = sys.argv.pop(1); from integration.warm_commands import serve; serve()"


class WarmCommands(WarmProcess):
    """A process that becomes Paddock's commands, whose templates are warm as well."""

    def __init__(self, templates: WarmTemplates) -> None:
        command = [sys.executable, "-c", _PROGRAM, str(Path(__file__).parents[1])]
        super().__init__(command, [templates.connection.fileno()])


# -- as a program --------------------------------------------------------------------------


def serve() -> None:
    """Load Paddock, then become each command that is asked for, until the other end of the connection is closed."""
    sys.path.pop(0)  # the folder of these tests, which no command has on its path
    from paddock import cli
    from paddock.isolation.runtime_paths import RuntimePaths
    from paddock.session.host_api import handler
    from paddock.workers.runtime import WorkerRuntime

    for name in (*(found.name for found in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}.")), *_LATER):
        importlib.import_module(name)
    connection = socket.socket(fileno=int(sys.argv.pop()))
    templates = WarmTemplates(socket.socket(fileno=int(sys.argv.pop())))
    WorkerRuntime.spawn = templates.spawner()  # type: ignore[method-assign]
    write_nothing_out()
    ask_once()
    _check_nothing_leaks(connection, templates.connection)
    _build_models()
    RuntimePaths.locate = found_once()  # type: ignore[method-assign, assignment]
    for spec in [one for one in gc.get_objects() if isinstance(one, handler.HandlerSpec)]:
        handler._reader(spec)  # reads the hints of a method's arguments, the same for each command
    gc.collect()
    gc.freeze()  # what is collected there is copied in each child
    if become_each(connection, enter):
        run_and_end(_run_program if sys.argv[1:2] == ["-c"] else cli.main)


def _run_program() -> None:
    """Run the code after `-c`, as the interpreter does."""
    sys.argv[:], code = ["-c", *sys.argv[3:]], sys.argv[2]
    sys.path.insert(0, "")
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})


def _check_nothing_leaks(*connections: socket.socket) -> None:
    """End if a command would begin with more than what was loaded: with what this process has found out or opened."""
    caches = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
    filled = [one for one in caches if one.__module__.startswith("paddock") and one.cache_info().currsize]
    assert not filled, f"these have found something out: {filled}"
    assert threading.active_count() == 1
    opened = {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, *(one.fileno() for one in connections)}
    assert not [number for number in opened if os.path.exists(f"/proc/self/fd/{number}")], "files are open"


def _build_models() -> None:
    """Build the models that are built once they are used, the same for each command: a fifth of what one takes."""
    waiting = BaseModel.__subclasses__()
    while waiting:
        model = waiting.pop()
        model.model_rebuild()
        waiting += model.__subclasses__()
