"""The files of a group of version 2: one hierarchy, whose groups pass controllers on to the groups in them."""

from __future__ import annotations

from paddock_sandbox.cgroup import files
from paddock_sandbox.cgroup.files import period_and_quota


def limit_memory(directory: str, most_bytes: int) -> None:
    """Limit memory, allow no swap, and have all processes of the group killed when one has to be."""
    files.write(directory, "memory.max", most_bytes)
    for name, value in (("memory.swap.max", 0), ("memory.oom.group", 1)):
        if files.exists(directory, name):  # a kernel without swap; one before Linux 4.19
            files.write(directory, name, value)


def limit_cpu(directory: str, share: float) -> None:
    """Limit processor time to a share of one processor."""
    period, quota = period_and_quota(share)
    files.write(directory, "cpu.max", f"{quota} {period}")


def memory_peak(directory: str) -> int | None:
    """Return the peak of used memory, the page cache included; None before Linux 5.19."""
    return files.number(directory, "memory.peak") if files.exists(directory, "memory.peak") else None


def memory_kills(directory: str) -> int:
    """Return how many processes the kernel killed because the group was at its limit; some kernels count one twice."""
    # The first counter also includes processes killed because the whole machine was out of memory.
    events = files.table(directory, "memory.events")
    return events["oom_kill"] if events["oom"] else 0


def all_memory_kills(directory: str) -> int:
    """Return how many processes of the group the kernel killed for memory, at this limit or any other."""
    return files.table(directory, "memory.events")["oom_kill"]


def kills_together(directory: str) -> bool:
    """Return whether the kernel ends all of the group when it has to end one process; not before Linux 4.19."""
    return files.exists(directory, "memory.oom.group")


def cpu_throttled_seconds(directory: str) -> float:
    """Return how long the group had to wait after using up its share."""
    return files.table(directory, "cpu.stat")["throttled_usec"] / 1e6
