"""Messages as Anthropic writes them, judged as strictly as the strictest of its models does.

Thinking is signed, and a block that comes back has to be what was signed. A piece of `reasoning` in a script that
begins with `[redacted]` makes the thinking a redacted block. Quirks, named in the script:

    binds_thinking  a signature holds only where nothing before its block has changed, as the newest models have it
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from vendors.dialect import Refused, Reply
from vendors.script import Kind, Turn

_THINKING: Final = {"thinking", "redacted_thinking"}
_QUIRKS: Final = {"binds_thinking"}
_PARAMETERS: Final = {
    *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "temperature", "top_p", "top_k"),
    *("stop_sequences", "thinking", "output_config", "metadata", "service_tier", "cache_control"),
}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_IMAGES: Final = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_MOST_CACHED: Final = 4
_REDACTED: Final = "[redacted]"
_STATUS: Final[Mapping[Kind, tuple[int, str]]] = {
    "key": (401, "authentication_error"),
    "permission": (403, "permission_error"),
    "model": (404, "not_found_error"),
    "bad_request": (400, "invalid_request_error"),
    "context": (400, "invalid_request_error"),
    "content_filter": (400, "invalid_request_error"),
    "rate_limit": (429, "rate_limit_error"),
    "quota": (400, "invalid_request_error"),
    "overloaded": (529, "overloaded_error"),
    "server_error": (500, "api_error"),
}
_SAID: Final[Mapping[Kind, str]] = {
    "context": "prompt is too long: ",
    "content_filter": "Output blocked by content filtering policy: ",
    "quota": "Your credit balance is too low to access the Anthropic API: ",
}


class AnthropicDialect:
    """`/v1/messages` and `/v1/models`."""

    base = ""
    path = "/v1/messages"
    models_path = "/v1/models"

    def __init__(self, quirks: frozenset[str] = frozenset()) -> None:
        if unknown := quirks - _QUIRKS:
            raise ValueError(f"there is no quirk {', '.join(sorted(unknown))}")
        self._quirks = quirks

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("x-api-key", "") or headers.get("authorization", "").removeprefix("Bearer ").strip()

    def check(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        if not headers.get("anthropic-version"):
            raise _bad("anthropic-version: header is required")
        if unknown := sorted(set(body) - _PARAMETERS):
            raise _bad(f"{unknown[0]}: Extra inputs are not permitted")
        if not isinstance(body.get("model"), str) or not body["model"]:
            raise _bad("model: Field required")
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
            raise _bad("max_tokens: Field required, and at least 1")
        _check_system(body.get("system"))
        _check_tools(body)
        _check_thinking(body)
        _check_messages(body.get("messages"))
        _check_thought(body)
        _check_cached(body)
        self._check_signatures(body)

    def whole(self, reply: Reply) -> Mapping[str, Any]:
        made = self._message(reply)
        made["content"] = [block for block, _ in self._blocks(reply)]
        return {**made, "stop_reason": _finish(reply.turn), "usage": _usage(reply, whole=True)}

    def events(self, reply: Reply) -> Iterator[str]:
        yield _event("message_start", message={**self._message(reply), "usage": _usage(reply, whole=False)})
        yield _event("ping")
        for index, (block, deltas) in enumerate(self._blocks(reply)):
            yield _event("content_block_start", index=index, content_block=_begun(block))
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        ended = {"stop_reason": _finish(reply.turn), "stop_sequence": None}
        yield _event("message_delta", delta=ended, usage={"output_tokens": reply.spent.output})
        yield _event("message_stop")

    def error(self, kind: Kind, message: str) -> tuple[int, Mapping[str, Any]]:
        status, name = _STATUS[kind]
        error = {"type": name, "message": f"{_SAID.get(kind, '')}{message}"}
        return status, {"type": "error", "error": error, "request_id": "req_1"}

    def error_event(self, kind: Kind, message: str) -> str:
        return _event("error", error={"type": _STATUS[kind][1], "message": message})

    def models(self, ids: list[str]) -> Mapping[str, Any]:
        about = {"type": "model", "created_at": "2026-09-28T00:00:00Z", "lifecycle": "active"}
        data = [{**about, "id": one, "display_name": one.title(), "max_input_tokens": 123_456} for one in ids]
        return {"data": data, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}

    # -- answers ---------------------------------------------------------------------------

    def _message(self, reply: Reply) -> dict[str, Any]:
        return {
            "id": f"msg_{reply.number}",
            "type": "message",
            "role": "assistant",
            "model": reply.body["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }

    def _blocks(self, reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """Yield each block of an answer as it is when it is whole, with the deltas that make it."""
        turn = reply.turn
        if turn.reasoning:
            thought = "".join(turn.reasoning)
            signature = self._signature(thought, self._prefix(reply.body, len(reply.body["messages"])))
            if thought.startswith(_REDACTED):
                data = b64encode(thought.encode()).decode()
                yield {"type": "redacted_thinking", "data": f"{data}.{signature}"}, []
            else:
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in turn.reasoning]
                block = {"type": "thinking", "thinking": thought, "signature": signature}
                yield block, [*deltas, {"type": "signature_delta", "signature": signature}]
        if turn.text:
            texts = [{"type": "text_delta", "text": piece} for piece in turn.text]
            yield {"type": "text", "text": "".join(turn.text)}, texts
        for number, call in enumerate(turn.tool_calls):
            block = {"type": "tool_use", "id": call.id or f"toolu_{reply.number}_{number}", "name": call.name}
            parts = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *call.arguments)]
            yield {**block, "input": _object("".join(call.arguments))}, parts

    # -- signatures ------------------------------------------------------------------------

    def _check_signatures(self, body: Mapping[str, Any]) -> None:
        for at, message in enumerate(body["messages"]):
            for index, block in enumerate(_list(message["content"])):
                kind = block["type"]
                if not kind.endswith("thinking"):
                    continue
                place = f"messages.{at}.content.{index}"
                if message["role"] != "assistant":
                    raise _bad(f"{place}: `{kind}` blocks may only be in assistant messages")
                thought, signature = block.get("thinking"), block.get("signature")
                if kind == "redacted_thinking":
                    thought, _, signature = str(block.get("data")).rpartition(".")
                    thought = _decoded(thought)
                if signature != self._signature(str(thought), self._prefix(body, at)):
                    raise _bad(f"{place}: Invalid `signature` in `{kind}` block.{self._why()}")

    def _why(self) -> str:
        return " The block is bound to a different conversation." if "binds_thinking" in self._quirks else ""

    def _prefix(self, body: Mapping[str, Any], messages: int) -> str:
        if "binds_thinking" not in self._quirks:
            return ""
        before = {"system": body.get("system"), "tools": body.get("tools"), "messages": body["messages"][:messages]}
        return json.dumps(_uncached(before), sort_keys=True)

    def _signature(self, thought: str, prefix: str) -> str:
        return sha256(f"{thought}\0{prefix}".encode()).hexdigest()


def _finish(turn: Turn) -> str:
    return turn.finish or ("tool_use" if turn.tool_calls else "end_turn")


def _usage(reply: Reply, *, whole: bool) -> dict[str, Any]:
    spent = reply.spent
    return {
        "input_tokens": spent.input - spent.cached - spent.written,
        "cache_read_input_tokens": spent.cached,
        "cache_creation_input_tokens": spent.written,
        "output_tokens": spent.output if whole else 1,
    }


def _begun(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block as it is when it begins."""
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
    return {**block, **empty.get(block["type"], {})}


