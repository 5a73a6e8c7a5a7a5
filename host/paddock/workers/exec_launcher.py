"""Start module processes as fresh interpreters: for modules whose environment does not fit a template.

The init, the worker and the guarantees are the same as by fork, at a higher cost. The command line shows no
environment: that goes over the init socket.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import partial

import anyio

from paddock.errors import LaunchError
from paddock.workers.launcher import LaunchSpec, WorkerCgroups
from paddock.workers.pipes import ChildPipes
from paddock.workers.process import ModuleProcess
from paddock.workers.reaper import Reaper
from paddock_sandbox.cgroup import CgroupHome

_REAP_SECONDS = 2.0  # an init exits at once when its tree is gone


class ExecLauncher:
    """Launches by exec, with one interpreter for each process."""

    def __init__(self, groups: CgroupHome | None = None) -> None:
        """Put each process into a control group of its own, made where `groups` says, if anywhere."""
        self._groups = groups
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
        fds = child_pipes.worker_fds
        settings = {**fds, "cgroups": worker_groups.cgroups}
        # An interpreter that fails before it can report prints the error on the module's stderr.
        await self._start(spec, settings, tuple(fds.values()), fds["stderr"])
        child_pipes.init_socket.send(request)

    async def _start(
        self,
        spec: LaunchSpec,
        settings: Mapping[str, object],
        fds: Sequence[int],
        stderr: int,
    ) -> None:
        self._watch(spec.runtime.spawn(settings, fds, stderr))

    def _watch(self, child: subprocess.Popen[bytes]) -> Reaper:
        """Have a child reaped when it ends."""
        self._reapers = [reaper for reaper in self._reapers if not reaper.has_ended]
        self._reapers.append(Reaper(child))
        return self._reapers[-1]
