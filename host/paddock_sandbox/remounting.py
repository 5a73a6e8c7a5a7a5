"""Find the mounts of a worker that the kernel detached, and put them back.

The kernel detaches a mount when a process in another mount namespace renames a file over its mount point or removes it,
as `git config`, editors and checkouts do. The worker can then open the new file of that name. The worker's list of
mounts shows the change at once; a mount that moved along with its folder is missing there under its old name. A worker
that is quicker can still open the file. The calling process must have one thread.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from paddock_sandbox import mounts, namespaces
from paddock_sandbox.profile import Mount

_READ_BYTES: Final = 1 << 16
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")
_TARGET: Final = 4  # of the fields of a line


def kept_inside(every: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return the mounts in a place which may be written to, outermost first: others can detach each of them.

    One that shows something else in such a place is there as the place itself, which nobody may write to.
    """
    every = tuple(every)
    writable = tuple(mount.target.rstrip("/") + "/" for mount in every if mount.writable)
    made: dict[str, Mount] = {}
    inside = []
    for mount in every:
        if not mount.target.startswith(writable):
            made.setdefault(mount.target, mount)
            continue
        folders = map(str, PurePath(mount.target).parents)
        outer = next((made[folder] for folder in folders if folder in made), None)
        if outer is not None and outer.writable:
            inner = mount.target.removeprefix(outer.target.rstrip("/"))
            place = replace(mount, source=outer.source.rstrip("/") + inner)
            inside += [place] if place == mount or not mount.writable else []
        made.setdefault(mount.target, mount)
    return tuple(inside)


def is_gone(mount: Mount) -> bool:
    """Whether a mount's source is absent: an inaccessible one does not count, since a module can cause that."""
    try:
        os.lstat(mount.source)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def is_elsewhere(mount: Mount) -> bool:
    """Whether a link is by now on the way to a mount's source; the source may be one itself."""
    folder = os.path.dirname(mount.source)
    return os.path.realpath(folder) != folder


def attached(mountinfo: int) -> frozenset[str]:
    """Return where something is mounted, by an open `/proc/PID/mountinfo`, in the words of its process.

    Raises:
        OSError: the process is gone.
    """
    os.lseek(mountinfo, 0, os.SEEK_SET)
    parts = []
    while part := os.read(mountinfo, _READ_BYTES):
        parts.append(part)
    lines = b"".join(parts).split(b"\n")[:-1]  # nothing else ends one: a name may have a carriage return in it
    targets = set()
    for line in lines:
        target = line.split(b" ")[_TARGET]
        plain = _ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), target)
        targets.add(os.fsdecode(plain))
    return frozenset(targets)


def put_back(namespace: int, missing: Sequence[Mount]) -> tuple[str, ...]:
    """Attach mounts in a mount namespace, given by its descriptor; return the error of each, or an empty text.

    A child does it, since a process that enters a worker's namespaces cannot come back.
    """
    outcome, result = os.pipe2(os.O_CLOEXEC)
    child = namespaces.fork_plainly()
    if child == 0:
        try:
            os.write(result, json.dumps(_attach_inside(namespace, missing)).encode())
        finally:
            os._exit(0)
    os.close(result)
    try:
        with open(outcome, "rb") as answer:
            report = answer.read()
    finally:
        os.waitpid(child, 0)
    return tuple(json.loads(report)) if report else ("its process ended",) * len(missing)


def _attach_inside(namespace: int, missing: Sequence[Mount]) -> list[str]:
    try:
        namespaces.enter_mounts(namespace)
    except OSError as error:
        return [str(error.strerror)] * len(missing)
    return [_problem_with(mount) for mount in missing]


def _problem_with(mount: Mount) -> str:
    try:
        mounts.cover(mount)
    except OSError as error:
        return str(error.strerror)
    return ""
