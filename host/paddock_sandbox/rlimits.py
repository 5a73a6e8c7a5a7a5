"""Set the resource limits of the calling process, soft and hard alike, so that nothing in it can raise them again.

A limit is only ever lowered: if the process may have less than requested, it keeps what it has. Other code decides
whether a limit is enough to bound a module; some of them count per user, not per process.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_NAMES: Final = (
    *("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "MSGQUEUE", "NICE"),
    *("NOFILE", "NPROC", "RTPRIO", "SIGPENDING", "STACK"),
)

# Some systems lack some of them; asking for one there is an error, like any other unknown name.
_RESOURCES: Final[Mapping[str, int]] = MappingProxyType(
    {name: getattr(resource, f"RLIMIT_{name}") for name in _NAMES if hasattr(resource, f"RLIMIT_{name}")}
)

_HIGHEST: Final = 2**63 - 1  # the most that `resource` accepts; the kernel means "no limit" from 2**64 - 1


@dataclass(frozen=True, slots=True)
class Rlimit:
    """At most `value` of one resource, called as in setrlimit(2) without the prefix: `NOFILE`, `FSIZE`, `CORE`.

    Raises:
        ValueError: there is no such resource, or the value cannot be a limit.
    """

    name: str
    value: int

    def __post_init__(self) -> None:
        if self.name not in _RESOURCES:
            raise ValueError(f"no resource limit is called {self.name!r}: known are {', '.join(_RESOURCES)}")
        if not 0 <= self.value <= _HIGHEST:
            raise ValueError(f"the resource limit {self.name} cannot be {self.value}: it is from 0 to {_HIGHEST}")


def apply(limits: Iterable[Rlimit]) -> tuple[Rlimit, ...]:
    """Put the limits in force and return them as they now are, lowered where the process might not have as much.

    Raises:
        OSError: the kernel refused one; those before it stay in force.
    """
    return tuple(_apply(limit) for limit in limits)


def lowered(value: int, hard: int) -> int:
    """Return the value, or the present hard limit where that is less."""
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _apply(limit: Rlimit) -> Rlimit:
    number = _RESOURCES[limit.name]
    try:
        _, hard = resource.getrlimit(number)
        value = lowered(limit.value, hard)
        resource.setrlimit(number, (value, value))
    except ValueError as error:  # `resource` raises it for EPERM and EINVAL; the latter cannot be: soft is hard
        raise OSError(errno.EPERM, f"resource limit {limit.name}: {os.strerror(errno.EPERM)}") from error
    except OSError as error:
        raise OSError(error.errno, f"resource limit {limit.name}: {error.strerror}") from error
    return Rlimit(limit.name, value)
