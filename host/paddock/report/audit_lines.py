"""The audit log's lines on one session.

The log is the user's own, and may be cut off, edited or rotated: a line that is none is counted and left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from paddock.audit import audit_path
from paddock.audit_reading import audit_lines
from paddock.errors import KindError

_NOT_RECORDED: Final = "refusals, ends and the use of grants are not recorded"
_CUT: Final = "the audit log does not have the beginning of this session any more: what was earlier is not recorded"


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
    # sub_session.started
    agent: str | None = None
    parent: str = ""
    # session.started
    accepted: str | None = None
    modules: dict[str, Any] = Field(default_factory=dict)

    @field_validator("calls", mode="before")
    @classmethod
    def _counted(cls, calls: object) -> object:
        """Count none for `session.resumed`, whose `calls` are texts."""
        return 0 if isinstance(calls, list) else calls


def lines_on(session: str, environ: Mapping[str, str] | None = None) -> tuple[list[AuditLine], list[str]]:
    """Return the lines on a session, the earliest first, and notes on those that are missing."""
    found, damaged, reason = [], 0, "the audit log has no line on this session"
    named = json.dumps(session).encode()
    try:
        for written in audit_lines(audit_path(environ)):
            if named in written.text:
                try:
                    found.append(AuditLine.model_validate_json(written.text))
                except ValidationError:
                    damaged += 1
    except KindError as error:
        reason = error.summary
    found = [line for line in found if line.session == session]
    notes = []
    if not found:
        notes.append(f"{reason}; {_NOT_RECORDED}")
    elif all(line.event != "session.started" for line in found):
        notes.append(_CUT)
    if damaged:
        are = "1 line of the audit log is" if damaged == 1 else f"{damaged} lines of the audit log are"
        notes.append(f"{are} damaged, and left out")
    left_out = [line for line in found if line.event == "audit.left_out"]
    return found, [*notes, *(f"the audit log left out {one.left_out} lines on `{one.module}`" for one in left_out)]
