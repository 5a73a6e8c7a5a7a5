"""Confine the calling process: the one step between a fresh worker and the first import of untrusted code.

`apply` runs in the worker itself, after the last fork and while it has one thread. If the profile asks for namespaces,
the process is in them already. `apply` either takes every step of the profile or raises an error naming the step that
failed. A caller that gets the error must end the process without running anything untrusted.
"""

from __future__ import annotations

import errno
import os
import platform
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from paddock_sandbox import capabilities, ipc, landlock, prctl, rlimits, seccomp
from paddock_sandbox.landlock import Access, PathRule, PortAccess, PortRule
from paddock_sandbox.mounts import DEVICES, SHARED_FOLDERS, TERMINALS
from paddock_sandbox.network import LOOKUP_PORT
from paddock_sandbox.profile import LockdownReport, SandboxProfile
from paddock_sandbox.rlimits import Rlimit
from paddock_sandbox.step_error import StepError

# A core file would leave the module's memory, secrets included, outside every grant. At a limit of 0 the kernel still
# passes one to the program that a system may have for core files; with 1 the process gets none at all.
_NO_CORE: Final = (Rlimit("CORE", 1),)


_ZEROS: Final = "/dev/zero"


def apply(
    profile: SandboxProfile, *, parent: int, counts_memory: bool = False, broker: socket.socket | None = None
) -> LockdownReport:
    """Apply the profile to the calling process, whose parent must be `parent`.

    If the profile `serves`, the `broker` is the line of the one that names sockets for the process; it is closed.

    `counts_memory` means that the process is in a control group that limits its memory. Without such a group, the
    filter refuses calls whose memory could not be counted.

    Raises:
        StepError: a step was refused; earlier steps stay in force.
    """
    protections: frozenset[str] = frozenset()

    def restrict() -> None:
        nonlocal protections
        _require_bounded_ports(profile)
        protections = landlock.restrict(_rules(profile))

    def filter_calls() -> None:
        bounds_ipc = not counts_memory and ipc.are_bounded()
        program = filter_of(profile, counts_memory=counts_memory, bounds_ipc=bounds_ipc)
        listener = seccomp.install(program, listens=broker is not None)
        if broker is not None:
            with broker:
                socket.send_fds(broker, [b"."], [listener])
            os.close(listener)

    # Mounts were made before: within a Landlock domain nothing can be mounted. The death signal comes after all changes
    # of credentials, which make the kernel forget it. The filter is last: it denies calls that other steps need.
    death = ("die with the parent", lambda: _die_with(parent))
    steps: tuple[tuple[str, Callable[[], object]], ...]
    if profile.level == "none":
        # dumpable is left alone: clearing it would hide the process's own memory counters from its host.
        steps = (
            ("no_new_privs", prctl.give_up_new_privileges),
            ("no core dumps", lambda: rlimits.apply(_NO_CORE)),
            death,
        )
    else:
        steps = (
            ("one thread", _require_one_thread),
            ("resource limits", lambda: rlimits.apply((*profile.rlimits, *_NO_CORE))),
            ("capabilities", capabilities.drop_all),
            ("no_new_privs", prctl.give_up_new_privileges),
            ("Landlock", restrict),
            ("dumpable", lambda: prctl.set_dumpable(True)),
            death,
            ("seccomp", filter_calls),
        )
    taken = []
    for name, step in steps:
        try:
            step()
        except OSError as error:
            raise StepError(name, error.errno, error.strerror or str(error)) from error
        except NotImplementedError as error:
            raise StepError(name, errno.ENOSYS, str(error)) from error
        taken.append(name)
    return LockdownReport(profile.level, tuple(taken), tuple(sorted(protections)))


def filter_of(profile: SandboxProfile, *, counts_memory: bool = False, bounds_ipc: bool = False) -> bytes:
    """Return the program that decides which system calls the process may make.

    Raises:
        NotImplementedError: no filter exists for this architecture.
    """
    policy = seccomp.FilterPolicy(
        may_execute=profile.may_execute,
        shares_host=profile.level == "landlock",
        may_connect=profile.network is not None,
        may_serve=profile.serves,
        counts_memory=counts_memory,
        bounds_ipc=bounds_ipc,
    )
    return seccomp.compile_filter(policy, platform.machine())


def compile_filters(profile: SandboxProfile, *, counts_memory: bool) -> None:
    """Compile each filter that `apply` may choose for this profile, so that processes forked later find it compiled."""
    if profile.level == "none":
        return
    for bounds_ipc in (False,) if counts_memory else (True, False):  # only the worker finds out whether it is bounded
        with suppress(NotImplementedError):  # of an architecture without a table of calls; `apply` says so
            filter_of(profile, counts_memory=counts_memory, bounds_ipc=bounds_ipc)


def _rules(profile: SandboxProfile) -> Iterator[PathRule | PortRule]:
    """Yield the accesses that Landlock allows; all others are refused.

    With a root of its own, a process may read all files in it, and this layer stands behind the mounts: it refuses a
    descriptor of the old root, should one ever get in.
    """
    shares_host = profile.level == "landlock"
    if shares_host:
        yield from (PathRule(mount.source, Access.READ) for mount in profile.mounts if not mount.writable)
    else:
        yield PathRule("/", Access.READ)
    private = [profile.scratch, *(SHARED_FOLDERS if profile.level == "ns" else ())]
    granted = [mount.source if shares_host else mount.target for mount in profile.mounts if mount.writable]
    yield from (PathRule(path, Access.WRITE) for path in (*private, *granted))
    # A writable mapping of it is memory without a file, which no reading of /proc could count.
    yield PathRule(_ZEROS, Access.READ)
    yield from (PathRule(path, Access.DEVICE) for path in DEVICES if path != _ZEROS)
    if profile.has_terminals:
        yield PathRule(TERMINALS, Access.DEVICES)
    if profile.may_execute_all:
        places = [mount.source if shares_host else mount.target for mount in profile.mounts if mount.mappable]
        yield from (PathRule(place, Access.EXECUTE) for place in (*private, *places))
    else:
        yield from (PathRule(program, Access.EXECUTE) for program in profile.programs)
    if profile.network is not None:
        yield from (PortRule(port, PortAccess.CONNECT_TCP) for port in profile.network.ports)
    if profile.has_own_network:
        # For looking up names, from a port that the kernel picks.
        yield PortRule(LOOKUP_PORT, PortAccess.SEND_UDP)
        yield PortRule(0, PortAccess.BIND_UDP)


def _require_bounded_ports(profile: SandboxProfile) -> None:
    """Refuse the machine's own network where Landlock cannot restrict connections to one port."""
    if profile.network is None or profile.has_own_network:
        return
    version = landlock.abi()
    if not landlock.port_rights(PortAccess.CONNECT_TCP, version):
        raise OSError(
            errno.EOPNOTSUPP,
            f"connections can be bounded to a port from Landlock ABI 4 (Linux 6.7) on; this kernel has ABI {version}",
        )


def _require_one_thread() -> None:
    # Landlock covers only the calling thread; another thread would stay unconfined.
    try:
        threads = len(os.listdir("/proc/self/task"))
    except FileNotFoundError:
        return  # no /proc: the fork that made this process left it one thread
    if threads != 1:
        raise OSError(errno.EBUSY, f"the process has {threads} threads")


def _die_with(parent: int) -> None:
    prctl.set_parent_death_signal(signal.SIGKILL)
    # The signal only fires for an end that is still to come.
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "the parent ended first")
