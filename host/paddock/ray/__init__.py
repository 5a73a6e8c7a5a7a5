"""Run tasks on the nodes of a Ray cluster, each session isolated on its node; needs the extra `ray`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.ray.places import run

__all__ = ["run"]


def __getattr__(name: str) -> object:
    # On first use: a command names its options without all that a run is made of.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.places"), name)
