"""Chat completions as OpenAI writes them, and as servers do that are compatible to a degree.

What such servers leave out or do otherwise is a quirk, named in the script:

    no_usage, no_ids (of tool calls), no_index (of tool calls), no_role, no_done (the last event), finish_stop (also
    after tool calls), whole_calls (arguments in one piece), reasoning_content and reasoning (the field that carries
    what the model thinks; without either it is kept to itself, and counted)

Requests are judged as strictly as the strictest server known does it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vendors.dialect import Refused, Reply
from vendors.script import Call, Kind

_QUIRKS: Final = {
    *("no_usage", "no_ids", "no_index", "no_role", "no_done", "finish_stop", "whole_calls"),
    *("reasoning_content", "reasoning"),
}
_PARAMETERS: Final = {
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "temperature"),
    *("top_p", "max_tokens", "max_completion_tokens", "stop", "response_format", "reasoning_effort", "seed", "user"),
    *("frequency_penalty", "presence_penalty", "logprobs", "n", "metadata", "store", "service_tier"),
    *("prompt_cache_key", "safety_identifier", "verbosity"),
}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STATUS: Final[Mapping[Kind, tuple[int, str, str | None]]] = {
    "key": (401, "invalid_request_error", "invalid_api_key"),
    "permission": (403, "invalid_request_error", "unsupported_country_region_territory"),
    "model": (404, "invalid_request_error", "model_not_found"),
    "bad_request": (400, "invalid_request_error", None),
    "context": (400, "invalid_request_error", "context_length_exceeded"),
    "content_filter": (400, "invalid_request_error", "content_policy_violation"),
    "rate_limit": (429, "requests", "rate_limit_exceeded"),
    "quota": (429, "insufficient_quota", "insufficient_quota"),
    "overloaded": (503, "service_unavailable_error", "slow_down"),
    "server_error": (500, "server_error", None),
}


class OpenAIDialect:
    """`/v1/chat/completions` and `/v1/models`."""

    base = "/v1"
    path = "/v1/chat/completions"
    models_path = "/v1/models"

    def __init__(self, quirks: frozenset[str] = frozenset()) -> None:
        if unknown := quirks - _QUIRKS:
            raise ValueError(f"there is no quirk {', '.join(sorted(unknown))}")
        self._quirks = quirks

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Bearer ").strip()

    def check(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        if headers.get("content-type", "").partition(";")[0] != "application/json":
            raise _bad("you must send application/json")
        if unknown := sorted(set(body) - _PARAMETERS):
            raise _bad(f"Unknown parameter: '{unknown[0]}'.")
        if not isinstance(body.get("model"), str) or not body["model"]:
            raise _bad("you must provide a model parameter")
        if {"max_tokens", "max_completion_tokens"} <= set(body):
            raise _bad("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
        if "stream_options" in body and not body.get("stream"):
            raise _bad("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1), ("max_tokens", 1, 1 << 24)):
            if name in body and (not isinstance(body[name], int | float) or not low <= body[name] <= high):
                raise _bad(f"Invalid '{name}'.")
        _check_tools(body)
        _check_messages(body.get("messages"))

    def whole(self, reply: Reply) -> Mapping[str, Any]:
        turn = reply.turn
        text = "".join(turn.text)
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
        if field := self._reasoning_field():
            message[field] = "".join(turn.reasoning) or None
        calls = [
            self._call(index, call, reply, "".join(call.arguments), first=True)
            for index, call in enumerate(turn.tool_calls)
        ]
        if calls:
            message["tool_calls"] = [{name: one[name] for name in one if name != "index"} for one in calls]
        choice = {"index": 0, "message": message, "finish_reason": self._finish(reply), "logprobs": None}
        usage = {} if "no_usage" in self._quirks else {"usage": _usage(reply)}
        return {**self._head(reply, "chat.completion"), "choices": [choice], **usage}

    def events(self, reply: Reply) -> Iterator[str]:
        if "no_role" not in self._quirks:
            yield self._chunk(reply, {"role": "assistant", "content": "", "refusal": None})
        if field := self._reasoning_field():
            for piece in reply.turn.reasoning:
                yield self._chunk(reply, {field: piece})
        for piece in reply.turn.text:
            yield self._chunk(reply, {"content": piece})
        for index, call in enumerate(reply.turn.tool_calls):
            whole = "whole_calls" in self._quirks
            pieces = ("".join(call.arguments),) if whole else ("", *call.arguments)
            for number, piece in enumerate(pieces):
                yield self._chunk(reply, {"tool_calls": [self._call(index, call, reply, piece, first=number == 0)]})
        yield self._chunk(reply, {}, self._finish(reply))
        wanted = (reply.body.get("stream_options") or {}).get("include_usage")
        if wanted and "no_usage" not in self._quirks:
            yield _event({**self._head(reply, "chat.completion.chunk"), "choices": [], "usage": _usage(reply)})
        if "no_done" not in self._quirks:
            yield "data: [DONE]\n\n"

    def error(self, kind: Kind, message: str) -> tuple[int, Mapping[str, Any]]:
        status, type_, code = _STATUS[kind]
        return status, {"error": {"message": message, "type": type_, "param": None, "code": code}}

    def error_event(self, kind: Kind, message: str) -> str:
        return _event(self.error(kind, message)[1])

    def models(self, ids: list[str]) -> Mapping[str, Any]:
        return {
            "object": "list",
            "data": [{"id": id, "object": "model", "created": 1700000000, "owned_by": "system"} for id in ids],
        }

    def _reasoning_field(self) -> str:
        return next((name for name in ("reasoning_content", "reasoning") if name in self._quirks), "")

    def _finish(self, reply: Reply) -> str:
        has_calls = reply.turn.tool_calls and "finish_stop" not in self._quirks
        return reply.turn.finish or ("tool_calls" if has_calls else "stop")

    def _call(self, index: int, call: Call, reply: Reply, arguments: str, *, first: bool) -> dict[str, Any]:
        made: dict[str, Any] = {} if "no_index" in self._quirks else {"index": index}
        if not first:
            return {**made, "function": {"arguments": arguments}}
        if "no_ids" not in self._quirks:
            made["id"] = call.id or f"call_{reply.number}_{index}"
        return {**made, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def _head(self, reply: Reply, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{reply.number}",
            "object": kind,
            "created": 1700000000,
            "model": reply.body["model"],
            "system_fingerprint": None,
        }

    def _chunk(self, reply: Reply, delta: Mapping[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**self._head(reply, "chat.completion.chunk"), "choices": [choice]})


def _event(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _usage(reply: Reply) -> dict[str, Any]:
    spent = reply.spent
    return {
        "prompt_tokens": spent.input,
        "completion_tokens": spent.output,
        "total_tokens": spent.input + spent.output,
        "prompt_tokens_details": {"cached_tokens": spent.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": spent.reasoning, "audio_tokens": 0},
    }


def _bad(message: str) -> Refused:
    return Refused("bad_request", message)


def _check_tools(body: Mapping[str, Any]) -> None:
    if "tools" not in body:
        if "tool_choice" in body or "parallel_tool_calls" in body:
            raise _bad("'tool_choice' is only allowed when 'tools' are specified.")
        return
    tools = body["tools"]
    if not isinstance(tools, list) or not tools:
        raise _bad("[] is too short - 'tools'")
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        if not isinstance(function, dict) or not _NAME.fullmatch(str(function.get("name"))):
            raise _bad(f"Invalid 'tools[{index}].function.name': expected a string of A-Z, a-z, 0-9, _ and -.")
        parameters = function.get("parameters")
        if parameters is not None and (not isinstance(parameters, dict) or parameters.get("type") != "object"):
            raise _bad(f"Invalid schema for function '{function['name']}': schema must have type 'object'.")


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise _bad("[] is too short - 'messages'")
    open_calls: dict[str, None] = {}
    for index, message in enumerate(messages):
        place = f"messages.[{index}]"
        if not isinstance(message, dict):
            raise _bad(f"Invalid type for '{place}': expected an object.")
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                raise _bad(
                    f"Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
                    f"'tool_calls'. ({place})"
                )
            del open_calls[message["tool_call_id"]]
            _check_content(message.get("content"), f"{place}.content", {"text"}, may_be_empty=True)
            continue
        if open_calls:
            raise _bad(
                f"An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. These did not have response messages: {', '.join(open_calls)}"
            )
        if role == "assistant":
            open_calls = _check_assistant(message, place)
        elif role in ("system", "developer"):
            _check_content(message.get("content"), f"{place}.content", {"text"})
        elif role == "user":
            _check_content(message.get("content"), f"{place}.content", {"text", "image_url", "input_audio", "file"})
        else:  # of functions no model has heard for years
            raise _bad(f"Invalid value: '{role}'. Supported are 'system', 'assistant', 'user', 'tool', 'developer'.")
        if unknown := set(message) - {"role", "content", "name", "tool_calls", "refusal"}:
            raise _bad(f"Unknown parameter: '{place}.{min(unknown)}'.")
    if open_calls:
        raise _bad(f"These tool calls did not have response messages: {', '.join(open_calls)}")


def _check_assistant(message: Mapping[str, Any], place: str) -> dict[str, None]:
    if "tool_calls" not in message:
        _check_content(message.get("content"), f"{place}.content", {"text", "refusal"})
        return {}
    calls, found = message["tool_calls"], dict.fromkeys(())
    if not isinstance(calls, list) or not calls:
        raise _bad(f"[] is too short - '{place}.tool_calls'")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) and call.get("type") == "function" else None
        if not isinstance(function, dict) or not isinstance(call.get("id"), str) or not call["id"]:
            raise _bad(f"Invalid '{place}.tool_calls': each has an id, the type 'function' and a function.")
        if not _NAME.fullmatch(str(function.get("name"))):
            raise _bad(f"Invalid '{place}.tool_calls.function.name'.")
        try:
            arguments = json.loads(function.get("arguments", ""))
        except (TypeError, ValueError):
            arguments = None
        if not isinstance(arguments, dict):
            raise _bad(f"Invalid '{place}.tool_calls.function.arguments': expected a JSON object as text.")
        if call["id"] in found:
            raise _bad(f"Duplicate '{place}.tool_calls.id': {call['id']}.")
        found[call["id"]] = None
    if message.get("content") is not None:
        _check_content(message["content"], f"{place}.content", {"text", "refusal"})
    return found


def _check_content(content: Any, place: str, kinds: set[str], *, may_be_empty: bool = False) -> None:
    if isinstance(content, str):
        if not content and not may_be_empty:
            raise _bad(f"Invalid '{place}': it is empty.")
        return
    if not isinstance(content, list) or not content:
        raise _bad(f"Invalid value for '{place}': expected a string or a list of parts, which must not be empty.")
    for part in content:
        if not isinstance(part, dict) or part.get("type") not in kinds:
            raise _bad(f"Invalid '{place}': a part may be {', '.join(sorted(kinds))}.")
        if part["type"] == "text" and not (isinstance(part.get("text"), str) and part["text"]):
            raise _bad(f"Invalid '{place}': text content blocks must be non-empty.")
        if part["type"] == "image_url":
            url = (part.get("image_url") or {}).get("url")
            if not isinstance(url, str) or not url.startswith(("https://", "http://", "data:image/")):
                raise _bad(f"Invalid '{place}': expected the URL of an image.")
