"""The host's end of the process that mounts guards again over files replaced in folders that workers may write to.

The first worker with a guarded place starts the process; `aclose`, or the end of the host, ends it. The host names each
worker to it before any code of the module runs. The host waits for it a bounded time: ten seconds a worker, five at the
end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

import anyio
import anyio.to_thread

from paddock.errors import LaunchError
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock.workers.reaper import Reaper
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox.profile import Mount, SandboxProfile
from paddock_sandbox.remounting import is_elsewhere, is_gone, kept_inside
from paddock_sdk.worker.init_socket import pack, unpack

_MESSAGE_BYTES: Final = 1 << 16
_START_SECONDS: Final = 10.0  # for an interpreter to start, and to look at the guarded paths
_ATTEMPTS: Final = 5  # a file that is saved just as it is mounted is hardly saved again a moment later
_END_SECONDS: Final = 5.0  # to look a last time at replaced paths

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A guarded path that was replaced while a module could see it: `what` it is now, `problem` why it is open."""

    module: str
    path: str
    what: str
    problem: str = ""

    @property
    def line(self) -> str:
        """One line for a person."""
        guarded = f"it is not guarded since: {self.problem}" if self.problem else "it was guarded again at once"
        return f"{self.path} was replaced during the run, {self.what}; {guarded}"


