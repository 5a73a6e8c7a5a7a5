"""Have hosts fork workers from templates that need not load the workers' runtime: that is most of a host's start.

A process loads it once, and becomes each template and each mount guard that a host asks for in a child: with the host's
settings, descriptors and mount namespace, in a session of its own. It is that process's child and not the host's. Where
the runtime, the user or the limits are others, a host gets a fresh interpreter; so does each host in tests of templates
and of cold commands. Most sessions of tests end within a moment of their last start, so that a worker made ahead would
serve none: these templates make one later than others do, but for those of tests of workers.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.workers.runtime import WorkerRuntime

_SECONDS = 200  # for one template; hit only by a hang
_LONGEST = 1 << 17  # bytes of a request
_FDS = 4  # of a request: the host's socket and its end of stderr, its mount namespace, and where the answer goes
_CLONE_NEWNS = 0x2_0000
_QUIET_MS = 500  # without a request, until a template of a test's session makes the next worker ahead
_CONTROLS = ("control", "guard")  # how the settings call the socket of a template, and of a mount guard
# What a template has of the process that starts it, and those of the tests have in common, but for its mounts.
_NAMESPACES = ("cgroup", "ipc", "net", "pid", "user", "uts")
_STATUS = ("Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:", "Cpus_allowed:")


class WarmTemplate:
    """A template or a mount guard, as far as the host that asked for it looks at a process that it started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return a number once it has ended; how it ended, only its parent knows."""
        if self.returncode is None and not os.path.exists(f"/proc/{self.pid}"):
            self.returncode = 0
        return self.returncode

    def kill(self) -> None:
        """End it; it may have ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Return once it has ended."""
        with contextlib.suppress(ProcessLookupError):
            ended = os.pidfd_open(self.pid)
            select.select([ended], [], [], _SECONDS)
            os.close(ended)


class WarmTemplates:
    """Starts templates in place of `WorkerRuntime.spawn`, through a connection to the process that becomes them."""

    def __init__(self, connection: socket.socket, pid: int = 0, runtime: WorkerRuntime | None = None) -> None:
        from paddock.workers.runtime import WorkerRuntime

        self.connection = connection
        self.pid = pid  # of the process that becomes them, where this one has started it
        self._cold = WorkerRuntime.spawn
        self._runtime = runtime or WorkerRuntime.locate()
        # A template of commands alone loads a part of what one of modules does, and what is missing by itself.
        self._preloads = [self._runtime.preload, WorkerRuntime.locate(for_commands=True).preload]
        self._surroundings = _surroundings()

    def spawner(self) -> Callable[..., Any]:
        """Return what takes the place of `WorkerRuntime.spawn`."""
        return lambda runtime, *arguments, **options: self._spawn(runtime, *arguments, **options)

    def _spawn(
        self, runtime: WorkerRuntime, settings: Mapping[str, Any], fds: Sequence[int], stderr: int, **options: Any
    ) -> WarmTemplate | subprocess.Popen[bytes]:
        """Start a template, or whatever else a host starts for its workers, which is started as elsewhere."""
        if options or not self._can_be_warm(runtime, settings):
            return self._cold(runtime, settings, fds, stderr, **options)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs, open("/proc/self/ns/mnt", "rb") as mounts:
                descriptors = [settings[_control_of(settings)], stderr, mounts.fileno(), theirs.fileno()]
                socket.send_fds(self.connection, [json.dumps(dict(settings)).encode()], descriptors)
            ours.settimeout(_SECONDS)
            return WarmTemplate(int(ours.recv(100)))

    def _can_be_warm(self, runtime: WorkerRuntime, settings: Mapping[str, Any]) -> bool:
        is_usual = (runtime.interpreter, runtime.packages) == (self._runtime.interpreter, self._runtime.packages)
        is_known = "guard" in settings or ("control" in settings and settings.get("preload") in self._preloads)
        return is_usual and is_known and _surroundings() == self._surroundings


@contextlib.contextmanager
def warm_templates(runtime: WorkerRuntime | None = None) -> Iterator[WarmTemplates]:
    """Start the process that becomes templates of a runtime, by default that of all hosts; at the end it ends."""
    from paddock.workers.runtime import WorkerRuntime

    quiet = _QUIET_MS if runtime is None else None
    runtime = runtime or WorkerRuntime.locate()
    connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with connection, theirs, open(os.devnull, "wb") as null:
        # What a template begins with, this process begins with, and so do its children.
        program = [os.fspath(runtime.interpreter), "-I", "-S", __file__]
        settings = {"control": theirs.fileno(), "preload": runtime.preload, "quiet": quiet}
        process = runtime.spawn(settings, [theirs.fileno()], null.fileno(), through=program)
        theirs.close()
        yield WarmTemplates(connection, process.pid, runtime)
    process.wait(_SECONDS)


def _control_of(settings: Mapping[str, Any]) -> str:
    return next(name for name in _CONTROLS if name in settings)


def _surroundings() -> tuple[object, ...]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return (
        [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES],
        [line for line in lines if line.startswith(_STATUS)],
        Path("/proc/self/limits").read_text(),
        Path("/proc/self/cgroup").read_text(),
        os.nice(0),
    )


# -- as a program, which is given the command of a template ---------------------------------


def serve() -> None:
    """Load what templates load, then become each template that is asked for, until nobody can ask any more."""
    code, sdk, given = sys.argv[-3:]
    settings = json.loads(given)
    _load(sdk, settings["packages"], settings["preload"])
    if settings["quiet"] is not None:
        from paddock_sdk.worker import fork_server

        # The code of a template calls it with what a host gives.
        fork_server.serve = functools.partial(fork_server.serve, quiet_ms=settings["quiet"])  # type: ignore[assignment]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    with socket.socket(fileno=settings["control"]) as connection:
        while True:
            request, fds, _, _ = socket.recv_fds(connection, _LONGEST, _FDS)
            if not request:
                return
            control, stderr, mounts, answer = fds
            child = os.fork()
            if child == 0:
                break
            os.write(answer, str(child).encode())
            for fd in fds:
                os.close(fd)
    _become(stderr, mounts)
    os.close(answer)
    asked = json.loads(request)
    own = {"packages": settings["packages"], **asked, _control_of(asked): control, "host": os.getppid()}
    sys.argv[:] = ["-c", sdk, json.dumps(own)]
    exec(code, {"__name__": "__main__"})


def _load(sdk: str, packages: Mapping[str, str], preload: Iterable[str]) -> None:
    kept = sys.path[:], sys.meta_path[:]
    sys.path.insert(0, sdk)
    from paddock_sdk.worker.boot import RuntimePath

    sys.path.remove(sdk)
    sys.meta_path.insert(0, RuntimePath(packages))
    importlib.import_module("paddock_sdk.worker.boot")
    for name in preload:
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
    sys.path[:], sys.meta_path[:] = kept
    gc.collect()
    gc.freeze()  # what is collected there is copied in each child


def _become(stderr: int, mounts: int) -> None:
    from paddock_sandbox.syscalls import call

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(stderr, 2)
    if os.fstat(mounts).st_ino != os.stat("/proc/self/ns/mnt").st_ino:
        call("setns", mounts, _CLONE_NEWNS)
        os.chdir("/")
    os.close(stderr)
    os.close(mounts)


if __name__ == "__main__":
    serve()
