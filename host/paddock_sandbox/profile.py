"""What a module process is to be shut into: compiled by the host, applied by the process to itself.

A profile is a value that crosses a socket as plain data, so that a process which must not import the host can rebuild
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

IsolationLevel = Literal["process"]
ISOLATION_LEVELS: tuple[IsolationLevel, ...] = get_args(IsolationLevel)


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """The isolation a process is to apply to itself; `process` is a process of its own and no more."""

    level: IsolationLevel = "process"

    def as_dict(self) -> dict[str, object]:
        """Return the profile as plain data."""
        return {"level": self.level}

    @classmethod
    def from_dict(cls, data: dict[str, object]) -> SandboxProfile:
        """Rebuild a profile from plain data.

        Raises:
            ValueError: The level is none this code can apply; nothing weaker is chosen instead.
        """
        for level in ISOLATION_LEVELS:
            if data.get("level") == level:
                return cls(level)
        raise ValueError(f"cannot apply isolation level {data.get('level')!r}: known are {', '.join(ISOLATION_LEVELS)}")