class MountGuard:
    """Guards for one host, with an interpreter of `runtime`.

    `on_replaced` is called on the loop with each replacement, and again at the end if its content changed since;
    `on_problem` with the reason why something is not guarded.
    """

    def __init__(
        self,
        runtime: WorkerRuntime,
        on_replaced: Callable[[Replacement], None],
        on_problem: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._on_replaced = on_replaced
        self._on_problem = on_problem
        self._names: list[str] = []
        self._watching: list[asyncio.Event] = []
        self._control: socket.socket | None = None
        self._reaper: Reaper | None = None
        self._ended = asyncio.Event()
        self._is_closing = False

    def prepare(self) -> None:
        """Start the process before the first worker starts, so that the two starts overlap."""
        try:
            self._running()
        except OSError:
            pass  # `follow` tries again, and reports it

    async def follow(
        self, name: str, process: ModuleProcess, mounts: Sequence[Mount], unheld: Sequence[Mount] = ()
    ) -> None:
        """Guard these mounts of a worker for as long as it lives; return when they are, as they are now.

        `unheld` are links of those that are no mounts yet.
        """
        watching = self._watch(name, process, mounts, unheld)
        with anyio.move_on_after(_START_SECONDS):
            await watching.wait()
            return
        self._on_problem(f"{name}: what is replaced in its folders may be guarded again late")

    def _watch(
        self, name: str, process: ModuleProcess, mounts: Sequence[Mount], unheld: Sequence[Mount]
    ) -> asyncio.Event:
        watching = asyncio.Event()
        fds: list[int] = []
        try:
            folder = f"/proc/{process.pid}"
            flags = os.O_RDONLY | os.O_CLOEXEC
            fds += [os.open(f"{folder}/ns/mnt", flags), os.open(f"{folder}/mountinfo", flags)]
            fds.append(os.pidfd_open(process.pid))
            if process.status is not None:
                raise ProcessLookupError  # and the opened file may be another one
            watch = {
                "id": len(self._names),
                "mounts": [astuple(mount) for mount in mounts],
                "unheld": [astuple(link) for link in unheld],
            }
            socket.send_fds(self._running(), [pack({"watch": watch})], fds, socket.MSG_NOSIGNAL)
            self._names.append(name)
            self._watching.append(watching)
        except (OSError, ValueError) as error:
            watching.set()  # there is nothing to wait for
            if process.status is None:
                reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
                self._on_problem(f"{name}: what is replaced in its folders is not guarded again: {reason.lower()}")
        finally:
            for fd in fds:
                os.close(fd)
        return watching

    async def aclose(self) -> None:
        """Wait for the last replacements, and end the process; bounded in time."""
        self._is_closing = True
        control, reaper = self._control, self._reaper
        if control is None or reaper is None:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(_END_SECONDS):
            try:
                control.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has ended
            await self._ended.wait()
            await reaper.ends_within(_END_SECONDS)
        reaper.kill()
        self._hang_up()

    def _running(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                settings = {"guard": theirs.fileno(), "host": os.getpid()}
                null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    self._reaper = Reaper(self._runtime.spawn(settings, (theirs.fileno(),), null))
                finally:
                    os.close(null)
            except BaseException:
                self._control.close()
                self._control = None
                raise
            finally:
                theirs.close()
            self._control.setblocking(False)
            asyncio.get_running_loop().add_reader(self._control, self._hear)
        return self._control

    def _hear(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._note(unpack(data))
            return
        self._hang_up()
        if not self._is_closing:
            self._on_problem("what is replaced in granted folders is not guarded again: the process for that ended")

    def _note(self, message: dict[str, Any]) -> None:
        if "watching" in message:
            self._watching[message["watching"]].set()
            return
        if "open" in message:
            name, reason = self._names[message["id"]], str(message["problem"]).lower()
            self._on_problem(f"{name}: nothing keeps the link {message['open']} from being replaced: {reason}")
            return
        if "blind" in message:
            self._on_problem(
                f"what is moved in granted folders is guarded again later: {str(message['blind']).lower()}"
            )
            return
        self._on_replaced(Replacement(self._names[message["id"]], message["path"], message["what"], message["problem"]))

    def _hang_up(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            asyncio.get_running_loop().remove_reader(control)
            control.close()
        self._ended.set()
        for watching in self._watching:
            watching.set()


class GuardedLauncher:
    """A launcher for a module that may write to folders with something guarded `inside`."""

    def __init__(self, launcher: Launcher, guard: MountGuard, inside: Sequence[Mount]) -> None:
        self._launcher = launcher
        self._guard = guard
        self._inside = inside

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that can change nothing guarded; see `Launcher.launch`.

        A path that the user removed since the session began does not fail a later start. If the path comes back, it is
        guarded again. Nor does a file that an editor replaces at the moment at which it is mounted: it is mounted anew.
        """
        self._guard.prepare()
        for further in reversed(range(_ATTEMPTS)):
            try:
                given = await _without_gone(spec, self._inside)
                process = await self._launcher.launch(given)
                break
            except LaunchError as error:
                if not further or not _was_replaced(error, self._inside):
                    raise
        # Bubblewrap mounts nothing over a link, even where the kernel allows it.
        unheld = given.profile.links if given.profile.level == "bwrap" else ()
        try:
            await self._guard.follow(spec.name, process, self._inside, unheld)
        except BaseException:
            await process.abandon()
            raise
        return process

    async def aclose(self) -> None:
        """Close nothing: the owner of the launcher and the guard closes them."""


def guarded_launcher(launcher: Launcher, guard: MountGuard, profile: SandboxProfile) -> Launcher:
    """Return what launches workers of a profile: `launcher` itself, where none of them could replace anything guarded.

    The workers have namespaces of their own.
    """
    inside = (*kept_inside(profile.mounts), *profile.links, *profile.closed)
    return GuardedLauncher(launcher, guard, inside) if inside else launcher


async def _without_gone(spec: LaunchSpec, inside: Sequence[Mount]) -> LaunchSpec:
    """Return the launch without the mounts whose sources are no longer there."""
    links = spec.profile.links
    gone = await anyio.to_thread.run_sync(_gone, inside, links)
    if not gone:
        return spec
    mounts = tuple(mount for mount in spec.profile.mounts if mount.target not in gone)
    links = tuple(link for link in links if link.target not in gone)
    closed = tuple(place for place in spec.profile.closed if place.target not in gone)
    return replace(spec, profile=replace(spec.profile, mounts=mounts, links=links, closed=closed))


def _was_replaced(error: LaunchError, inside: Iterable[Mount]) -> bool:
    """Whether a launch failed because the source of a guarded mount was unlinked after it had been opened."""
    steps = (f"{'guard' if mount.closed else 'mount'} {mount.target}" for mount in inside)
    return error.errno == errno.ENOENT and error.step in steps


def _gone(mounts: Iterable[Mount], links: Collection[Mount]) -> frozenset[str]:
    """Return the targets of those of the mounts that cannot be made."""
    return frozenset(
        mount.target
        for mount in mounts
        if is_gone(mount) or is_elsewhere(mount) or (os.path.islink(mount.source) and mount not in links)
    )
