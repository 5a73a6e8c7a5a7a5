"""A small real job in a session with five kinds of modules, and six misbehaving modules beside them."""

from __future__ import annotations

from paddock.demo.demonstration import Demonstration, DemoOutcome
from paddock.demo.story import ModulePart

__all__ = ["Demonstration", "DemoOutcome", "ModulePart"]
