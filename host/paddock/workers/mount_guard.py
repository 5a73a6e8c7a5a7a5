"""The host's end of the process that mounts guards again over files replaced in folders that workers may write to.

The first worker with a guarded place starts the process; the end of the host ends it. The host names each worker to it
before any code of the module runs. The host waits for it a bounded time: ten seconds a worker, five at a session's end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import count
from typing import Any, Final

import anyio
import anyio.to_thread

from paddock.errors import LaunchError
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock.workers.reaper import Reaper
from paddock.workers.restart import RestartPolicy, RestartState
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox.profile import Mount, SandboxProfile
from paddock_sandbox.remounting import is_elsewhere, is_gone, kept_inside
from paddock_sdk.worker.init_socket import pack, unpack

_MESSAGE_BYTES: Final = 1 << 16
_START_SECONDS: Final = 10.0  # for an interpreter to start, and to look at the guarded paths
_ATTEMPTS: Final = 5  # a file that is saved just as it is mounted is hardly saved again a moment later
_END_SECONDS: Final = 5.0  # to look a last time at replaced paths
_RESTARTS: Final = RestartPolicy()
_AGAIN_SECONDS: Final = 0.1  # after a death, so that one that dies at each start keeps nobody busy
_NONE_AGAIN: Final = "what is replaced in granted folders is not guarded again: the process for that ended"

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


class SessionGuard:
    """What one session has guarded by the process of its host, and hears of it.

    `on_replaced` is called on the loop with each replacement, and again at the end if its content changed since;
    `on_problem` with the reason why something is not guarded.
    """

    def __init__(
        self,
        guard: MountGuard,
        on_replaced: Callable[[Replacement], None],
        on_problem: Callable[[str], None],
    ) -> None:
        self.on_replaced = on_replaced
        self.on_problem = on_problem
        self.number = guard.next_number()
        self._guard = guard

    def prepare(self) -> None:
        """Start the process before the first worker starts, so that the two starts overlap."""
        self._guard.prepare()

    async def follow(
        self, name: str, process: ModuleProcess, mounts: Sequence[Mount], unheld: Sequence[Mount] = ()
    ) -> None:
        """Guard these mounts of a worker for as long as it lives; return when they are, as they are now.

        `unheld` are links of those that are no mounts yet.
        """
        followed = _Followed(self, name, process, mounts, unheld)
        self._guard.follow(followed)
        with anyio.move_on_after(_START_SECONDS):
            await followed.watching.wait()
            return
        self.on_problem(f"{name}: what is replaced in its folders may be guarded again late")

    async def aclose(self) -> None:
        """Wait for the last replacements, and have the session forgotten; bounded in time."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_END_SECONDS):
            await self._guard.leave(self)


@dataclass(frozen=True, slots=True)
class _Followed:
    """A worker whose mounts are guarded; `watching` is set once they are, or nothing can be waited for."""

    session: SessionGuard
    name: str
    process: ModuleProcess
    mounts: Sequence[Mount]
    unheld: Sequence[Mount]
    watching: asyncio.Event = field(default_factory=asyncio.Event)

    def request(self, number: int) -> bytes:
        """Return the request to follow it, as `number`."""
        mounts, unheld = ([astuple(mount) for mount in some] for some in (self.mounts, self.unheld))
        return pack({"watch": {"id": number, "session": self.session.number, "mounts": mounts, "unheld": unheld}})


