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


class Speaker(loop_stage.Provider):
    """Announces its answers itself, within `complete`: each is a list of tries, and a try a list of pieces.

    A piece is a text, the number of its block before it, or an exception that ends the answer.
    """

    def __init__(self, coordinator: Any, *answers: list[list[Any]]) -> None:
        super().__init__(*answers)
        self._hooks = coordinator.hooks

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        text = ""
        for tried, pieces in enumerate(self.answers.pop(0)):
            index, text = 0, ""
            for piece in pieces:
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, int):
                    index = piece
                elif callable(piece):
                    await piece()
                else:
                    about = {"request_id": f"{len(self.requests)}.{tried}", "block_index": index, "block_type": "text"}
                    about |= {"turn_id": (request.metadata or {})["turn_id"], "text": piece}
                    await self._hooks.emit("llm:stream_block_delta", about)
                    text += piece
        return ChatResponse(content=[TextBlock(text=text)])


def _pieces(answer: Any) -> list[Any]:
    if isinstance(answer, str):
        words = re.findall(r"\S+\s*", answer)
        return [*({"content": word} for word in words), ChatResponse(content=[TextBlock(text=answer)])]
    return answer if isinstance(answer, list) else [answer]


class Stage(loop_stage.Stage):
    def __init__(self, *answers: Any, tools: list[Any] | None = None, **settings: Any) -> None:
        super().__init__(StreamingOrchestrator(Settings(**settings)), Provider(*answers), tools)
        self.coordinator.hooks.register("llm:stream_block_delta", self.orchestrator.hear)

    @classmethod
    def announced(cls, *answers: list[list[Any]]) -> Stage:
        """Return one whose provider announces its answers itself."""
        stage = cls()
        stage.provider = Speaker(stage.coordinator, *answers)
        return stage

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
