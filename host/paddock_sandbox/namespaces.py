"""Give a process namespaces of its own: users, processes, mounts, network, IPC, host name and cgroups.

The new process starts with every capability over its own namespaces and none over anything else. Its user outside
depends on the process that maps it. An ordinary user's process can only be that user. Root's is mapped by its parent to
an id that no other process has, because a process that stays root outside keeps root's files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import signal
from collections.abc import Iterator
from typing import Final

from paddock_sandbox.syscalls import WaitingProcess, call

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWCGROUP: Final = 0x02000000
_CLONE_NEWUTS: Final = 0x04000000
_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWPID: Final = 0x20000000
_CLONE_NEWNET: Final = 0x40000000
_CLONE_ALL: Final = (
    _CLONE_NEWUSER | _CLONE_NEWPID | _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS | _CLONE_NEWCGROUP
)

_NS_GET_USERNS: Final = 0xB701  # from <linux/nsfs.h>

MODULE_ID: Final = 1000
"""The user and group inside, where root's worker is: at 0 programs expect powers that no worker has."""

# The ids from 0x70000000 on are used by no distribution, container manager or systemd, up to the last 2**17 of 31 bits.
_FIRST_ID: Final = 0x7000_0000
_LAST_ID: Final = 0x7FFD_FFFF


def fork_into_new() -> int:
    """Fork a child into namespaces of its own, as process 1 of them; return its pid, and 0 in the child.

    The child has no user id until it is mapped. Neither Python's nor the C library's fork handlers run: the caller has
    one thread, and the child must do little more than fork again.
    """
    return _clone(_CLONE_ALL)


def fork_plainly() -> int:
    """Fork a child in the same way, without any namespace of its own."""
    return _clone(0)


def _clone(namespaces: int) -> int:
    return call("clone", namespaces | signal.SIGCHLD, 0, 0, 0, 0)


def map_own_ids(uid: int, gid: int) -> None:
    """Map the ids that the calling process had outside its new user namespace to themselves.

    An ordinary user may do this without help; supplementary groups stay, unnamed.
    """
    _write("/proc/self/setgroups", "deny")  # or the kernel lets no ordinary user map a group
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def map_ids_of(pid: int, outer: int, inner: int = MODULE_ID) -> None:
    """Map id `inner` of a process in a new user namespace to `outer` here; takes root in the caller's namespace."""
    for kind in ("uid", "gid"):
        _write(f"/proc/{pid}/{kind}_map", f"{inner} {outer} 1")


def leave_for_new_ipc(uid: int, gid: int) -> None:
    """Enter a new user namespace, as its root, and a new IPC namespace that belongs to it.

    `uid` and `gid` are the caller's, which has one thread.
    """
    call("unshare", _CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {uid} 1")
    _write("/proc/self/gid_map", f"0 {gid} 1")
    call("unshare", _CLONE_NEWIPC)


def enter_ipc_of(pid: int) -> None:
    """Enter the IPC namespace of a process, over which the caller has every capability."""
    process = os.pidfd_open(pid)  # a number that may mean nothing in the `/proc` that is seen here
    try:
        call("setns", process, _CLONE_NEWIPC)
    finally:
        os.close(process)


def enter_mounts(namespace: int) -> None:
    """Enter a mount namespace by its descriptor, with every power over it; the caller has one thread, and made it."""
    if os.geteuid() != 0:
        # The user that made the namespaces has every power over them; root has it anyway, and keeps its own id there.
        call("setns", fcntl.ioctl(namespace, _NS_GET_USERNS), 0)
    call("setns", namespace, 0)


def take_mapped_ids() -> None:
    """Take the ids that the parent mapped, in place of root's; the caller keeps its capabilities in its namespaces."""
    os.setgroups([])
    os.setresgid(MODULE_ID, MODULE_ID, MODULE_ID)
    os.setresuid(MODULE_ID, MODULE_ID, MODULE_ID)


def unused_id() -> int:
    """Return an id that no user and no other process has, as far as can be known.

    Raises:
        OSError: the caller is itself in a namespace with too few ids.
    """
    for first, last in _candidates(_ranges("uid")):
        return first + secrets.randbelow(last - first + 1)
    raise OSError(errno.EPERM, "this user namespace has no ids to spare for workers")


def _candidates(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for first, count in ranges:
        if first <= _FIRST_ID and first + count > _LAST_ID:
            yield _FIRST_ID, _LAST_ID
    for first, count in ranges:
        # A container's: below its upper half are the users of the system in it.
        if count > 2048:
            yield first + count // 2, first + count - 2  # the last one is often `nobody`


def user_namespace(inner: int, outer: int, group: int | None = None) -> int:
    """Return a descriptor of a user namespace that maps id `inner` to `outer`, for idmapped mounts; requires root.

    With `group`, that group is mapped to `outer`, and every other group to itself. The kernel refuses writes to files
    whose group is unmapped in a mount, for every owner. No process stays in the namespace.
    """
    child = WaitingProcess(_CLONE_NEWUSER)
    try:
        if group is None:
            map_ids_of(child.pid, outer, inner)
        else:
            _write(f"/proc/{child.pid}/uid_map", f"{inner} {outer} 1")
            _write(f"/proc/{child.pid}/gid_map", "\n".join([f"{group} {outer} 1", *_groups_but(group, outer)]))
        return os.open(f"/proc/{child.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        child.end()


def _groups_but(*left_out: int) -> Iterator[str]:
    """Yield lines that map every group there is here to itself, but for some."""
    for first, count in _ranges("gid"):
        for group in sorted(left_out):
            if first <= group < first + count:
                if group > first:
                    yield f"{first} {first} {group - first}"
                first, count = group + 1, first + count - group - 1
        if count:
            yield f"{first} {first} {count}"


def _ranges(kind: str) -> list[tuple[int, int]]:
    """Return which ids there are in this user namespace: the first of each range, and how many."""
    with open(f"/proc/self/{kind}_map", encoding="ascii") as lines:
        return [(int(first), int(count)) for first, _, count in map(str.split, lines)]


def _write(path: str, text: str) -> None:
    # One write and no creation: the kernel takes each of these files as a whole, and once.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    except OSError as error:
        raise OSError(error.errno, f"{path}: {os.strerror(error.errno or 0)}") from error
    finally:
        os.close(fd)
