"""What commands are shut into: the profile and the environment that follow from what they may touch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.mount_table import MountTable
from paddock.isolation.program_mounts import show_system
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.isolation.worker_network import WorkerNetwork
from paddock.plan.problems import NotAcceptedError
from paddock.policy.programs import SEARCH_PATH, configuration_of
from paddock_sandbox.profile import ANY_PROGRAM, IsolationLevel, NetworkAccess, SandboxProfile
from paddock_sandbox.rlimits import ResourceLimit
from paddock_sources.commands.command_runner import CommandAccess

SCRATCH: Final[Mapping[IsolationLevel, str]] = {"ns": "/scratch", "bwrap": "/tmp"}  # noqa: S108 - of its own root
MEMORY_MAX: Final = 2 << 30
TASKS_MAX: Final = 256  # an installer has threads for each processor, and for each download
_SCRATCH_BYTES: Final = 512 << 20
_OPEN_FILES_MAX: Final = 4096
_THREAD_BYTES: Final = 72 << 20  # of addresses: a stack and an arena of the allocator
_PENDING_SIGNALS: Final = 1024
_LOCKED_BYTES: Final = 64 << 10
_NEVER_SHOWN: Final = tuple(map(Path, ("/proc", "/sys", "/dev")))


def command_environ(access: CommandAccess, scratch: Path, network: WorkerNetwork | None) -> dict[str, str]:
    """Return the whole environment of commands; which certificates they trust is theirs to say, little else of ours."""
    home = os.fspath(scratch)
    ours = {"PATH": ":".join(SEARCH_PATH), "HOME": home}
    there = {} if network is None else dict(network.environ)
    proxies = {name: value for name, value in there.items() if name.lower().endswith("_proxy")}
    if proxies:
        proxies["GIT_HTTP_PROXY_AUTHMETHOD"] = "basic"  # else it asks first without what it has been told, in vain
    return {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TMPDIR": home, **there, **access.environ, **proxies, **ours}


def command_profile(
    access: CommandAccess, level: IsolationLevel, paths: RuntimePaths, scratch: Path, network: WorkerNetwork | None
) -> SandboxProfile:
    """Return what commands are shut into.

    Raises:
        NotAcceptedError: a path cannot be shown.
    """
    if level == "none":
        return SandboxProfile(level, scratch=str(scratch))
    by_mounts = level in LEVELS_WITH_NAMESPACES
    reads, writes = ([(path, _real(path)) for path in given] for given in (access.reads, access.writes))
    table = MountTable()
    show_system(table, None)
    if not by_mounts:
        for path in configuration_of(None):
            table.grant(path)
    paths.show(table, by_mounts=by_mounts, seen=[Path("/usr"), *(real for _, real in (*reads, *writes))])
    for _, real in reads:
        table.grant(real, mappable=True)
    for _, real in writes:
        table.grant(real, writable=True, mappable=True)
    for source, target in network.files if network is not None else ():
        table.fix(source, target)
    if by_mounts:
        for spelled, real in sorted((*reads, *writes), key=lambda pair: pair[0].parts):
            if not table.is_seen(spelled):
                table.alias(real, spelled)
    mounts = table.mounts()
    return SandboxProfile(
        level,
        # Without mounts a place has the one name that it has for everybody.
        mounts if by_mounts else tuple(dict.fromkeys(replace(mount, target=mount.source) for mount in mounts)),
        programs=(ANY_PROGRAM,),
        rlimits=tuple(_rlimits(access, by_mounts=by_mounts)),
        scratch=str(scratch),
        tmp_bytes=_SCRATCH_BYTES,
        network=None if network is None else NetworkAccess(network.ports),
    )


def _rlimits(access: CommandAccess, *, by_mounts: bool) -> Iterator[ResourceLimit]:
    yield ResourceLimit("NOFILE", _OPEN_FILES_MAX)
    yield ResourceLimit("FSIZE", access.written_bytes)
    # Far more addresses than memory: programs map whole files, and reserve what they never touch.
    yield ResourceLimit("AS", 4 * MEMORY_MAX + (1 << 30) + TASKS_MAX * _THREAD_BYTES)
    yield ResourceLimit("MEMLOCK", _LOCKED_BYTES)
    yield ResourceLimit("MSGQUEUE", 0)
    yield ResourceLimit("SIGPENDING", _PENDING_SIGNALS)
    if by_mounts:
        yield ResourceLimit("NPROC", TASKS_MAX)


def _real(path: Path) -> Path:
    """Follow a path to what it really is.

    Raises:
        NotAcceptedError: nothing is there, or what is never shown.
    """
    if not path.is_absolute():
        raise NotAcceptedError(f"`{path}` is no absolute path", "")
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise NotAcceptedError(f"`{path}` cannot be reached: {getattr(error, 'strerror', None) or error}", "") from None
    if real == Path("/") or any(real.is_relative_to(folder) for folder in _NEVER_SHOWN):
        raise NotAcceptedError(f"`{path}` is never shown to what is shut in", "name the folder that is needed")
    return real
