"""What the system has to leave a host before it starts workers: open files, processes, a folder and its own files.

Everything that is lacking is one error, with the number that is needed, before anything starts. A check reads a few
files of /proc. Limits that others use up meanwhile are found later, by the step that meets them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from paddock.errors import KindError
from paddock_sdk.worker.attempts import attempt_log

FILES_OF_A_MODULE: Final = 8
FILES_OF_A_SESSION: Final = 16
"""Open files of a host, measured with some to spare; connections of modules come on top."""

SIZE_OF_A_FILE: Final = attempt_log.SIZE
"""Bytes of the largest file that each start of a module makes: the kernel counts memory shared with the host as one."""

_TASKS_OF_A_MODULE: Final = 2  # its worker, and the init around it
_TASKS_OF_A_SESSION: Final = 12  # threads of the host, and the fork server
_MANY_TASKS: Final = 8192  # a limit beyond which the user's tasks are not counted
_OWN_FILES: Final = 0o700  # of a umask: what it takes from the user
_STATUS_BYTES: Final = 4096  # the line is the second: every start of a worker looks for it
_UMASK_LINE: Final = re.compile(rb"^Umask:\s+([0-7]+)$", re.MULTILINE)
_TASK_LINE: Final = re.compile(rb"^(Uid|Threads):\s+(\d+)", re.MULTILINE)


def check_capacity(modules: int) -> None:
    """Refuse to start a session of so many modules where the system does not leave it enough.

    Raises:
        KindError: something is lacking; the error names each thing, and how to get it.
    """
    too_small = [*_size_of_files()]  # which would be taken for a temporary folder that refuses files
    lacks = [*_files(modules), *_processes(modules), *_umask(), *(too_small or _temporary_folder())]
    if lacks:
        raise KindError(
            "NoRoomError",
            "the system does not leave this session what it needs",
            detail=[lack for lack, _ in lacks],
            hints=[hint for _, hint in lacks],
        )


def own_umask() -> int | None:
    """Return the umask of this process, read without changing it; None where the system does not say it."""
    try:
        fd = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.read(fd, _STATUS_BYTES)
        finally:
            os.close(fd)
    except OSError:
        return None
    found = _UMASK_LINE.search(status)
    return int(found[1], 8) if found is not None else None


def check_event_loop() -> None:
    """Refuse any event loop but asyncio's.

    Raises:
        KindError: the application runs on another one.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise KindError(
            "EventLoopError",
            "a session needs the event loop of asyncio, and this application runs on another one, such as Trio's",
            hints=[
                "run it with `asyncio.run(main())` or `anyio.run(main)`",
                "or give the session a thread of its own: `await trio.to_thread.run_sync(asyncio.run, main())`",
            ],
        ) from None


def _files(modules: int) -> Iterator[tuple[str, str]]:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:  # not even that one can be opened
        used = allowed
    needed = used + FILES_OF_A_SESSION + FILES_OF_A_MODULE * modules
    if needed > allowed:
        parts = f"{used} are open, {FILES_OF_A_SESSION} for a session, {FILES_OF_A_MODULE} for each module"
        more = _round(needed)
        yield (
            f"open files: {needed} are needed ({parts}), and the limit is {allowed}",
            f"raise the limit of open files: `ulimit -n {more}`, or `LimitNOFILE={more}` in a unit",
        )


@dataclass(frozen=True, slots=True)
class TaskBound:
    """The most processes and threads that something may have; `in_use` counts those there are, 0 where it has many.

    `raised` says how it gets more, with `{0}` for the number.
    """

    whose: str
    most: int
    in_use: Callable[[], int]
    raised: str


def task_bounds() -> Iterator[TaskBound]:
    """Yield the bounds on what this process and its modules can start together."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if os.geteuid() != 0 and allowed != resource.RLIM_INFINITY:
        count = partial(_tasks_of, os.geteuid()) if allowed < _MANY_TASKS else int
        how = "raise the user's limit of processes: `ulimit -u {0}`, or `LimitNPROC={0}` in a unit"
        yield TaskBound("this user", allowed, count, how)
    for folder, most, used in _groups_of_tasks():
        how = "allow the group more: `TasksMax={0}` in a unit, or `--pids-limit` of a container"
        yield TaskBound(f"the control group {folder}", most, partial(int, used), how)
    for name in ("pid_max", "threads-max"):
        most = int(Path("/proc/sys/kernel", name).read_text())
        yield TaskBound("this machine", most, int, f"raise the kernel's: `sysctl kernel.{name}={{0}}`")


def _processes(modules: int) -> Iterator[tuple[str, str]]:
    needed = _TASKS_OF_A_SESSION + _TASKS_OF_A_MODULE * modules
    lack = f"processes and threads: {needed} are needed, and"
    for bound in task_bounds():
        used = bound.in_use()
        if used + needed > bound.most:
            yield f"{lack} {bound.whose} has {used} of at most {bound.most}", bound.raised.format(_round(used + needed))
            return


def _tasks_of(uid: int) -> int:
    """Return the threads of a user's processes, as the kernel counts them for the limit."""
    tasks = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                facts = dict(_TASK_LINE.findall(Path(f"/proc/{name}/status").read_bytes()))
            except OSError:
                continue
            if int(facts.get(b"Uid", -1)) == uid:
                tasks += int(facts.get(b"Threads", 1))
    return tasks


def _groups_of_tasks() -> Iterator[tuple[str, int, int]]:
    """Yield the groups that bound this process's tasks, by their folders, with the limit and the number in use."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "pids"):
            continue
        top = Path("/sys/fs/cgroup", controllers)
        folder = top / path.lstrip("/")
        for group in (folder, *folder.parents):
            if not group.is_relative_to(top):
                break
            try:
                most, used = ((group / f"pids.{name}").read_text().strip() for name in ("max", "current"))
            except OSError:
                continue
            if most.isdecimal():
                yield str(group), int(most), int(used)


def _size_of_files() -> Iterator[tuple[str, str]]:
    allowed, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if 0 <= allowed < SIZE_OF_A_FILE:
        yield (
            f"files of {SIZE_OF_A_FILE} bytes are needed, and the limit is {allowed}",
            "allow larger files: `ulimit -f unlimited`, or `LimitFSIZE=infinity` in a unit",
        )


def _umask() -> Iterator[tuple[str, str]]:
    mask = own_umask()
    if mask is not None and mask & _OWN_FILES:
        yield (
            f"the umask {mask:04o} keeps this user out of the files that the session makes",
            "start Paddock with another: `umask 077`, or `UMask=0077` in a unit",
        )


def _temporary_folder() -> Iterator[tuple[str, str]]:
    wanted = {"/tmp", "/var/tmp", "/usr/tmp", *(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))}  # noqa: S108
    with contextlib.suppress(OSError):
        folder = tempfile.gettempdir()
        # The last resort of Python's is the working directory, where temporary files are in people's way.
        if folder in wanted or folder != os.getcwd():
            return
    yield (
        "there is no folder for temporary files: `/tmp` and `/var/tmp` cannot be written to",
        "name one in TMPDIR that this user may write to, or `PrivateTmp=yes` in a unit",
    )


def _round(number: int) -> int:
    """Return a number with room for a few more."""
    return -(-number * 5 // 4 // 64) * 64
