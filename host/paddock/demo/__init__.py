"""A small real job done by a session of five kinds of modules, with six that misbehave beside them."""

from __future__ import annotations

from .demonstration import Demonstration, Outcome
from .story import Part

__all__ = ["Demonstration", "Outcome", "Part"]
