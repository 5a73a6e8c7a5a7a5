"""One prompt, planned and open to hooks: the additions to the common loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_loop.hook_gate import Injection
from agent_loop.messages import text_of
from agent_loop.spans import Span
from agent_loop.turn import Ending, Parts, Turn, refusal
from amplifier_core import events

from .tool_selection import SelectingBatch, resolve_tools

_REQUEST = (
    "Before you act, write a short plan for the last message: the steps as a numbered list, each naming the tool it "
    "needs. Do not carry it out yet. Tools at hand: {tools}."
)
_PLAN = "The plan for this prompt; depart from it where what you find asks for it:\n\n{plan}"


class EventsTurn(Turn):
    """The loop for one prompt."""

    batch = SelectingBatch

    def __init__(self, parts: Parts, planning: bool) -> None:
        super().__init__(parts)
        self._planning = planning
        self._plan = ""

    async def open(self, prompt: str) -> Ending | None:
        """Have a plan made and accepted; a turn without tools needs none."""
        if not self.parts.tools:
            return None
        span = self.span.child()
        names = list(self.parts.tools)
        verdict = await self.gate.ask(events.PLAN_START, span, {"prompt": prompt, "tools": names})
        source = None
        if verdict.action != "deny":
            self._plan, source = _plan_in(verdict.data), "hook"
            if not self._plan and self._planning:
                self._plan, source = await self._asked_plan(names, span), "model"
        if self.cancellation.requested:
            return None  # the loop ends the turn
        about = {"plan": self._plan, "source": source if self._plan else None}
        verdict = await self.gate.ask(events.PLAN_END, span, about)
        if verdict.action == "deny":
            return Ending("denied", refusal(verdict.reason, "the plan"))
        if isinstance(verdict.data, dict) and "plan" in verdict.data:
            self._plan = _plan_in(verdict.data)
        return None

    async def prepare(self) -> None:
        if self._plan:
            self.gate.remember(Injection(_PLAN.format(plan=self._plan)))

    async def offer(self) -> Mapping[str, Any]:
        return await resolve_tools(self.gate, self.request_span, self.parts.tools)

    async def _asked_plan(self, tools: Sequence[str], span: Span) -> str:
        question = {"role": "system", "content": _REQUEST.format(tools=", ".join(tools))}
        response = await self.ask_aside([*await self.messages(), question], "plan", span)
        return "" if response is None else text_of(response)


def _plan_in(data: Any) -> str:
    plan = data.get("plan") if isinstance(data, dict) else None
    return plan.strip() if isinstance(plan, str) else ""
