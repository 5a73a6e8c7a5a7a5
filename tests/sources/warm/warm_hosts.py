"""Hosts that are processes of their own, which may be killed: children of one that has loaded what they need.

Installers' programs begin warm in them as well.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO

from sources.warm.warm_runner import warm_runner
from support.warm_process import WarmCommand, WarmProcess, become_each, run_and_end

_SECONDS = 200  # for one host; hit only by a hang
_PROGRAM = "import sys; sys.path[:] = sys.argv.pop(1).split(':'); from sources.warm.warm_hosts import serve; serve()"
_HOSTS = ("sources.faults.one_host",)
_LATER = (
    *("paddock_sources.environment.builder", "paddock_sources.environment.uv", "paddock_sources.git.git_source"),
    *("packaging.tags", "packaging.utils", "packaging.requirements", "paddock_sources.cache.upkeep"),
)


class Host:
    """A host that has begun, and what it prints."""

    def __init__(self, command: WarmCommand, printed: IO[bytes], errors: IO[bytes]) -> None:
        self._command = command
        self._printed = printed
        self._errors = errors

    def kill(self) -> None:
        if self._command.poll() is None:
            os.kill(self._command.pid, 9)

    def end(self) -> tuple[int, str, str]:
        """Return, once it has ended, how, and what it printed."""
        code = self._command.wait(_SECONDS)
        texts = []
        for file in (self._printed, self._errors):
            file.seek(0)
            texts.append(file.read().decode())
        return code, texts[0], texts[1]

    def close(self) -> None:
        self.kill()
        self._command.wait(_SECONDS)
        self._printed.close()
        self._errors.close()


class WarmHosts(WarmProcess):
    """A process that becomes hosts."""

    def __init__(self) -> None:
        super().__init__([sys.executable, "-c", _PROGRAM, ":".join(filter(None, sys.path))])

    @contextmanager
    def host(self, module: ModuleType, *args: str, environ: Mapping[str, str]) -> Iterator[Host]:
        """Begin what one of the modules is; it is killed at the end."""
        printed, errors = (open(os.memfd_create("output"), "w+b") for _ in range(2))
        with open(os.devnull, "rb") as nothing:
            streams = [file.fileno() for file in (nothing, printed, errors)]
            host = Host(self.begin([module.__name__, *args], streams, Path("/"), environ), printed, errors)
        try:
            yield host
        finally:
            host.close()


# -- as a program --------------------------------------------------------------------------


def serve() -> None:
    """Load the hosts, then become each that is asked for, until the connection is closed."""
    connection = socket.socket(fileno=int(sys.argv.pop()))
    for name in (*_HOSTS, *_LATER):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is collected there is copied in each child
    with warm_runner() as runner:
        if become_each(connection):
            host = importlib.import_module(sys.argv.pop(1))
            run_and_end(lambda: host.main(runner))