def _event(kind: str, **about: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **about})}\n\n"


def _bad(message: str) -> Refused:
    return Refused("bad_request", message)


def _object(text: str) -> dict[str, Any]:
    try:
        made = json.loads(text or "{}")
    except ValueError:
        made = None
    return made if isinstance(made, dict) else {}


def _decoded(text: str) -> str:
    try:
        return b64decode(text).decode()
    except ValueError:
        return ""


def _list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []


def _uncached(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _uncached(one) for key, one in value.items() if key != "cache_control"}
    return [_uncached(one) for one in value] if isinstance(value, list) else value


# -- what is refused ---------------------------------------------------------------------


def _check_system(system: Any) -> None:
    if system is not None and not isinstance(system, str):
        _check_blocks(system, "system", {"text"})


def _check_tools(body: Mapping[str, Any]) -> None:
    names: set[str] = set()
    for index, tool in enumerate(body.get("tools", ())):
        place = f"tools.{index}.custom"
        if unknown := sorted(set(tool) - {"name", "description", "input_schema", "cache_control", "strict", "type"}):
            raise _bad(f"{place}.{unknown[0]}: Extra inputs are not permitted")
        if not _NAME.fullmatch(str(tool.get("name"))):
            raise _bad(f"{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if not isinstance(tool.get("input_schema"), dict) or tool["input_schema"].get("type") != "object":
            raise _bad(f"{place}.input_schema.type: Field required")
        if tool["name"] in names:
            raise _bad("tools: Tool names must be unique.")
        names.add(tool["name"])
    choice = body.get("tool_choice")
    if choice is not None:
        if not names:
            raise _bad("tool_choice: may only be specified while providing `tools`.")
        if not isinstance(choice, dict) or choice.get("type") not in ("auto", "any", "none", "tool"):
            raise _bad("tool_choice: Input does not match the expected shape.")
        if choice["type"] == "tool" and choice.get("name") not in names:
            raise _bad(f"tool_choice: Tool '{choice.get('name')}' not found in provided tools")
    uses = ("tool_use", "tool_result")
    messages = [one for one in _list(body.get("messages")) if isinstance(one, dict)]
    if not names and any(_kind(block) in uses for one in messages for block in _list(one.get("content"))):
        raise _bad("Requests which have `tool_use` or `tool_result` blocks must define tools.")


def _check_thinking(body: Mapping[str, Any]) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in ("enabled", "disabled", "adaptive"):
        raise _bad("thinking.type: Input should be 'disabled', 'enabled' or 'adaptive'")
    if kind == "disabled":
        return
    if kind == "enabled" and not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        raise _bad("thinking.enabled.budget_tokens: from 1024 to below `max_tokens`.")
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        raise _bad("Thinking may not be enabled when tool_choice forces tool use.")
    if "temperature" in body and body["temperature"] != 1:
        raise _bad("`temperature` may only be set to 1 when thinking is enabled.")


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise _bad("messages: at least one message is required")
    open_calls: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant") or set(message) != {"role", "content"}:
            raise _bad(f"messages.{at}: a message has a role, 'user' or 'assistant', and content")
        if role != ("assistant" if at % 2 else "user"):
            raise _bad("messages: roles must alternate between 'user' and 'assistant', and 'user' is the first")
        kinds = {"text", "image", "tool_result"} if role == "user" else {"text", "tool_use"} | _THINKING
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        _check_blocks(content, f"messages.{at}.content", kinds)
        _check_results(content, at, open_calls)
        open_calls = [block["id"] for block in content if block["type"] == "tool_use"]
        if seen & set(open_calls) or len(set(open_calls)) < len(open_calls):
            raise _bad(f"messages.{at}: `tool_use` ids must be unique")
        seen |= set(open_calls)
    if messages[-1]["role"] == "assistant":
        raise _bad("This model does not support assistant message prefill. The last message must be a user message.")


def _check_thought(body: Mapping[str, Any]) -> None:
    """See that a model that is to think by a number of tokens has thought before the tool calls it gets results of."""
    said = [_list(message["content"]) for message in body["messages"] if message["role"] == "assistant"]
    is_answered = any(_kind(block) == "tool_result" for block in _list(body["messages"][-1]["content"]))
    if (body.get("thinking") or {}).get("type") == "enabled" and is_answered and _kind(said[-1][0]) not in _THINKING:
        raise _bad(
            f"messages.{len(body['messages']) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
            f"found `{_kind(said[-1][0])}`. When `thinking` is enabled, a final `assistant` message must start with a "
            f"thinking block."
        )


def _check_results(content: list[Any], at: int, open_calls: list[str]) -> None:
    """See that a message answers all calls of the one before it, and answers them first."""
    results = [block.get("tool_use_id") for block in content if block["type"] == "tool_result"]
    for index, found in enumerate(results):
        if found not in open_calls or found in results[:index]:
            raise _bad(f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {found}.")
    if missing := [one for one in open_calls if one not in results]:
        raise _bad(
            f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}."
        )
    if any(block["type"] != "tool_result" for block in content[: len(results)]):
        raise _bad(f"messages.{at}: `tool_result` blocks must come first")


def _check_blocks(content: Any, place: str, kinds: set[str]) -> None:
    if not isinstance(content, list) or not content:
        raise _bad(f"{place}: Input should be a valid list, with at least one block")
    for index, block in enumerate(content):
        where = f"{place}.{index}"
        if _kind(block) not in kinds:
            raise _bad(f"{where}: Input tag {_kind(block)!r} does not match any of the expected tags: {sorted(kinds)}")
        match block["type"]:
            case "text":
                if not isinstance(block.get("text"), str) or not block["text"]:
                    raise _bad(f"{where}: text content blocks must be non-empty")
                if not block["text"].strip():
                    raise _bad(f"{where}: text content blocks must contain non-whitespace text")
            case "tool_use":
                if not _ID.fullmatch(str(block.get("id"))) or not _NAME.fullmatch(str(block.get("name"))):
                    raise _bad(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
                if not isinstance(block.get("input"), dict):
                    raise _bad(f"{where}.tool_use.input: Input should be a valid dictionary")
            case "image":
                _check_image(block.get("source"), where)
            case "tool_result":
                if isinstance(block.get("content", ""), list):
                    _check_blocks(block["content"], f"{where}.content", {"text", "image"})
                elif not isinstance(block.get("content", ""), str):
                    raise _bad(f"{where}.tool_result.content: Input should be a valid string or list")


def _check_image(source: Any, place: str) -> None:
    kind = source.get("type") if isinstance(source, dict) else None
    is_data = kind == "base64" and source.get("media_type") in _IMAGES and bool(source.get("data"))
    if not is_data and not (kind == "url" and str(source.get("url")).startswith("https://")):
        raise _bad(f"{place}.image.source: Input should be base64 data of a known media type, or an https URL")


def _check_cached(body: Mapping[str, Any]) -> None:
    blocks = [*_list(body.get("tools")), *_list(body.get("system"))]
    blocks += [block for message in body["messages"] for block in _list(message["content"])]
    cached = [block for block in blocks if "cache_control" in block]
    if len(cached) > _MOST_CACHED:
        raise _bad(f"A maximum of {_MOST_CACHED} blocks with cache_control may be provided. Found {len(cached)}.")
    for block in cached:
        if _kind(block) in _THINKING or block["cache_control"].get("type") != "ephemeral":
            raise _bad("cache_control: thinking blocks take none, and its type is 'ephemeral'")


def _kind(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, dict) else ""