class MountGuard:
    """The process that guards for all sessions of one host, with an interpreter of `runtime`.

    If it dies, another follows the workers that live, unless that happened too often of late.
    """

    def __init__(self, runtime: WorkerRuntime) -> None:
        self._runtime = runtime
        self._numbers = count()
        self._followed: dict[int, _Followed] = {}
        self._leaving: dict[int, asyncio.Event] = {}
        self._deaths = RestartState()
        self._control: socket.socket | None = None
        self._reaper: Reaper | None = None
        self._ended = asyncio.Event()
        self._is_closing = False

    def next_number(self) -> int:
        """Return a number that no session or worker has had here."""
        return next(self._numbers)

    def prepare(self) -> None:
        """Start the process, unless it runs."""
        try:
            self._running()
        except OSError:
            pass  # `follow` tries again, and reports it

    def follow(self, followed: _Followed) -> None:
        """Have a worker followed for as long as it lives."""
        number = self.next_number()
        self._followed[number] = followed
        self._send(number, followed)

    async def leave(self, session: SessionGuard) -> None:
        """Wait for the last replacements in a session's folders, and forget its workers."""
        numbers = [number for number, one in self._followed.items() if one.session is session]
        try:
            if numbers and self._control is not None:
                left = self._leaving[session.number] = asyncio.Event()
                self._control.send(pack({"leave": session.number}), socket.MSG_NOSIGNAL)
                await left.wait()
        except OSError:
            pass  # it has ended, or does not answer
        finally:
            self._leaving.pop(session.number, None)
            for number in numbers:
                del self._followed[number]

    def _send(self, number: int, followed: _Followed) -> None:
        process = followed.process
        fds: list[int] = []
        try:
            folder = f"/proc/{process.pid}"
            flags = os.O_RDONLY | os.O_CLOEXEC
            fds += [os.open(f"{folder}/ns/mnt", flags), os.open(f"{folder}/mountinfo", flags)]
            fds.append(os.pidfd_open(process.pid))
            if process.status is not None:
                raise ProcessLookupError  # and the opened file may be another one
            socket.send_fds(self._running(), [followed.request(number)], fds, socket.MSG_NOSIGNAL)
        except (OSError, ValueError) as error:
            followed.watching.set()  # there is nothing to wait for
            if process.status is None:
                reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
                followed.session.on_problem(
                    f"{followed.name}: what is replaced in its folders is not guarded again: {reason.lower()}"
                )
        finally:
            for fd in fds:
                os.close(fd)

    async def aclose(self) -> None:
        """End the process; bounded in time."""
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
            self._deaths = self._deaths.after_death(_RESTARTS, time.monotonic())
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._follow_again)

    def _follow_again(self) -> None:
        """Have the workers that live followed by another process; say so where it died too often for that."""
        for number, followed in self._followed.items():
            if followed.process.status is not None or self._is_closing:
                followed.watching.set()
            elif self._deaths.quarantined:
                followed.watching.set()
                followed.session.on_problem(_NONE_AGAIN)
            else:
                self._send(number, followed)

    def _note(self, message: dict[str, Any]) -> None:
        if "left" in message:
            if (left := self._leaving.get(message["left"])) is not None:
                left.set()
            return
        if "blind" in message:
            blind = f"what is moved in granted folders is guarded again later: {str(message['blind']).lower()}"
            for session in {one.session: None for one in self._followed.values()}:
                session.on_problem(blind)
            return
        followed = self._followed.get(message["watching"] if "watching" in message else message["id"])
        if followed is None:  # its session left
            return
        if "watching" in message:
            followed.watching.set()
        elif "open" in message:
            reason = str(message["problem"]).lower()
            followed.session.on_problem(
                f"{followed.name}: nothing keeps the link {message['open']} from being replaced: {reason}"
            )
        else:
            followed.session.on_replaced(
                Replacement(followed.name, message["path"], message["what"], message["problem"])
            )

    def _hang_up(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            asyncio.get_running_loop().remove_reader(control)
            control.close()
        self._ended.set()
        for left in self._leaving.values():
            left.set()
        for followed in self._followed.values() if self._is_closing else ():
            followed.watching.set()


class GuardedLauncher:
    """A launcher for a module that may write to folders with something guarded `inside`."""

    def __init__(self, launcher: Launcher, guard: SessionGuard, inside: Sequence[Mount]) -> None:
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


def guarded_launcher(launcher: Launcher, guard: SessionGuard, profile: SandboxProfile) -> Launcher:
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
