"""A small real job done by a session of five kinds of modules, with six that misbehave beside them."""

from __future__ import annotations

from paddock.demo.demonstration import Demonstration, Outcome
from paddock.demo.story import Part

__all__ = ["Demonstration", "Outcome", "Part"]
