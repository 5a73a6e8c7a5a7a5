"""The limits that one module runs under: what its plan entry says, and a default for all that it does not say.

Every limit has a number, whatever can enforce it; see `enforcement` for what does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from paddock.plan.model import Kind, ModuleEntry
from paddock.plan.permissions import grants_of
from paddock.policy.rule import Rule
from paddock_sdk.protocol import MAX_FRAME_BYTES

_MIB: Final = 1 << 20

_MEMORY_MAX: Final = 256 * _MIB
_MEMORY_MAX_WITH_PROGRAMS: Final = 1024 * _MIB  # a compiler, a test run or a large repository
_RUNTIME_MAX: Final[dict[Kind, float]] = {
    "tool": 120.0,
    "hook": 30.0,
    "context": 60.0,
    "provider": 600.0,
    "orchestrator": math.inf,  # its call is the turn
}
_SMALL_FRAME_MAX: Final = 4 * _MIB  # of kinds that have no business with a whole conversation
_CONVERSATION_SHARE: Final = 8  # of its memory one goes to what a context was told; measured: up to 6 are needed
OUTPUT_PER_SECOND: Final = _MIB  # bytes that a module prints; far above any log that a person reads
_OPEN_FRAMES: Final = 4  # messages of the largest size that all open requests take together


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Sizes are bytes, durations seconds, `cpu_quota` a fraction of one CPU; `output_max` None: as much as it prints.

    `written` names those that a plan chose, and `capped` those that a policy does, by what rule: all of these hold, or
    the module does not start.
    """

    memory_max: int = _MEMORY_MAX
    cpu_quota: float = 1.0
    tasks_max: int = 32
    open_files_max: int = 256
    # A file of this size is a runaway log more often than a result. Where the private folder cannot be bounded, this
    # is all that bounds it.
    file_size_max: int = 1024 * _MIB
    tmp_max: int = 64 * _MIB
    runtime_max: float = math.inf
    start_max: float = 60.0  # from launch to mounted; importing a vendor's SDK on a busy machine takes ten
    output_max: int | None = None
    frame_max: int = MAX_FRAME_BYTES
    calls_max: int = 2048  # a busy orchestrator has tens of requests open
    written: frozenset[str] = frozenset()
    capped: tuple[tuple[str, Rule], ...] = ()

    @property
    def open_bytes_max(self) -> int:
        """How many bytes its requests that wait for an answer may have together, however small each has to be."""
        return _OPEN_FRAMES * max(self.frame_max, _SMALL_FRAME_MAX)

    @property
    def conversation_max(self) -> int:
        """How many bytes of memory a context may be told: it holds them, copies them, and makes messages of them."""
        return self.memory_max // _CONVERSATION_SHARE

    @classmethod
    def of(cls, entry: ModuleEntry) -> ResourceLimits:
        """Return the limits of the module of a plan entry."""
        defaults: dict[str, Any] = {"runtime_max": _RUNTIME_MAX[entry.kind]}
        if grants_of(entry.permissions).run:
            defaults["memory_max"] = _MEMORY_MAX_WITH_PROGRAMS
        if entry.kind in ("tool", "hook"):
            defaults["frame_max"] = _SMALL_FRAME_MAX
        written = {name: value for name, value in entry.limits if value is not None}
        return cls(**{**defaults, **written}, written=frozenset(written))
