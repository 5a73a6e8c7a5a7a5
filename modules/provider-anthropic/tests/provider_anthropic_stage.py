"""The provider over answers that are given in advance instead of a server, with recorded requests, events and waits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx2
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, ToolSpec
from amplifier_core.testing import EventRecorder
from amplifier_module_provider_anthropic import AnthropicProvider, Settings

LOOK = ToolSpec(name="look", description="Looks.", parameters={"properties": {"at": {"type": "string"}}})


def event(kind: str, **about: Any) -> dict[str, Any]:
    return {"type": kind, **about}


def text(*pieces: str) -> list[Any]:
    """A block of text as the deltas that make it."""
    return [{"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces)]


def thinking(*pieces: str, signature: str = "sig") -> list[Any]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    block = {"type": "thinking", "thinking": "", "signature": ""}
    return [block, *deltas, {"type": "signature_delta", "signature": signature}]


def redacted(data: str) -> list[Any]:
    return [{"type": "redacted_thinking", "data": data}]


def call(name: str, *pieces: str, id: str = "toolu_1") -> list[Any]:
    block = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return [block, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces)]


def answer(*blocks: list[Any], stop: str = "end_turn", output: int = 5, **usage: int) -> list[dict[str, Any]]:
    """The events of an answer."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    spent = {"input_tokens": 10, "output_tokens": 1, **usage}
    events = [event("message_start", message={**message, "usage": spent}), event("ping")]
    for index, (block, *deltas) in enumerate(blocks):
        events.append(event("content_block_start", index=index, content_block=block))
        events += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(event("content_block_stop", index=index))
    ended = event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": output})
    return [*events, ended, event("message_stop")]


def refused(status: int, kind: str, message: str, **headers: str) -> httpx2.Response:
    """An answer that is an error."""
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return httpx2.Response(
        status, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


class Stage:
    """The provider with all around it. An answer is a list of events, a response, or an exception."""

    def __init__(self, *answers: Any, **settings: Any) -> None:
        self.answers = list(answers)
        self.sent: list[dict[str, Any]] = []
        self.waits: list[float] = []
        self.hooks = EventRecorder()
        self.provider = AnthropicProvider(
            Settings.of({"api_key": "key", **settings}, {}),
            self.hooks,
            transport=httpx2.MockTransport(self._respond),
            sleep=self._sleep,
            chance=lambda: 1.0,
        )

    async def complete(self, *messages: Message | str, **request: Any) -> ChatResponse:
        return await self.provider.complete(self.request(*messages, **request))

    def request(self, *messages: Message | str, **request: Any) -> ChatRequest:
        said = [Message(role="user", content=one) if isinstance(one, str) else one for one in messages or ("hello",)]
        return ChatRequest(messages=said, **request)

    def emitted(self, name: str) -> list[dict[str, Any]]:
        return [data for _, data in self.hooks.get_events(name)]

    @property
    def shown(self) -> list[tuple[str, str]]:
        """The pieces of answers, each with the type of its block."""
        return [(data["block_type"], data["text"]) for data in self.emitted("llm:stream_block_delta")]

    @property
    def events(self) -> list[str]:
        return [name for name, _ in self.hooks.events]

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(json.loads(request.content))
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        if isinstance(given, httpx2.Response):
            return given
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        return httpx2.Response(200, headers=headers, content=_written(given))

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def _written(events: Iterable[dict[str, Any]]) -> bytes:
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()
