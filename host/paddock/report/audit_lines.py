"""The audit log's lines on one session.

The files are the user's own, and may be cut off, edited or rotated: a line that is none is counted and left out. Only
ordinary files are read, never waited for, and no more of each than a host writes.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from paddock.state_folder import state_folder

_MOST_BYTES: Final = 64 << 20  # of one file; a host begins another at a quarter of it


class _Fields(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)  # a later version may write more


class HitLimit(_Fields):
    """The limit at which a module ended."""

    name: str = ""
    observed: str = ""


class End(_Fields):
    """How a process of a module ended."""

    reason: str = ""
    message: str = ""
    limit: HitLimit | None = None


class AuditLine(_Fields):
    """One line; the fields that its event does not have are empty."""

    time: AwareDatetime
    session: str
    event: str
    module: str = ""
    sub_session: str = ""
    left_out: int = 0
    count: int = 0
    # denial
    operation: str = ""
    target: str = ""
    reason: str = ""
    grant: str = ""
    times: int = 1
    seen_by: str = ""
    # module.ended
    report: End = Field(default_factory=End)
    # module.used
    grants: dict[str, list[int]] = Field(default_factory=dict)
    unseen: list[str] = Field(default_factory=list)
    programs: list[str] = Field(default_factory=list)
    cpu_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    calls: int = 0
    restarts: int = 0
    # egress.connection
    destination: str = ""
    rule: str = ""
    outcome: str = ""
    up: int = 0
    down: int = 0
    injected: list[str] = Field(default_factory=list)
    # session.started
    accepted: str | None = None
    modules: dict[str, Any] = Field(default_factory=dict)


class AuditLines:
    """The lines on one session, the earliest first; `unread` counts those that are damaged."""

    def __init__(self, session: str, environ: Mapping[str, str] | None = None) -> None:
        self.unread = 0
        self.all: list[AuditLine] = []
        path = state_folder(environ) / "audit.jsonl"
        named = json.dumps(session).encode()
        for file in (path.with_name(f"{path.name}.1"), path):
            for line in _lines(file):
                if named in line:
                    self._add(line, session)

    def of(self, event: str) -> list[AuditLine]:
        """Return the lines of an event."""
        return [line for line in self.all if line.event == event]

    def _add(self, written: bytes, session: str) -> None:
        try:
            line = AuditLine.model_validate_json(written)
        except ValidationError:
            self.unread += 1
            return
        if line.session == session:
            self.all.append(line)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    with open(descriptor, "rb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield from file.read(_MOST_BYTES).splitlines()
