"""A small real job done by a session of five kinds of modules, with six that misbehave beside them."""

from __future__ import annotations

from paddock.demo.demonstration import Demonstration, DemoOutcome
from paddock.demo.story import ModulePart

__all__ = ["Demonstration", "DemoOutcome", "ModulePart"]
