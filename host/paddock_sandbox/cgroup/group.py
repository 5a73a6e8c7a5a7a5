"""One control group for one worker: the same name in each hierarchy that has a useful controller.

It is a value: it holds no descriptor and can cross to another process as plain data. The maker of a group removes it. A
place states where groups can be made, and a problem why a controller is missing there.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeVar, get_args

from paddock_sandbox.cgroup import files, v1, v2

Controller = Literal["memory", "pids", "cpu"]
"""The resources that a group can limit: memory with swap, processes and threads, the share of processor time."""

CONTROLLERS: tuple[Controller, ...] = get_args(Controller)

Advice = Literal[
    "not mounted", "not visible", "read-only", "no permission", "not passed on", "processes beside", "other"
]
"""Why a controller is missing, so that a remedy can be named:

not mounted: no hierarchy of groups with it is mounted here, as in many containers;
not visible: one is, but the part of it that this process lives in is not;
read-only: it is mounted read-only, as in most containers;
no permission: no group was delegated to this user, as `systemd-run --user --scope -p Delegate=yes` does;
not passed on: no group in reach has it switched on for the groups in it, or the kernel lacks it;
processes beside: version 2 limits no group beside processes, and other users' processes are in ours;
other: only the kernel's own error is known.
"""

_ADVICE_FOR: dict[int, Advice] = {
    errno.EROFS: "read-only",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EBUSY: "processes beside",
}

_DROPPED: Final = ("active_file", "inactive_file", "slab_reclaimable")
_LONGEST_PAUSE: Final = 0.02  # seconds; the first look again comes after a twentieth of it
_PIDFDS_AT_ONCE: Final = 64
# The errors of a file that vanishes before it is opened, or before it is read.
_GONE: Final = (errno.ENOENT, errno.ENODEV)
_Count = TypeVar("_Count")


@dataclass(frozen=True, slots=True)
class CgroupProblem:
    """Why a controller is missing: the innermost file or folder that failed, and the error's name."""

    controller: Controller
    tried: str
    error: str
    advice: Advice

    @classmethod
    def of(cls, controller: Controller, tried: str, error: OSError) -> CgroupProblem:
        """Return the problem that an error met at a folder is."""
        advice = _ADVICE_FOR.get(error.errno or 0, "other")
        return cls(controller, error.filename or tried, errno.errorcode.get(error.errno or 0, str(error)), advice)

    def __str__(self) -> str:
        """Return the problem on one line, for a person who knows control groups."""
        where = f" at {self.tried}" if self.tried else ""
        return f"{self.controller}: {self.advice}{where}{f' ({self.error})' if self.error else ''}"


@dataclass(frozen=True, slots=True)
class CgroupPlace:
    """A group in one hierarchy, by its folder, and the controllers that the groups in it, or it itself, can use."""

    version: Literal[1, 2]
    directory: str
    controllers: frozenset[Controller]

    def as_list(self) -> list[object]:
        """Return the place as plain data."""
        return [self.version, self.directory, sorted(self.controllers)]

    @classmethod
    def from_list(cls, data: list[Any]) -> CgroupPlace:
        """Rebuild a place from plain data."""
        version, directory, controllers = data
        return cls(version, directory, frozenset(controllers))


class _Files(Protocol):
    """How the files of one version are written and read, each given the folder."""

    def limit_memory(self, directory: str, most_bytes: int, /) -> None: ...

    def limit_cpu(self, directory: str, share: float, /) -> None: ...

    def memory_peak(self, directory: str, /) -> int | None: ...

    def memory_kills(self, directory: str, /) -> tuple[int, int]: ...

    def cpu_throttled_seconds(self, directory: str, /) -> float: ...

    def memory_bytes(self, directory: str, /) -> int: ...

    def cpu_seconds(self, directory: str, /) -> float | None: ...


_FILES_OF: Final[dict[int, _Files]] = {1: v1, 2: v2}


