"""The settings that the streaming loop adds to those of every loop."""

from __future__ import annotations

from dataclasses import dataclass

from agent_loop.settings import LoopSettings


@dataclass(frozen=True, slots=True)
class Settings(LoopSettings):
    """The limit of waiting messages, the limit of a goal's answers, and the judge.

    `max_steering` bounds the messages that wait for the next request: a person writes a few, a program in a loop must
    not fill the memory. `max_goal_turns` counts the answers to a goal that sets no `cap` of its own. `judge_role` is
    the role of the model that judges, for a session that resolves roles; judging is a short question, asked often.
    """

    max_steering: int = 100
    max_goal_turns: int = 20
    judge_role: str = "fast"
