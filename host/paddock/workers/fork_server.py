"""Start module processes by forking them from a process that has everything imported already.

That process is the template; `paddock_sdk/worker/fork_server.py` is what it runs. There is one per runtime. The first
launch that needs a template starts it, and a dead one is replaced; the processes that it forked live on. The host sends
it one request at a time and nothing else. It ends when its control socket closes, however the host ended.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import suppress
from dataclasses import astuple
from functools import partial

import anyio

from paddock.errors import LaunchError
from paddock.workers.early_template import interpreter_for
from paddock.workers.launcher import LaunchSpec, WorkerCgroups
from paddock.workers.pipes import ChildPipes
from paddock.workers.process import ENDED_SILENTLY, ModuleProcess
from paddock.workers.reaper import Reaper
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox.cgroup import CgroupHome
from paddock_sdk.worker.init_socket import pack

_CLOSE_SECONDS = 2.0  # a template that does not notice its control socket closing in this time is killed
_DEATH_SECONDS = 0.5  # its sockets close a moment before its end can be seen
_ATTEMPTS = 2  # one template may have died since its last use; a second death is no coincidence
_LAST_WORDS_BYTES = 1 << 16


class Template:
    """One interpreter that waits to be forked; the constructor returns before it has imported anything."""

    def __init__(self, runtime: WorkerRuntime, groups: CgroupHome | None) -> None:
        self._sending = asyncio.Lock()
        self._worker_groups = WorkerCgroups(groups)
        self._interpreter = interpreter_for(runtime)
        self._control = self._interpreter.control
        shared = [astuple(mount) for mount in runtime.mounts]
        try:
            self._reaper = Reaper(self._interpreter.child)
            with suppress(ConnectionError):  # it is dead, which the first launch finds
                self._control.send(
                    pack({"shared": shared, "cgroups": self._worker_groups.cgroups}), socket.MSG_NOSIGNAL
                )
        except BaseException:
            self._interpreter.release()
            raise
        self._control.setblocking(False)

    @property
    def has_ended(self) -> bool:
        """True once the template is dead and reaped."""
        return self._reaper.has_ended

    async def launch(self, spec: LaunchSpec, request: bytes) -> ModuleProcess:
        """Return a process forked from this one; see `launch_through`.

        Raises:
            LaunchError: a step failed, or the template ended on the way.
            OSError: the template is gone.
        """
        return await self._worker_groups.launch(spec, partial(self._fork, request))

    async def ends_soon(self) -> bool:
        """Return whether the template is dead, or was about to be."""
        return await self._reaper.ends_within(_DEATH_SECONDS)

    def last_words(self) -> str:
        """Return the last line that a dead template wrote before its end, or nothing."""
        try:
            text = os.read(self._interpreter.stderr, _LAST_WORDS_BYTES).decode("utf-8", errors="replace").strip()
        except OSError:  # nothing was written, or another launch has released it
            text = ""
        return text.splitlines()[-1] if text else ""

    async def aclose(self) -> None:
        """End the template and release it. Workers that it forked go on; workers that it prepared in advance end."""
        try:
            self._control.close()
            with anyio.CancelScope(shield=True):
                if not await self._reaper.ends_within(_CLOSE_SECONDS):
                    self._reaper.kill()
                    await self._reaper.ends_within(_DEATH_SECONDS)
        finally:
            self._reaper.kill()
            self._interpreter.release()
            self._worker_groups.remove_groups()

    async def _fork(self, request: bytes, child_pipes: ChildPipes) -> None:
        """Fork a worker that takes over the worker's ends; the worker's own init socket reports how that went."""
        loop = asyncio.get_running_loop()
        async with self._sending:
            while True:
                try:
                    socket.send_fds(
                        self._control, [request], list(child_pipes.worker_fds.values()), socket.MSG_NOSIGNAL
                    )
                    return
                except BlockingIOError:
                    writable = asyncio.Event()
                    loop.add_writer(self._control, writable.set)
                    try:
                        await writable.wait()
                    finally:
                        loop.remove_writer(self._control)


class ForkServerLauncher:
    """Launches by fork: in a fraction of the time and memory that a fresh interpreter takes."""

    def __init__(self, groups: CgroupHome | None = None) -> None:
        """Put each process into a control group of its own, made where `groups` says, if anywhere."""
        self._groups = groups
        self._templates: dict[WorkerRuntime, Template] = {}
        self._is_closed = False

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that is entering its entry; see `Launcher.launch`."""
        request = spec.request()
        last_words = ""
        for _ in range(_ATTEMPTS):
            template = self._running(spec)
            try:
                return await template.launch(spec, request)
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:  # the template is well
                    message = "this user has sent more descriptors that nobody has received than it may open files"
                    hints = ["raise the limit of open files: `ulimit -n 1024`, or `LimitNOFILE=1024` in a unit"]
                    raise LaunchError(spec.name, "hand-over", message, errno=error.errno, hints=hints) from error
                last_words = str(error)
            except LaunchError as error:
                if error.step != ENDED_SILENTLY or not await template.ends_soon():
                    raise
            last_words = template.last_words() or last_words
            await self._discard(spec.runtime, template)
        raise LaunchError(spec.name, "template", "; ".join(filter(None, ["the template process ended", last_words])))

    async def aclose(self) -> None:
        """End the templates, bounded in time, and start none again; the processes they forked go on."""
        self._is_closed = True
        while self._templates:
            _, template = self._templates.popitem()
            await template.aclose()

    def _running(self, spec: LaunchSpec) -> Template:
        template = self._templates.get(spec.runtime)
        if template is None:
            if self._is_closed:
                raise LaunchError(spec.name, "template", "the host was closed")
            try:
                template = self._templates[spec.runtime] = Template(spec.runtime, self._groups)
            except OSError as error:
                raise LaunchError(spec.name, "exec", f"{spec.runtime.interpreter}: {error}") from error
        return template

    async def _discard(self, runtime: WorkerRuntime, template: Template) -> None:
        if self._templates.get(runtime) is template:
            del self._templates[runtime]
        await template.aclose()
