"""Have the system's bubblewrap make a worker's namespaces, where the kernel lets only that program make them.

The worker then confines itself as it does at other levels. bubblewrap mounts a `/proc` with the kernel's settings in
it, which the worker replaces early. Where either is refused, there is none. Root cannot use this way, because the
worker would stay root outside.

Bubblewrap gets a descriptor of each source, never its path: another module may have put a link there since the host
judged it. It also follows links on the way to a mount's target. So it mounts only in folders that it made itself. What
belongs below another mount, it stages; a process of ours attaches that without following a link, while bubblewrap waits
(`paddock_sandbox.staged_mounts`).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, replace
from pathlib import PurePath

import anyio
import anyio.to_thread

from paddock.errors import LaunchError
from paddock.workers.exec_launcher import ExecLauncher
from paddock.workers.launcher import LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock_sandbox import staged_mounts
from paddock_sandbox.mounts import CLOSED_FILE, CLOSED_FOLDER, DEVICES, TERMINALS, account_files, open_places
from paddock_sandbox.profile import Mount, SandboxProfile
from paddock_sandbox.step_error import StepError

_PROGRAM = "bwrap"
_PATH = "/usr/bin:/bin:/usr/local/bin"  # not the caller's: a program found there decides how modules are confined
_WAY_BYTES = 1 << 20  # room for folders
# For the worker, over its namespaces alone, and given up before its entry: for its `/proc`, terminals and network.
_CAPABILITIES_OF_A_NETWORK = {"CAP_NET_ADMIN": 12, "CAP_NET_BIND_SERVICE": 10}
_CAPABILITY_OF_A_BROKER = {"CAP_SYS_PTRACE": 19}
_CAPABILITY_TO_MOUNT = {"CAP_SYS_ADMIN": 21}
_LINKS = {"/dev/fd": "/proc/self/fd", "/dev/ptmx": "pts/ptmx", "/dev/shm": "/tmp"}  # noqa: S108 - no other user's
_OUTCOME_BYTES = 1 << 16
_END_SECONDS = 2.0  # a killed bubblewrap ends at once, and its child with it


@dataclass(frozen=True, slots=True)
class BubblewrapCommand:
    """A command and the descriptors that it takes, with the other ends of two of its pipes.

    `staged` are the mounts that it stages, each with its place there as source, and those that are closed. If there are
    any, it writes the number of its child to `info`, and waits for a byte from `go` when all is mounted.
    """

    words: tuple[str, ...]
    fds: tuple[int, ...]
    staged: tuple[Mount, ...] = ()
    info: int = -1
    go: int = -1


class BubblewrapLauncher(ExecLauncher):
    """Launches behind bubblewrap, in whose namespaces no control groups can be made."""

    def __init__(self) -> None:
        """Mount no `/proc` if the first launch fails with one and succeeds without."""
        super().__init__()
        self._with_proc = True
        self._is_tried = False

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that is entering its entry; see `Launcher.launch`."""
        try:
            process = await super().launch(spec)
        except LaunchError:
            if self._is_tried:
                raise
            self._with_proc = False
            try:
                process = await super().launch(spec)
            except BaseException:
                self._with_proc = True
                raise
        self._is_tried = True
        return process

    async def _start(
        self,
        spec: LaunchSpec,
        settings: Mapping[str, object],
        fds: Sequence[int],
        stderr: int,
    ) -> None:
        with ExitStack() as held:
            with ExitStack() as lent:
                interpreter = os.fspath(spec.runtime.interpreter)
                mounts = (Mount(interpreter, interpreter), *spec.profile.mounts)
                places = await _opened(spec, mounts)
                for place in places:
                    lent.callback(os.close, place)
                command = bubblewrap_command(spec, mounts, places, held, lent, with_proc=self._with_proc)
                child = spec.runtime.spawn(settings, (*fds, *command.fds), stderr, through=command.words)
            if not command.staged:
                self._watch(child)
                return
            try:
                self._watch(child)
                if await self._attach(spec, command, stderr):
                    os.write(command.go, b".")
            except BrokenPipeError:
                pass  # bubblewrap has ended, and printed why
            except BaseException:
                # Before the pipe is closed: at its end bubblewrap would go on without these mounts. With its child,
                # which would wait for ever for a parent that is killed early.
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                with anyio.CancelScope(shield=True), suppress(subprocess.TimeoutExpired):
                    await anyio.to_thread.run_sync(child.wait, _END_SECONDS)
                raise

    async def _attach(self, spec: LaunchSpec, command: BubblewrapCommand, stderr: int) -> bool:
        """Have what is staged attached at its targets; return False if bubblewrap has ended.

        Raises:
            LaunchError: a target is missing, or a link is on the way to it.
        """
        with ExitStack() as held:
            with ExitStack() as lent:
                outcome, theirs = _pipe(held, lent)
                staged = {
                    "info": command.info,
                    "outcome": theirs,
                    "capabilities": sum(1 << bit for bit in _capabilities(spec.profile).values()),
                    "mounts": [astuple(mount) for mount in command.staged],
                }
                self._watch(spec.runtime.spawn({"staged": staged}, (command.info, theirs), stderr))
            await anyio.wait_readable(outcome)
            told = json.loads(os.read(outcome, _OUTCOME_BYTES) or b'{"step": "staged mounts"}')
        if "step" in told:
            raise LaunchError(
                spec.name, told["step"], told.get("reason", "its process ended"), errno=told.get("errno") or 0
            )
        return bool(told["attached"])