@dataclass(frozen=True, slots=True)
class CgroupReadings:
    """The kernel's counts for a group; None where it has no controller, or the kernel does not report the value.

    `memory_kills` is above zero when processes were killed because the group reached its limit; it is no exact count of
    them. `memory_kills_outside` are those for the limit of a group around this one, or of the machine. `tasks_refused`
    are failed attempts to start a process or thread over the limit. The peak includes cached files, which the kernel
    drops before it kills.
    """

    memory_peak: int | None = None
    memory_kills: int | None = None
    memory_kills_outside: int | None = None
    tasks_refused: int | None = None
    cpu_throttled_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CgroupUse:
    """What a group uses now, and the processor time that it has used; None as in `CgroupReadings`."""

    memory_bytes: int | None = None
    tasks: int | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The folders of one group, one for each hierarchy that has one of its controllers."""

    name: str
    parts: tuple[CgroupPlace, ...]

    @classmethod
    def make(cls, places: Iterable[CgroupPlace], name: str) -> Cgroup:
        """Make the group, without limits, in all places or in none."""
        parts: list[CgroupPlace] = []
        try:
            for place in places:
                part = replace(place, directory=os.path.join(place.directory, name))
                os.mkdir(part.directory, 0o755)
                parts.append(part)
        except OSError:
            cls(name, tuple(parts)).remove()
            raise
        return cls(name, tuple(parts))

    @classmethod
    def found(cls, places: Iterable[CgroupPlace], name: str) -> Cgroup:
        """Return the group of this name; some of its folders may be gone."""
        return cls(name, tuple(replace(place, directory=os.path.join(place.directory, name)) for place in places))

    @property
    def controllers(self) -> frozenset[Controller]:
        """The resources that the group can limit."""
        return frozenset(name for part in self.parts for name in part.controllers)

    def limit(
        self, memory_max: int | None = None, tasks_max: int | None = None, cpu_quota: float | None = None
    ) -> None:
        """Limit bytes, processes and threads together, and the share of one processor; None leaves one as it is.

        Call it once. When it fails, some of the limits may be in force.

        Raises:
            OSError: the kernel refused one, or no hierarchy of the group has the controller for it (ENODEV).
        """
        if memory_max is not None:
            part = self._part("memory")
            _FILES_OF[part.version].limit_memory(part.directory, memory_max)
        if tasks_max is not None:
            files.write(self._part("pids").directory, "pids.max", tasks_max)
        if cpu_quota is not None:
            part = self._part("cpu")
            _FILES_OF[part.version].limit_cpu(part.directory, cpu_quota)

    def place(self, pid: int) -> None:
        """Move a process in, with all its threads. Its later children are in the group, its earlier ones are not.

        The first move on a quiet machine waits for the kernel, 7 to 15 ms where it was measured; each further one soon
        after takes less than 0.1 ms. Meanwhile no process on the machine can fork.

        Raises:
            ProcessLookupError: the process has ended.
        """
        for part in self.parts:
            files.write(part.directory, "cgroup.procs", pid)

    def doors(self) -> list[int]:
        """Return descriptors with which a process can `enter` the group.

        The kernel checks the rights of the process that opened them, and their place, regardless of the entering
        process's rights.
        """
        return [
            os.open(os.path.join(part.directory, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC) for part in self.parts
        ]

    def readings(self) -> CgroupReadings:
        """Return the kernel's counts so far; empty where the group or its controller is gone."""
        kills = self._memory_kills()
        return CgroupReadings(
            memory_peak=self._counted("memory", lambda part: _FILES_OF[part.version].memory_peak(part.directory)),
            memory_kills=kills and kills[0],
            memory_kills_outside=kills and kills[1],
            tasks_refused=self._counted("pids", lambda part: files.table(part.directory, "pids.events").get("max")),
            cpu_throttled_seconds=self._counted(
                "cpu", lambda part: _FILES_OF[part.version].cpu_throttled_seconds(part.directory)
            ),
        )

    def use(self) -> CgroupUse:
        """Return what the group uses now; empty where the group or its controller is gone."""
        return CgroupUse(
            memory_bytes=self._counted("memory", lambda part: _FILES_OF[part.version].memory_bytes(part.directory)),
            tasks=self._counted("pids", lambda part: files.number(part.directory, "pids.current")),
            cpu_seconds=self._counted("cpu", lambda part: _FILES_OF[part.version].cpu_seconds(part.directory)),
        )

    def held_bytes(self) -> int | None:
        """Return the memory that the group uses, without what the kernel can drop; None as in `CgroupUse`."""

        def held(part: CgroupPlace) -> int:
            counts = files.table(part.directory, "memory.stat")
            cached = sum(counts.get(name, 0) for name in _DROPPED)
            return max(0, _FILES_OF[part.version].memory_bytes(part.directory) - cached)

        return self._counted("memory", held)

    def most(self, controller: Controller) -> int | None:
        """Return the limit of memory or of tasks that the group has; None where it has none."""

        def limit(part: CgroupPlace) -> int | None:
            in_first = controller == "memory" and part.version == 1
            text = files.read(part.directory, "memory.limit_in_bytes" if in_first else f"{controller}.max").strip()
            return int(text) if text.isdecimal() else None

        return self._counted(controller, limit)

    def memory_kills(self) -> int:
        """Return how many processes were killed so far at the limit of memory; 0 once the group is gone."""
        return (self._memory_kills() or (0, 0))[0]

    def mark_to_kill(self, spared: int, marked: frozenset[int]) -> frozenset[int]:
        """Have the kernel kill all but one process of the group before that one, when it is at the limit of memory.

        `marked` are those of the last call; return them for the next one. A process of another user stays unmarked.
        """
        directory = self._part("memory").directory
        present = frozenset(files.processes(directory))
        new = sorted(present - marked - {spared, 0})[:_PIDFDS_AT_ONCE]
        opened: dict[int, int] = {}
        try:
            for pid in new:
                with suppress(OSError):
                    opened[pid] = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
            for pid in opened.keys() & (files.processes(directory) if opened else ()):  # again, as in `_kill_each`
                with suppress(OSError):
                    os.write(opened[pid], b"1000")
        finally:
            for file in opened.values():
                os.close(file)
        return (marked & present).union(new)

    def processes(self) -> frozenset[int]:
        """Return the living processes in the group; empty once it is removed."""
        found: set[int] = set()
        for part in self.parts:
            try:
                found.update(files.processes(part.directory))
            except OSError as error:
                if error.errno not in _GONE:
                    raise
        return frozenset(found)

    def kill(self, within: float = 1.0) -> bool:
        """Kill every process in the group and their new children; return whether all had ended `within` seconds.

        The group can start nothing more afterwards.
        """
        pids = self._find("pids")
        if pids is not None:
            with suppress(OSError):  # removed, or no longer writable: then the kills must outrun the forks
                files.write(pids.directory, "pids.max", 0)
        pauses = _Pauses(within)
        while self.processes():
            for part in self.parts:
                if part.version == 2:
                    with suppress(OSError):  # before Linux 5.14
                        files.write(part.directory, "cgroup.kill", 1)
            members = sorted(self.processes() - {0})
            for first in range(0, len(members), _PIDFDS_AT_ONCE):
                self._kill_each(members[first : first + _PIDFDS_AT_ONCE])
            if not pauses.next():
                return not self.processes()
        return True

    def remove(self, within: float = 1.0) -> bool:
        """Remove the group and return whether it is gone; waits so many seconds for the last process in it to end.

        Raises:
            OSError: it may not be removed at all.
        """
        pauses = _Pauses(within)
        left = [part.directory for part in self.parts]
        while left := [directory for directory in left if not _removed(directory)]:
            if not pauses.next():
                return False
        return True

    def as_dict(self) -> dict[str, object]:
        """Return the group as plain data."""
        return {"name": self.name, "parts": [part.as_list() for part in self.parts]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Cgroup:
        """Rebuild a group from plain data."""
        return cls(data["name"], tuple(map(CgroupPlace.from_list, data["parts"])))

    def _find(self, controller: Controller) -> CgroupPlace | None:
        return next((part for part in self.parts if controller in part.controllers), None)

    def _counted(self, controller: Controller, read: Callable[[CgroupPlace], _Count | None]) -> _Count | None:
        part = self._find(controller)
        try:
            return None if part is None else read(part)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise

    def _memory_kills(self) -> tuple[int, int] | None:
        return self._counted("memory", lambda part: _FILES_OF[part.version].memory_kills(part.directory))

    def _part(self, controller: Controller) -> CgroupPlace:
        part = self._find(controller)
        if part is None:
            raise OSError(errno.ENODEV, f"no control group with `{controller}` can be made", self.name)
        return part

    def _kill_each(self, members: list[int]) -> None:
        pidfds: dict[int, int] = {}
        try:
            for pid in members:
                with suppress(ProcessLookupError):
                    pidfds[pid] = os.pidfd_open(pid)
            # Looked up again: a process that was opened before and is in the group now is either the same one or dead.
            for pid in self.processes() & pidfds.keys():
                with suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(pidfds[pid], signal.SIGKILL)
        finally:
            for pidfd in pidfds.values():
                os.close(pidfd)


def enter(doors: Iterable[int]) -> None:
    """Move the calling process into a group through its doors, and close them; takes as long as `place`."""
    for door in doors:
        os.write(door, b"0")
        os.close(door)


class _Pauses:
    """Ever longer pauses until a time has passed."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._pause = _LONGEST_PAUSE / 20

    def next(self) -> bool:
        """Pause and return True, or return False when the time has passed."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


def _removed(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    return True
