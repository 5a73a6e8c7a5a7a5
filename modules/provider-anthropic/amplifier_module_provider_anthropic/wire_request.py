"""The parameters of one request, from the contract's request, the settings and the conversation.

They change while the request is answered: thinking that the vendor refuses is left out, and an answer that was cut off
is continued.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_core.message_models import ChatRequest

from .conversation import MessageList
from .prices import Known
from .settings import EFFORTS, Settings

Parameters = dict[str, Any]

_CACHED = {"type": "ephemeral"}
_CACHED_MESSAGES = 2  # the user's last ones; with tools and system text these are the four marks that the vendor takes
_GO_ON = (
    "Your answer was cut off where it may not be longer. Go on exactly where it stopped, and repeat nothing. Make a "
    "tool call that was cut off again, with shorter arguments."
)
_CHOICES = {"auto": "auto", "required": "any", "any": "any", "none": "none"}


def parameters(
    request: ChatRequest, model: str, known: Known, settings: Settings, conversation: MessageList
) -> Parameters:
    """Return the keyword arguments for the SDK, without those that are empty."""
    made: Parameters = {
        "model": model,
        "max_tokens": min(request.max_output_tokens or settings.max_output_tokens, known.max_output_tokens),
        "messages": conversation.messages,
        "system": conversation.system,
        "tools": [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools or ()],
        "tool_choice": _tool_choice(request.tool_choice) if request.tools else None,
        "stop_sequences": request.stop,
        "thinking": _thinking(settings, known.thinks),
        "output_config": _output_config(request, settings),
        # The SDK has no parameters for these any more: only older models take them.
        "extra_body": _present(
            temperature=settings.temperature if request.temperature is None else request.temperature,
            top_p=request.top_p,
        ),
        "timeout": request.timeout,
    }
    if not request.tools and (names := _called(conversation.messages)):
        # The vendor refuses a conversation with tool calls but without tools: name them, and forbid calls.
        made["tools"] = [_tool(name, None, {}) for name in names]
        made["tool_choice"] = {"type": "none"}
    if settings.prompt_caching:
        _cache(made)
    return {name: value for name, value in made.items() if value not in (None, [], {})}


class Sending:
    """The data sent for one request until it is answered."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    def go_on(self, so_far: list[dict[str, Any]]) -> None:
        """Ask next for the rest of an answer that begins with these blocks."""
        messages = [
            *self.parameters["messages"],
            {"role": "assistant", "content": so_far},
            {"role": "user", "content": [{"type": "text", "text": _GO_ON}]},
        ]
        self.parameters = {**self.parameters, "messages": messages}

    def leave_out_thinking(self) -> frozenset[str] | None:
        """Leave out the thinking that the vendor refused, and return its signatures; None if there is none.

        The vendor accepts thinking only after the same messages and tools as when it was made, so not after a
        compaction. With a budget for thinking, it refuses tool results without the thinking before them, so the budget
        is left out as well.
        """
        refused: set[str] = set()
        messages = []
        for message in self.parameters["messages"]:
            kept = [block for block in message["content"] if not block["type"].endswith("thinking")]
            refused |= {block.get("signature") or block["data"] for block in message["content"] if block not in kept}
            if kept:
                messages.append({**message, "content": kept})
        stripped = {**self.parameters, "messages": messages}
        if stripped.get("thinking", {}).get("type") == "enabled":
            del stripped["thinking"]
        if stripped == self.parameters:
            return None
        self.parameters = stripped
        return frozenset(refused)


def _tool(name: str, description: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": name, "input_schema": {"type": "object", **schema}}
    return {**tool, "description": description} if description else tool


def _tool_choice(choice: str | Mapping[str, Any] | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    if isinstance(choice, str):
        return {"type": _CHOICES[choice]} if choice in _CHOICES else {"type": "tool", "name": choice}
    function = choice.get("function")
    if isinstance(function, Mapping) and function.get("name"):
        return {"type": "tool", "name": function["name"]}
    return dict(choice)


def _called(messages: list[dict[str, Any]]) -> list[str]:
    blocks = (block for message in messages for block in message["content"])
    return list(dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use"))


def _thinking(settings: Settings, thinks: bool) -> dict[str, Any] | None:
    match settings.thinking:
        case "off":
            return {"type": "disabled"}
        case "adaptive":
            return {"type": "adaptive", "display": "summarized"}
        case "auto":
            # A model that thinks by itself hides its thoughts, and its text between tool calls.
            return {"type": "adaptive", "display": "summarized"} if thinks else None
        case budget:
            return {"type": "enabled", "budget_tokens": budget}


def _output_config(request: ChatRequest, settings: Settings) -> dict[str, Any]:
    config: dict[str, Any] = {}
    effort = "low" if request.reasoning_effort == "minimal" else request.reasoning_effort or settings.reasoning_effort
    if effort in EFFORTS:
        config["effort"] = effort
    wanted = request.response_format
    if wanted is not None and wanted.type == "json_schema":
        config["format"] = {"type": "json_schema", "schema": wanted.json_schema}
    return config


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _cache(made: Parameters) -> None:
    """Mark the points up to which the vendor caches a request, so that the next one is cheaper."""
    for name in ("tools", "system"):
        if made[name]:
            made[name] = [*made[name][:-1], {**made[name][-1], "cache_control": _CACHED}]
    messages = list(made["messages"])
    spoken = [index for index, message in enumerate(messages) if message["role"] == "user"]
    for index in spoken[-_CACHED_MESSAGES:]:
        content = messages[index]["content"]
        messages[index] = {"role": "user", "content": [*content[:-1], {**content[-1], "cache_control": _CACHED}]}
    made["messages"] = messages
