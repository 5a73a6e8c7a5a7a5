"""Start module processes as fresh interpreters: for modules whose environment does not fit a template.

The init, the worker and the guarantees are the same as by fork, at a higher cost. The command line shows no
environment: that goes over the init socket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial

import anyio
import anyio.to_thread

from paddock.errors import LaunchError
from paddock.workers.launcher import LaunchSpec, WorkerCgroups
from paddock.workers.pipes import ChildPipes
from paddock.workers.process import ModuleProcess
from paddock.workers.reaper import Reaper
from paddock_sandbox.cgroup import CgroupHome

Through = Callable[[LaunchSpec], AbstractContextManager[tuple[Sequence[str], Sequence[int]]]]

_REAP_SECONDS = 2.0  # an init exits at once when its tree is gone


class ExecLauncher:
    """Launches by exec, with one interpreter for each process."""

    def __init__(self, groups: CgroupHome | None = None, through: Through = lambda spec: nullcontext(((), ()))) -> None:
        """Put each process into a control group of its own, made where `groups` says, if anywhere.

        `through` holds the command that starts the interpreter, where it is not started directly, with its descriptors.
        """
        self._groups = groups
        self._through = through
        self._reapers: list[Reaper] = []

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that is entering its entry; see `Launcher.launch`."""
        request = spec.request()
        worker_groups = WorkerCgroups(self._groups)
        try:
            return await worker_groups.launch(spec, partial(self._spawn, spec, request, worker_groups))
        except BaseException as error:
            worker_groups.remove_groups()
            if isinstance(error, OSError):
                raise LaunchError(spec.name, "exec", f"{spec.runtime.interpreter}: {error}") from error
            raise

    async def aclose(self) -> None:
        """Wait, bounded in time, until ended processes are reaped; live ones go on."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_SECONDS):
            for reaper in self._reapers:
                await reaper.ends_within(_REAP_SECONDS)

    async def _spawn(
        self, spec: LaunchSpec, request: bytes, worker_groups: WorkerCgroups, child_pipes: ChildPipes
    ) -> None:
        self._reapers = [reaper for reaper in self._reapers if not reaper.has_ended]
        fds = child_pipes.worker_fds
        # An interpreter that fails before it can report prints the error on the module's stderr.
        settings = {**fds, "cgroups": worker_groups.cgroups}
        with ExitStack() as held:
            # In a thread: a file system may be slow to answer.
            command, opened = await anyio.to_thread.run_sync(held.enter_context, self._through(spec))
            child = spec.runtime.spawn(settings, (*fds.values(), *opened), fds["stderr"], through=command)
        self._reapers.append(Reaper(child))
        child_pipes.init_socket.send(request)
