"""Mount a hook that asks a person before tools write, run programs, or act in unknown ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .approval_gate import ApprovalGate
from .audit import AuditFile
from .settings import Settings

__all__ = ["ApprovalGate", "AuditFile", "Settings", "mount"]
__amplifier_module_type__ = "hook"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], None]:
    """Register the gate in front of tool calls; return a function that takes it away.

    Raises:
        ValueError: a setting is unknown or has the wrong shape, or the audit file cannot be written.
    """
    settings = Settings.of(config or {})
    audit = AuditFile.opened(settings.audit_path, coordinator) if settings.audit_path is not None else None
    return ApprovalGate(coordinator, settings, audit).start()
