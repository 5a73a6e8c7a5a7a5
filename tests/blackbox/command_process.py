"""A process that becomes `paddock` commands, so that each need not load the program again.

It is a file of its own because it is run as a program: `python command_process.py`, with one request a line on stdin,
and one exit code a line on stdout. What it runs is the console script that the installed distribution declares. Each
command runs in a child with the arguments, environment, folder and standard streams that the request names.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import importlib.metadata
import json
import os
import pkgutil
import sys
import termios
import time
from collections.abc import Callable


def _load() -> Callable[[], object]:
    """Import the command and everything beside it, as far as it can be imported."""
    [script] = importlib.metadata.entry_points(group="console_scripts", name="paddock")
    main = script.load()
    package = importlib.import_module(script.module)
    for found in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
        importlib.import_module(found.name)
    return main  # type: ignore[no-any-return]


def _become(request: dict[str, object]) -> None:
    """Give this process what the request names. A terminal is made the controlling one."""
    path = request["terminal"]
    if path is not None:
        os.setsid()
        terminal = os.open(str(path), os.O_RDWR)
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        opened = [terminal] * 3
    else:
        opened = [os.open(str(request["stdin"]), os.O_RDONLY)]
        opened += [os.open(str(request[name]), os.O_WRONLY | os.O_CREAT, 0o600) for name in ("stdout", "stderr")]
    for standard, number in enumerate(opened):
        os.dup2(number, standard)
    for number in {*opened} - {0, 1, 2}:
        os.close(number)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", closefd=False, buffering=1)
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(request["environ"])  # type: ignore[call-overload]
    time.tzset()
    os.chdir(str(request["cwd"]))
    sys.argv[:] = ["paddock", *request["args"]]  # type: ignore[misc]


def _serve() -> Callable[[], object] | None:
    """Return the command in each child, and nothing in this process, once stdin ends."""
    main = _load()
    gc.collect()
    gc.freeze()
    while line := os.read(0, 1 << 20):
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
            return main
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(1, f"{code}\n".encode())
    return None


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of these tests, which no command has on its path
    command = _serve()
    if command is not None:
        sys.exit(command())  # type: ignore[arg-type]
