"""What a layer says that knows nothing of a module: the next one is asked then."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why a layer has no source for a module."""

    reason: str
