"""The confinement of a module process: compiled by the host, applied by the process to itself.

A profile is a value that crosses a socket as plain data, so that a process which must not import the host can rebuild
it. Paths in it are absolute and were resolved by the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from paddock_sandbox.rlimits import Rlimit

IsolationLevel = Literal["ns", "bwrap", "landlock", "none"]
"""From the strongest to none at all: own namespaces; those of the system's bubblewrap; Landlock and a filter of system
calls without namespaces; an unconfined process.
"""

ISOLATION_LEVELS: tuple[IsolationLevel, ...] = get_args(IsolationLevel)

ANY_PROGRAM = "*"
"""Stands in `programs` for every file that can be seen."""

_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder that the worker sees, with all below it.

    Without namespaces `target` is `source`. `mappable` allows code to be mapped into memory from it, as libraries are;
    without it the mount is noexec. A `closed` one shows that its target is there, and nobody inside can open it.
    """

    source: str
    target: str
    writable: bool = False
    mappable: bool = False
    closed: bool = False


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """The TCP ports that a process may connect to.

    In a network namespace these are ports of any address, and the host decides what answers there. Without one they are
    ports of the machine's own network, and of every host that it reaches. `serves` adds all of the process's own
    loopback, where it may listen; that takes a network namespace.

    Raises:
        ValueError: one is no port, or named twice.
    """

    ports: tuple[int, ...]
    serves: bool = False

    def __post_init__(self) -> None:
        for port in self.ports:
            if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= _LAST_PORT:
                raise ValueError(f"{port!r} is no port: ports are from 1 to {_LAST_PORT}")
        if len(set(self.ports)) != len(self.ports):
            raise ValueError("a port is named twice")


@dataclass(frozen=True, slots=True)
class LockdownReport:
    """How a process confined itself: the level, the steps taken, in order, and what Landlock protects here."""

    level: IsolationLevel
    steps: tuple[str, ...]
    protections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """How a process confines itself.

    `mounts` are in the order in which they are made: a mount over another comes later. `links` are symbolic links in
    writable mounts whose names must not change; each becomes a mount itself. `closed` are files and folders in mounts
    that are there and cannot be opened, which takes namespaces. `programs` are the files that may be executed; if it is
    empty, nothing may. `scratch` is the process's private folder, of `tmp_bytes` where it can be bounded. Without
    `network` no socket can be made. At level `none` the rest of a profile is ignored.
    """

    level: IsolationLevel = "none"
    mounts: tuple[Mount, ...] = ()
    programs: tuple[str, ...] = ()
    rlimits: tuple[Rlimit, ...] = ()
    scratch: str = "/scratch"
    tmp_bytes: int = 64 << 20
    network: NetworkAccess | None = None
    links: tuple[Mount, ...] = ()
    closed: tuple[Mount, ...] = ()

    @property
    def may_execute(self) -> bool:
        """Whether there is any program that may be executed."""
        return bool(self.programs)

    @property
    def may_execute_all(self) -> bool:
        """Whether every program that it sees may be executed, also one of its own making in the private folder."""
        return ANY_PROGRAM in self.programs

    @property
    def serves(self) -> bool:
        """Whether the process may listen in its network namespace."""
        return self.network is not None and self.network.serves

    @property
    def has_own_network(self) -> bool:
        """Whether the process has a network namespace to make a network in."""
        return self.network is not None and self.level in ("ns", "bwrap")

    @property
    def has_terminals(self) -> bool:
        """Whether the process gets pseudo-terminals of its own: its programs may ask for some."""
        return self.may_execute and self.level in ("ns", "bwrap")

    def is_mounted(self, place: str) -> bool:
        """Return whether one of the mounts is at a place or around it."""
        return any((place + "/").startswith(mount.target.rstrip("/") + "/") for mount in self.mounts)

    def as_dict(self) -> dict[str, object]:
        """Return the profile as plain data."""
        return {
            "level": self.level,
            "mounts": [[mount.source, mount.target, mount.writable, mount.mappable] for mount in self.mounts],
            "programs": list(self.programs),
            "rlimits": [[limit.name, limit.value] for limit in self.rlimits],
            "scratch": self.scratch,
            "tmp_bytes": self.tmp_bytes,
            "network": None if self.network is None else [list(self.network.ports), self.network.serves],
            "links": [[link.source, link.target] for link in self.links],
            "closed": [[place.source, place.target] for place in self.closed],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SandboxProfile:
        """Rebuild a profile from plain data.

        Raises:
            ValueError: this code cannot apply the level, and chooses nothing weaker instead; or a limit or a port is
                invalid.
            KeyError: a part is missing.
        """
        if data["level"] not in ISOLATION_LEVELS:
            known = ", ".join(ISOLATION_LEVELS)
            raise ValueError(f"cannot apply isolation level {data['level']!r}: known are {known}")
        network = data["network"]
        return cls(
            level=data["level"],
            mounts=tuple(Mount(*mount) for mount in data["mounts"]),
            programs=tuple(data["programs"]),
            rlimits=tuple(Rlimit(name, value) for name, value in data["rlimits"]),
            scratch=data["scratch"],
            tmp_bytes=data["tmp_bytes"],
            network=None if network is None else NetworkAccess(tuple(network[0]), network[1]),
            links=tuple(Mount(*link) for link in data["links"]),
            closed=tuple(Mount(source, target, closed=True) for source, target in data["closed"]),
        )
