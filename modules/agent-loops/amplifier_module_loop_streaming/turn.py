"""One prompt, streamed: the additions to the common loop.

A provider's stream is announced as it arrives, steering joins the conversation before each request, and a goal is
pursued until a model judges it reached.
"""

from __future__ import annotations

import inspect
from contextlib import AsyncExitStack, aclosing
from typing import Any

from agent_loop.messages import text_of
from agent_loop.providers import of_role
from agent_loop.turn import Parts, Turn
from amplifier_core.llm_errors import LLMError, StreamError
from amplifier_core.message_models import ChatRequest

from .goal import PROGRESS, Goal, State, judgement, judging_messages
from .settings import Settings
from .steering import INJECTED, SteeringQueue
from .streamed_reply import response_of


class StreamingTurn(Turn):
    """The loop for one prompt."""

    def __init__(self, parts: Parts, settings: Settings, steering: SteeringQueue) -> None:
        super().__init__(parts)
        self._steering = steering
        self._stream = getattr(parts.provider, "stream", None)
        self._max_goal_turns = settings.max_goal_turns
        self._judge_role = settings.judge_role

    async def prepare(self) -> None:
        for left in range(len(self._steering) - 1, -1, -1):
            message = self._steering.take()
            await self.transcript.add_prompt(message)
            about = {
                "orchestrator": self.parts.loop,
                "content": message,
                "queued_remaining": left,
                "metadata": None,
            }
            await self.gate.announce(INJECTED, self.request_span, about)

    async def reply(self, request: ChatRequest) -> Any:
        if not callable(self._stream):
            return await super().reply(request)
        async with AsyncExitStack() as closing:
            pieces = self._stream(request, tools=list(self.offered.values()))
            if inspect.isawaitable(pieces):  # a coroutine that returns the stream, instead of a generator
                pieces = await pieces
            if hasattr(pieces, "aclose"):
                await closing.enter_async_context(aclosing(pieces))
            return await response_of(pieces, self.gate, self.request_span)

    def is_lost(self, error: LLMError) -> bool:
        # A provider cannot take back what its stream yielded, so it leaves the retry to the loop.
        has_begun = callable(self._stream) and self.heard.has_begun
        return super().is_lost(error) or (has_begun and isinstance(error, StreamError) and error.retryable)

    async def break_off(self) -> None:
        await super().break_off()
        goal = Goal.of(self.parts.coordinator, self._max_goal_turns)
        if goal is not None and self.cancellation.requested:
            await self._end_goal(goal, "cancelled", None)

    async def follow_up(self) -> bool:
        if self._steering:
            return True  # `prepare` adds it
        goal = Goal.of(self.parts.coordinator, self._max_goal_turns)
        if goal is None:
            return False
        try:
            judged = await self._judge(goal)
        except Exception as error:
            # The answer stands; without a judge the goal cannot be pursued.
            await self._end_goal(goal, "error", f"{type(error).__name__}: {error}")
            return False
        if judged is None:
            return True  # cancelled: the loop sees it next
        is_reached, reason = judged
        may_go_on = goal.count_answer(reason)
        if is_reached or not may_go_on:
            await self._end_goal(goal, "achieved" if is_reached else "cap_hit", reason)
            return False
        await self.transcript.add_prompt(goal.go_on(reason))
        await self.gate.announce(PROGRESS, self.span, goal.progress(self.parts.loop, "continuing", reason))
        return True

    async def _judge(self, goal: Goal) -> tuple[bool, str] | None:
        """Return whether a model takes the goal for reached and why, or None if the person stopped it."""
        question = judging_messages(goal, await self.parts.context.get_messages())
        judge = await of_role(self._judge_role, self.parts.providers, self.parts.coordinator)
        response = await self.ask_aside(question, "goal", self.request_span, judge)
        return None if response is None else judgement(text_of(response))

    async def _end_goal(self, goal: Goal, state: State, reason: str | None) -> None:
        goal.end()
        await self.gate.announce(PROGRESS, self.span, goal.progress(self.parts.loop, state, reason))
