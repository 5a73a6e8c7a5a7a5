"""The streaming loop on its stage, for its tests: a provider that streams."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import loop_stage
from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock
from amplifier_module_loop_streaming import Settings, StreamingOrchestrator


class Provider(loop_stage.Provider):
    """Answers from a list: a text comes word by word, a list piece by piece; an exception in it is raised."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.tools: list[list[str]] = []
        self.judgements: list[str] = []
        self.closed = 0

    async def stream(self, request: ChatRequest, tools: list[Any] | None = None) -> AsyncIterator[Any]:
        self.requests.append(request)
        self.tools.append([tool.name for tool in tools or []])
        answer = self.answers.pop(0)
        try:
            for piece in _pieces(answer):
                if isinstance(piece, Exception):
                    raise piece
                yield await piece() if callable(piece) else piece
        finally:
            self.closed += 1

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        return ChatResponse(content=[TextBlock(text=self.judgements.pop(0))])


def _pieces(answer: Any) -> list[Any]:
    if isinstance(answer, str):
        words = re.findall(r"\S+\s*", answer)
        return [*({"content": word} for word in words), ChatResponse(content=[TextBlock(text=answer)])]
    return answer if isinstance(answer, list) else [answer]


class Stage(loop_stage.Stage):
    def __init__(self, *answers: Any, tools: list[Any] | None = None, **settings: Any) -> None:
        super().__init__(StreamingOrchestrator(Settings(**settings)), Provider(*answers), tools)

    @property
    def said(self) -> list[tuple[str, Any]]:
        """The conversation, each message as its role and text."""
        found = []
        for message in self.context.messages:
            content = message["content"]
            if isinstance(content, list):
                content = "".join(block.get("text", "") for block in content)
            found.append((message["role"], content))
        return found
