"""The files of a group of version 2: one hierarchy, whose groups pass controllers on to the groups in them."""

from __future__ import annotations

from paddock_sandbox.cgroup import files
from paddock_sandbox.cgroup.files import period_and_quota


def limit_memory(directory: str, most_bytes: int) -> None:
    """Limit memory, and allow no swap."""
    files.write(directory, "memory.max", most_bytes)
    if files.exists(directory, "memory.swap.max"):  # a kernel without swap
        files.write(directory, "memory.swap.max", 0)


def limit_cpu(directory: str, share: float) -> None:
    """Limit processor time to a share of one processor."""
    period, quota = period_and_quota(share)
    files.write(directory, "cpu.max", f"{quota} {period}")


def memory_peak(directory: str) -> int | None:
    """Return the peak of used memory, the page cache included; None before Linux 5.19."""
    return files.number(directory, "memory.peak") if files.exists(directory, "memory.peak") else None


def memory_kills(directory: str) -> tuple[int, int]:
    """Return how many processes of the group the kernel killed for memory: at its own limit, and at others.

    Some kernels count one twice.
    """
    events = files.table(directory, "memory.events")
    return (events["oom_kill"], 0) if events["oom"] else (0, events["oom_kill"])


def cpu_throttled_seconds(directory: str) -> float:
    """Return how long the group had to wait after using up its share."""
    return files.table(directory, "cpu.stat")["throttled_usec"] / 1e6


def memory_bytes(directory: str) -> int:
    """Return the memory that the group uses, the page cache included."""
    return files.number(directory, "memory.current")


def cpu_seconds(directory: str) -> float:
    """Return the processor time that the group has used."""
    return files.table(directory, "cpu.stat")["usage_usec"] / 1e6
