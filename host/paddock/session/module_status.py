"""What people and programs are told of one module of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paddock.errors import PaddockError
from paddock.plan.permissions import Permissions
from paddock.workers.exit_report import ExitReport


@dataclass(frozen=True, slots=True)
class ModuleStatus:
    """What one module of a session is and how it has fared; `live_from` is a folder that it runs from as it is.

    `denials_left_out` counts what was refused, or perhaps was, beyond the `denials` that are kept. `place` is where the
    entry stands in the plan, and `granted` what is in effect for it, as a plan would state it.
    """

    module: str
    kind: str
    level: str
    is_mounted: bool
    restarts: int
    denials: tuple[Mapping[str, object], ...]
    exit_reports: tuple[ExitReport, ...]
    printed_bytes: int = 0
    kept_bytes: int = 0
    problem: PaddockError | None = None
    live_from: Path | None = None
    denials_left_out: int = 0
    place: str = ""
    granted: Permissions = field(default_factory=Permissions)

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {
            "module": self.module,
            "kind": self.kind,
            "level": self.level,
            "restarts": self.restarts,
            "denials": [dict(denial) for denial in self.denials],
            "exit_reports": [report.as_dict() for report in self.exit_reports],
        }
