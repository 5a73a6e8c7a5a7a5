"""Have the system's bubblewrap make a worker's namespaces, where the kernel lets only that program make them.

The worker then confines itself as it does at other levels. A mount that bubblewrap cannot make safely is left out:
there is no `/proc`, since bubblewrap could only mount one with the kernel's settings in it. Root cannot use this way,
because the worker would stay root outside.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from paddock.errors import LaunchError
from paddock.workers.launcher import LaunchSpec
from paddock_sandbox.mounts import DEVICES
from paddock_sandbox.profile import Mount, SandboxProfile

_PROGRAM = "bwrap"
_PATH = "/usr/bin:/bin:/usr/local/bin"  # not the caller's: a program found there decides how modules are confined
_WAY_BYTES = 1 << 20  # room for folders
# For the worker to make its network with: over the namespaces alone, and given up before its entry.
_CAPABILITIES_OF_A_NETWORK = ("CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE")
_LINKS = {"/dev/fd": "/proc/self/fd", "/dev/shm": "/tmp"}  # noqa: S108 - inside, where no other user is


def bubblewrap_command(spec: LaunchSpec) -> tuple[str, ...]:
    """Return the command that starts an interpreter inside the namespaces and mounts of `spec`.

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
    for mount in (_interpreter(spec.runtime.interpreter), *profile.mounts):
        arguments += ("--bind" if mount.writable else "--ro-bind", mount.source, mount.target)
    for sealed in (*ways, "/"):
        arguments += ("--remount-ro", sealed)
    return (program, *arguments, "--chdir", "/", "--")


def _ways_through(profile: SandboxProfile) -> list[str]:
    """Return the folders between the private folder and the mounts in it; they are to be as read-only as the root."""
    inside = profile.scratch + "/"
    below = [mount.target.removeprefix(inside) for mount in profile.mounts if mount.target.startswith(inside)]
    firsts = dict.fromkeys(path.partition("/")[0] for path in below if "/" in path)
    return [inside + first for first in firsts if first not in below]


def _interpreter(path: Path) -> Mount:
    return Mount(os.fspath(path), os.fspath(path))
