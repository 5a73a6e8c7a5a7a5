"""A module of a session as a row of a listing: what it is, how it is shut in, and how it fares."""

from __future__ import annotations

from paddock.session.hosted_session import ModuleStatus


def row_of(module: ModuleStatus) -> tuple[str, str, str, str]:
    """Return a row of a listing of modules."""
    isolation = f"isolation: {module.level}" if module.level else ""
    if module.exit_reports:
        state = "; ".join(report.describe() for report in module.exit_reports)
    elif module.is_mounted:
        state = "started" if module.live_from is None else f"started, live from {module.live_from}"
    else:
        state = "not started" if module.problem is None else module.problem.summary
    return module.module, module.kind, isolation, state
