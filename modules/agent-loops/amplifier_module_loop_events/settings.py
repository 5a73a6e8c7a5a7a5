"""The setting that the event-driven loop adds to those of every loop."""

from __future__ import annotations

from dataclasses import dataclass

from agent_loop.settings import LoopSettings


@dataclass(frozen=True, slots=True)
class Settings(LoopSettings):
    """Whether the model is asked for a plan if no hook gives one; that takes one more request for each prompt."""

    planning: bool = True
