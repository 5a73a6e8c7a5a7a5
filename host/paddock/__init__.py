"""Run untrusted plug-in modules, each in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.errors import PaddockError
    from paddock.module_sources.resolve import SourceOptions
    from paddock.policy.files.policy import Policy
    from paddock.session.session import ModuleStatus, Session
    from paddock_sdk.contract.boundary_errors import SteeringQueueFull
    from paddock_sdk.kernel.emitter import event_emitter
    from paddock_sources.locked_sources import LockUse

__all__ = [
    "LockUse",
    "ModuleStatus",
    "PaddockError",
    "Policy",
    "Session",
    "SourceOptions",
    "SteeringQueueFull",
    "__version__",
    "event_emitter",
]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    # On first use: reading the version, or one error class, need not load everything a session is made of.
    if name in ("Session", "ModuleStatus"):
        from paddock.session import session

        return getattr(session, name)
    if name == "SourceOptions":
        from paddock.module_sources.resolve import SourceOptions

        return SourceOptions
    if name == "Policy":
        from paddock.policy.files.policy import Policy

        return Policy
    if name == "LockUse":
        from paddock_sources.locked_sources import LockUse

        return LockUse
    if name == "SteeringQueueFull":
        from paddock_sdk.contract.boundary_errors import SteeringQueueFull

        return SteeringQueueFull
    if name == "event_emitter":
        from paddock_sdk.kernel.emitter import event_emitter

        return event_emitter
    if name == "PaddockError":
        from paddock.errors import PaddockError

        return PaddockError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