def bubblewrap_command(
    spec: LaunchSpec,
    mounts: Sequence[Mount],
    places: Sequence[int],
    held: ExitStack,
    lent: ExitStack,
    *,
    with_proc: bool = True,
) -> BubblewrapCommand:
    """Return the command that starts an interpreter inside the namespaces and `mounts` of a launch.

    `places` are descriptors of the sources. `held` gets the ends of pipes that the caller keeps, and `lent` those that
    bubblewrap gets.

    Raises:
        LaunchError: there is no bubblewrap, or the caller is root.
    """
    program = shutil.which(_PROGRAM, path=_PATH)
    if program is None:
        raise LaunchError(
            spec.name, "bubblewrap", "the program bwrap is not installed", hints=["install the package `bubblewrap`"]
        )
    if os.getuid() == 0:
        raise LaunchError(
            spec.name, "bubblewrap", "started by root, it would leave the worker root", hints=["use isolation ns"]
        )
    profile = spec.profile
    arguments = [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *("--as-pid-1", "--new-session", "--die-with-parent", "--hostname", "paddock"),
        *("--size", str(profile.tmp_bytes), "--tmpfs", profile.scratch, "--dir", TERMINALS),
    ]
    if with_proc:
        arguments += ("--proc", "/proc")
    for capability in _capabilities(profile):
        arguments += ("--cap-add", capability)
    for device in DEVICES:
        arguments += ("--dev-bind", device, device)
    for place, target in _LINKS.items():
        arguments += ("--symlink", target, place)
    ways = _ways_through(profile)
    for way in ways:
        arguments += ("--size", str(_WAY_BYTES), "--tmpfs", way)
    files = []
    for name, text in account_files(profile.scratch).items():
        files.append(_file_of(text))
        lent.callback(os.close, files[-1])
        arguments += ("--perms", "0644", "--file", str(files[-1]), name)
    if profile.closed:
        nothing = _file_of("")
        lent.callback(os.close, nothing)
        arguments += ("--perms", "0000", "--file", str(nothing), CLOSED_FILE, "--perms", "0000", "--dir", CLOSED_FOLDER)
        files.append(nothing)
    staged = _staged(mounts)
    if staged or profile.closed:
        arguments += ("--size", str(_WAY_BYTES), "--tmpfs", staged_mounts.FOLDER)
    for number, (mount, source) in enumerate(zip(mounts, places, strict=True)):
        target = staged[number].source if number in staged else mount.target
        arguments += ("--bind-fd" if mount.writable else "--ro-bind-fd", str(source), target)
    for sealed in (*ways, "/"):
        arguments += ("--remount-ro", sealed)
    command = BubblewrapCommand((program, *arguments, "--chdir", "/", "--"), (*files, *places))
    if not staged and not profile.closed:
        return command
    info, theirs_of_info = _pipe(held, lent)
    theirs_of_go, go = _pipe(lent, held)
    pipes = ("--info-fd", str(theirs_of_info), "--block-fd", str(theirs_of_go))
    fds = (*command.fds, theirs_of_info, theirs_of_go)
    attached = (*staged.values(), *profile.closed)
    return BubblewrapCommand((program, *pipes, *command.words[1:]), fds, attached, info, go)


async def _opened(spec: LaunchSpec, mounts: Sequence[Mount]) -> list[int]:
    """Return descriptors of the sources of mounts.

    Raises:
        LaunchError: a source is missing, or a link by now.
    """
    # In a thread: a file system may be slow to answer. It goes on if the caller is cancelled.
    opening = asyncio.get_running_loop().run_in_executor(None, open_places, [mount.source for mount in mounts])
    try:
        return await asyncio.shield(opening)
    except StepError as error:
        number = error.errno or 0
        raise LaunchError(spec.name, error.step, os.strerror(number), errno=number) from error
    except BaseException:
        opening.add_done_callback(_close_places)
        raise


def _close_places(opening: asyncio.Future[list[int]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        for place in opening.result():
            os.close(place)


def _staged(mounts: Sequence[Mount]) -> dict[int, Mount]:
    """Return the mounts that belong below an earlier one, by their numbers, each with a place of its own as source."""
    made: set[str] = set()
    staged = {}
    for number, mount in enumerate(mounts):
        if any(str(folder) in made for folder in PurePath(mount.target).parents):
            staged[number] = replace(mount, source=f"{staged_mounts.FOLDER}/{number}")
        made.add(mount.target)
    return staged


def _capabilities(profile: SandboxProfile) -> dict[str, int]:
    network = {} if profile.network is None else _CAPABILITIES_OF_A_NETWORK
    return _CAPABILITY_TO_MOUNT | network | (_CAPABILITY_OF_A_BROKER if profile.serves else {})


def _pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    readers.callback(os.close, reader)
    writers.callback(os.close, writer)
    return reader, writer


def _file_of(text: str) -> int:
    """Return a descriptor that a text is read from."""
    file = os.memfd_create("paddock-file", os.MFD_CLOEXEC)
    os.pwrite(file, text.encode(), 0)
    return file


def _ways_through(profile: SandboxProfile) -> list[str]:
    """Return the folders between the private folder and the mounts in it; they are to be as read-only as the root."""
    inside = profile.scratch + "/"
    below = [mount.target.removeprefix(inside) for mount in profile.mounts if mount.target.startswith(inside)]
    firsts = dict.fromkeys(path.partition("/")[0] for path in below if "/" in path)
    return [inside + first for first in firsts if first not in below]
