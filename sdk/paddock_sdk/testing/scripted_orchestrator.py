"""An orchestrator that reads its answers from a list, for testing what surrounds an orchestrator.

Each execution emits the start and end of a session and adds the prompt and the answer to the context; no provider
or tool is ever called. After the last answer it says "DONE".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paddock_sdk.contract.events import SESSION_END, SESSION_START

__all__ = ["ScriptedOrchestrator"]


class ScriptedOrchestrator:
    """Answers each prompt with the next line of its script."""

    def __init__(self, responses: Iterable[str]) -> None:
        self.responses = list(responses)
        self.call_count = 0

    async def execute(self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, **kwargs: Any) -> str:
        """Return the next answer."""
        await hooks.emit(SESSION_START, {"prompt": prompt})
        response = self.responses[self.call_count] if self.call_count < len(self.responses) else "DONE"
        self.call_count += 1
        await context.add_message({"role": "user", "content": prompt})
        await context.add_message({"role": "assistant", "content": response})
        await hooks.emit(SESSION_END, {"response": response})
        return response
