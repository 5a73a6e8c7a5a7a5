"""Mount plans: what a person wrote, checked and turned into values."""

from __future__ import annotations

from .limits import Limits
from .loading import load_plan
from .models import EntryPlace, Isolation, Kind, ModuleEntry, MountPlan
from .permissions import Permissions, Preset, SecretGrant
from .positions import Place, Positions
from .problems import NotAcceptedError
from .units import UnitError, parse_count, parse_duration, parse_percentage, parse_size

__all__ = [
    "EntryPlace",
    "Isolation",
    "Kind",
    "Limits",
    "ModuleEntry",
    "MountPlan",
    "NotAcceptedError",
    "Permissions",
    "Place",
    "Positions",
    "Preset",
    "SecretGrant",
    "UnitError",
    "load_plan",
    "parse_count",
    "parse_duration",
    "parse_percentage",
    "parse_size",
]
