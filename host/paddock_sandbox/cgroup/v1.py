"""The files of a group of version 1: one hierarchy for each controller, or for several that were mounted together."""

from __future__ import annotations

import errno
from typing import Final

from paddock_sandbox.cgroup import files
from paddock_sandbox.cgroup.files import period_and_quota

_TCP_BYTES: Final = 32 << 20


def limit_memory(directory: str, most_bytes: int) -> None:
    """Limit memory, and swap along with it; called once, on a group without limits."""
    files.write(directory, "memory.limit_in_bytes", most_bytes)
    # Memory and swap together: so none is left for swap. Absent where the kernel was started without `swapaccount=1`.
    if files.exists(directory, "memory.memsw.limit_in_bytes"):
        files.write(directory, "memory.memsw.limit_in_bytes", most_bytes)
    else:
        files.write(directory, "memory.swappiness", 0)
    # Memory of unread data in TCP connections has its own counter, which the kernel keeps only under a limit.
    if files.exists(directory, "memory.kmem.tcp.limit_in_bytes"):
        files.write(directory, "memory.kmem.tcp.limit_in_bytes", min(most_bytes, _TCP_BYTES))


def limit_cpu(directory: str, share: float) -> None:
    """Limit processor time to a share of one processor."""
    period, quota = period_and_quota(share)
    files.write(directory, "cpu.cfs_period_us", period)
    try:
        files.write(directory, "cpu.cfs_quota_us", quota)
    except OSError as error:
        # With numbers in range it means that a group around this one is allowed less already; the kernel keeps that.
        if error.errno != errno.EINVAL:
            raise


def memory_peak(directory: str) -> int | None:
    """Return the most memory that was ever used, the page cache included."""
    return files.number(directory, "memory.max_usage_in_bytes")


def memory_kills(directory: str) -> tuple[int, int]:
    """Return how many processes of the group the kernel killed for memory: at its own limit, and at others."""
    kills = files.table(directory, "memory.oom_control").get("oom_kill", 0)  # absent before Linux 4.13
    if not kills:
        return 0, 0
    # The counter also includes processes killed because the whole machine was out of memory. `failcnt` does not help,
    # as some kernels leave it at zero. A group killed at its limit has been close to it.
    limit = files.number(directory, "memory.limit_in_bytes")
    peak = files.number(directory, "memory.max_usage_in_bytes")
    return (kills, 0) if peak >= limit - limit // 16 else (0, kills)


def cpu_throttled_seconds(directory: str) -> float:
    """Return how long the group had to wait after using up its share."""
    return files.table(directory, "cpu.stat")["throttled_time"] / 1e9


def memory_bytes(directory: str) -> int:
    """Return the memory that the group uses, the page cache included."""
    return files.number(directory, "memory.usage_in_bytes")


def cpu_seconds(directory: str) -> float | None:
    """Return the processor time that the group has used; None where another hierarchy counts it."""
    return files.number(directory, "cpuacct.usage") / 1e9 if files.exists(directory, "cpuacct.usage") else None
