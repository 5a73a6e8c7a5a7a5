"""The script: the provider's answers, call by call.

It holds values only. `Script.next()` returns the replies in order and the fallback ever after; it never blocks and
never fails, and a call that is cancelled later has still used up its reply.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amplifier_core import llm_errors

from . import fields

_REPLY_KEYS = ("text", "thinking", "tool_calls", "error", "delay")
_CALL_KEYS = ("id", "name", "arguments")


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One tool call of a reply; without an id the provider numbers it."""

    name: str
    arguments: Mapping[str, Any]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ScriptedError:
    """An LLM error to raise in place of an answer."""

    type: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def exception(self, provider: str, model: str) -> llm_errors.LLMError:
        """Return a fresh exception; provider and model are filled in unless the script names them."""
        kind = getattr(llm_errors, self.type)
        error: llm_errors.LLMError = kind(self.message, **{"provider": provider, "model": model, **self.details})
        return error


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One scripted answer: text, thinking and tool calls, or an error; after a delay in seconds."""

    text: str | None = None
    thinking: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedError | None = None
    delay: float = 0.0

    @classmethod
    def of(cls, item: Any, place: str) -> ScriptedReply:
        """Return the reply that an item of the configuration describes.

        Raises:
            ValueError: the item is neither text nor a mapping with the known keys, or is empty.
        """
        if isinstance(item, str):
            return cls(text=item)
        source = fields.mapping(item, place)
        fields.only(source, _REPLY_KEYS, place)
        calls = fields.sequence(source.get("tool_calls"), f"{place}.tool_calls")
        reply = cls(
            text=fields.text(source, "text", place),
            thinking=fields.text(source, "thinking", place),
            tool_calls=tuple(_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls)),
            error=_error(source["error"], f"{place}.error") if source.get("error") is not None else None,
            delay=float(fields.amount(source, "delay", place, "seconds", 0.0)),
        )
        speaks = reply.text is not None or reply.thinking is not None or bool(reply.tool_calls)
        if speaks == (reply.error is not None):
            raise fields.refuse(place, "give either an `error`, or at least one of `text`, `thinking`, `tool_calls`")
        return reply


class Script:
    """Replies in order, then the fallback without end."""

    def __init__(self, replies: tuple[ScriptedReply, ...], fallback: ScriptedReply) -> None:
        self._replies = replies
        self._fallback = fallback
        self.used = 0  # calls answered so far, the fallback's included

    def next(self) -> ScriptedReply:
        """Return the reply for the next call."""
        position, self.used = self.used, self.used + 1
        return self._replies[position] if position < len(self._replies) else self._fallback


def _call(item: Any, place: str) -> ScriptedCall:
    source = fields.mapping(item, place)
    fields.only(source, _CALL_KEYS, place)
    arguments = fields.mapping(source.get("arguments", {}), f"{place}.arguments")
    return ScriptedCall(
        fields.name(source, "name", place), copy.deepcopy(dict(arguments)), fields.text(source, "id", place)
    )


def _error(item: Any, place: str) -> ScriptedError:
    source = dict(fields.mapping(item, place))
    kind = fields.name(source, "type", place)
    known = getattr(llm_errors, kind, None)
    if not (isinstance(known, type) and issubclass(known, llm_errors.LLMError)):
        raise fields.refuse(place, f"`type` must name an LLM error class such as `RateLimitError`, not `{kind}`")
    message = fields.text(source, "message", place, f"A scripted {kind}.") or ""
    error = ScriptedError(kind, message, {k: v for k, v in source.items() if k not in ("type", "message")})
    try:
        error.exception("provider", "model")
    except TypeError as problem:  # the class itself defines which details it takes
        raise fields.refuse(place, f"`{kind}` does not take these details: {problem}") from problem
    return error
