"""Make the body of a request from the contract's, for one service.

OpenAI's own service takes parameters that compatible servers do not know, and its reasoning models take fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_core.message_models import ChatRequest, ToolSpec

from .conversation import Repair, written
from .prices import Known
from .settings import Settings

_WORDS = ("auto", "none", "required")
_GO_ON = "Your answer was cut short. Go on exactly where it ends; repeat nothing and say nothing about this."


@dataclass(frozen=True, slots=True)
class Asking:
    """One request in the service's form, and the repairs that were made in it."""

    body: Mapping[str, Any]
    repair: Repair
    timeout: float | None

    @property
    def model(self) -> str:
        return str(self.body["model"])

    def going_on(self, text: str) -> Mapping[str, Any]:
        """Return the body that requests the rest of an answer that begins with `text`."""
        if not text:
            return self.body
        rest = [{"role": "assistant", "content": text}, {"role": "user", "content": _GO_ON}]
        return {**self.body, "messages": [*self.body["messages"], *rest]}


def asking(request: ChatRequest, wishes: Mapping[str, Any], model: str, known: Known, settings: Settings) -> Asking:
    """Return the request to make; `wishes` are the keyword arguments of the call, which take precedence.

    Raises:
        InvalidRequestError: no message of the conversation has content.
    """
    messages, repair = written(request.messages, is_openai=settings.is_openai)
    if not messages:
        raise InvalidRequestError(
            "There is nothing to send: no message of the conversation says anything. Say something first.",
            provider=settings.name,
            model=model,
        )
    body: dict[str, Any] = {"model": model, "messages": messages}
    if settings.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if (choice := request.tool_choice) is not None:
            is_name = isinstance(choice, str) and choice not in _WORDS
            body["tool_choice"] = {"type": "function", "function": {"name": choice}} if is_name else choice
    most = _first(wishes.get("max_output_tokens"), request.max_output_tokens, settings.max_output_tokens)
    effort = _first(wishes.get("reasoning_effort"), request.reasoning_effort, settings.reasoning_effort)
    more = {
        ("max_completion_tokens" if settings.is_openai else "max_tokens"): most,
        "temperature": _first(wishes.get("temperature"), request.temperature, settings.temperature),
        "top_p": request.top_p,
        "stop": request.stop or None,
        "reasoning_effort": effort,
        "response_format": _format(request.response_format),
    }
    if known.reasons:  # reasoning models refuse these
        for name in ("temperature", "top_p", "stop"):
            more[name] = None
    body |= {name: value for name, value in more.items() if value is not None}
    return Asking(body, repair, _first(wishes.get("timeout"), request.timeout))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    parameters = spec.parameters if spec.parameters.get("type") == "object" else {"type": "object", "properties": {}}
    function: dict[str, Any] = {"name": spec.name, "parameters": {"properties": {}, **parameters}}
    if spec.description:
        function["description"] = spec.description
    return {"type": "function", "function": function}


def _format(given: Any) -> dict[str, Any] | None:
    kind = getattr(given, "type", None)
    if kind == "json":
        return {"type": "json_object"}
    if kind == "json_schema":
        schema: dict[str, Any] = {"name": "answer", "schema": given.json_schema}
        return {"type": "json_schema", "json_schema": schema if given.strict is None else {**schema, "strict": True}}
    return None


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
