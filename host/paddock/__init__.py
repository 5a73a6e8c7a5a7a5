"""Run untrusted plug-in modules, each in a process of its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.authorization.consent import ConsentAnswer, PlanReview
    from paddock.errors import PaddockError
    from paddock.module_sources.provisioning import SourceOptions
    from paddock.policy.files.policy import Policy
    from paddock.rpc.asking_call import AskingCall, asking_call
    from paddock.session.host import Host
    from paddock.session.session import ModuleStatus, Session
    from paddock_sdk.contract.boundary_errors import SteeringQueueFull
    from paddock_sdk.kernel.emitter import event_emitter
    from paddock_sources.locked_sources import LockUse

__all__ = [
    "AskingCall",
    "ConsentAnswer",
    "Host",
    "LockUse",
    "ModuleStatus",
    "PaddockError",
    "PlanReview",
    "Policy",
    "Session",
    "SourceOptions",
    "SteeringQueueFull",
    "__version__",
    "asking_call",
    "event_emitter",
]

__version__ = "0.1.0"

_PLACES = {
    "AskingCall": "paddock.rpc.asking_call",
    "ConsentAnswer": "paddock.authorization.consent",
    "Host": "paddock.session.host",
    "LockUse": "paddock_sources.locked_sources",
    "ModuleStatus": "paddock.session.session",
    "PaddockError": "paddock.errors",
    "PlanReview": "paddock.authorization.consent",
    "Policy": "paddock.policy.files.policy",
    "Session": "paddock.session.session",
    "SourceOptions": "paddock.module_sources.resolve",
    "SteeringQueueFull": "paddock_sdk.contract.boundary_errors",
    "asking_call": "paddock.rpc.asking_call",
    "event_emitter": "paddock_sdk.kernel.emitter",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    # On first use: reading the version, or one error class, need not load everything a session is made of.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
