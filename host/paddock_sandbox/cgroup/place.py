"""Where groups can be made, and why not: the values of a search for it."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any, Literal, get_args

Controller = Literal["memory", "pids", "cpu"]
"""What a group can limit: memory with swap, the number of processes and threads, the share of processor time."""

CONTROLLERS: tuple[Controller, ...] = get_args(Controller)

Advice = Literal[
    "not mounted", "not visible", "read-only", "no permission", "not passed on", "processes beside", "other"
]
"""Why a controller cannot be had, by which a remedy can be told:

not mounted: no hierarchy of groups with it is mounted here, as in many containers;
not visible: one is, but the part of it that this process lives in is not;
read-only: it is mounted read-only, as in most containers;
no permission: nobody delegated a group to this user, as `systemd-run --user --scope -p Delegate=yes` does;
not passed on: no group in reach has it switched on for the groups in it, or the kernel is without it;
processes beside: version 2 limits no group beside processes, and those of others are in ours;
other: the kernel's own word is all that is known.
"""

_ADVICE_FOR: dict[int, Advice] = {
    errno.EROFS: "read-only",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EBUSY: "processes beside",
}


@dataclass(frozen=True, slots=True)
class CgroupProblem:
    """Why a controller cannot be had: the file or folder at which it failed nearest to us, and the error's name."""

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
