"""How much and how long fetching may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GitLimits:
    """Bounds on each git command, by what it does, and on what it may leave behind."""

    fetch_seconds: float = 300.0
    ask_seconds: float = 60.0  # for refs, without any object
    read_seconds: float = 120.0  # of what was fetched
    lock_seconds: float = 600.0  # until somebody else is done with the same repository
    slow_bytes_per_second: int = 1000
    slow_seconds: int = 30  # of less than that many bytes, until a transfer is given up
    pack_bytes: int = 1 << 30
    blob_bytes: int = 64 << 20
    tree_bytes: int = 512 << 20
    files: int = 20_000
    refs: int = 200_000
