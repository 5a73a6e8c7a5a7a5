"""Have the system's bubblewrap make a worker's namespaces, where the kernel lets only that program make them.

The worker then confines itself as it does at other levels. A mount that bubblewrap cannot make safely is left out:
there is no `/proc`, since bubblewrap could only mount one with the kernel's settings in it. Root cannot use this way,
because the worker would stay root outside.

Bubblewrap gets a descriptor of each source, never its path: another module may have put a link there since the host
judged it. It does follow links on the way to a mount's target; the launch then fails, since the mount is not there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from paddock.errors import LaunchError
from paddock.workers.launcher import LaunchSpec
from paddock_sandbox.mounts import DEVICES, account_files, open_places
from paddock_sandbox.profile import Mount, SandboxProfile
from paddock_sandbox.step_error import StepError

_PROGRAM = "bwrap"
_PATH = "/usr/bin:/bin:/usr/local/bin"  # not the caller's: a program found there decides how modules are confined
_WAY_BYTES = 1 << 20  # room for folders
# For the worker to make its network with: over the namespaces alone, and given up before its entry.
_CAPABILITIES_OF_A_NETWORK = ("CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE")
_LINKS = {"/dev/fd": "/proc/self/fd", "/dev/shm": "/tmp"}  # noqa: S108 - inside, where no other user is


@contextmanager
def bubblewrap_command(spec: LaunchSpec) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Yield the command that starts an interpreter inside the namespaces and mounts of `spec`, and its descriptors.

    Opening them may take as long as a file system takes to answer.

    Raises:
        LaunchError: there is no bubblewrap, the caller is root, or something to mount is missing, or a link by now.
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
        *("--size", str(profile.tmp_bytes), "--tmpfs", profile.scratch),
    ]
    if profile.network is not None:
        for capability in _CAPABILITIES_OF_A_NETWORK:
            arguments += ("--cap-add", capability)
    for device in DEVICES:
        arguments += ("--dev-bind", device, device)
    for place, target in _LINKS.items():
        arguments += ("--symlink", target, place)
    ways = _ways_through(profile)
    for way in ways:
        arguments += ("--size", str(_WAY_BYTES), "--tmpfs", way)
    mounts = (_interpreter(spec.runtime.interpreter), *profile.mounts)
    with ExitStack() as opened:
        files = []
        for name, text in account_files(profile.scratch).items():
            files.append(_file_of(text))
            opened.callback(os.close, files[-1])
            arguments += ("--perms", "0644", "--file", str(files[-1]), name)
        try:
            places = open_places(mount.source for mount in mounts)
        except StepError as error:
            number = error.errno or 0
            raise LaunchError(spec.name, error.step, os.strerror(number), errno=number) from error
        for mount, source in zip(mounts, places, strict=True):
            opened.callback(os.close, source)
            arguments += ("--bind-fd" if mount.writable else "--ro-bind-fd", str(source), mount.target)
        for sealed in (*ways, "/"):
            arguments += ("--remount-ro", sealed)
        yield (program, *arguments, "--chdir", "/", "--"), (*files, *places)


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


def _interpreter(path: Path) -> Mount:
    return Mount(os.fspath(path), os.fspath(path))
