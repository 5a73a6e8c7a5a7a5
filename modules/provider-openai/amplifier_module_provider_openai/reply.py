"""Collect one answer as it arrives, and make the contract's response of it.

Reading is lenient, because compatible servers leave out many parts: ids and indices of tool calls, usage, roles, the
reason for the end. Of a server's output, only a tool call that cannot be carried out raises.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock, ToolCall, ToolCallBlock, Usage

TEXT: Final = "text"
THINKING: Final = "thinking"
_FIELDS: Final = {"reasoning_content": THINKING, "reasoning": THINKING, "content": TEXT, "refusal": TEXT}
CUT_SHORT: Final = "length"
_MOST_CHARACTERS: Final = 4_000_000  # of one call's arguments
_SHOWN_CHARACTERS: Final = 200  # of arguments that are no JSON


@dataclass(slots=True)
class _Call:
    index: Any
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    size: int = 0  # characters of the arguments

    def take(self, id: str, name: Any, arguments: Any) -> None:
        """Add a part of the call; the first id and name stay."""
        self.id = self.id or id
        if isinstance(name, str) and not self.name:
            self.name = name
        if isinstance(arguments, Mapping):  # written out instead of as text
            arguments = json.dumps(arguments)
        if isinstance(arguments, str):
            self.arguments.append(arguments)
            self.size += len(arguments)


class Reply:
    """The answer received so far."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[str]] = {}  # the order in which they began is that of the response
        self._calls: list[_Call] = []
        self._usages: list[Usage | None] = [None]  # one for each answer in it; the last count of a server is its total
        self.finish_reason: str | None = None
        self.model: str | None = None

    @property
    def text(self) -> str:
        """The model's text, without its thinking."""
        return "".join(self._blocks.get(TEXT, ()))

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    @property
    def is_cut_short(self) -> bool:
        """Whether the answer ended because it became too long."""
        return self.finish_reason == CUT_SHORT

    @property
    def is_endless(self) -> bool:
        """Whether a call is longer than any that a model means."""
        return any(call.size > _MOST_CHARACTERS for call in self._calls)

    def position(self, kind: str) -> int:
        """Return which block of the response the pieces of a kind are."""
        return list(self._blocks).index(kind)

    def take(self, chunk: Any) -> Iterator[tuple[str, str]]:
        """Take a part of the answer; yield the pieces of text in it, each with its kind."""
        model, usage = _read(chunk, "model"), _usage(_read(chunk, "usage"))
        self.model = model if isinstance(model, str) and model else self.model
        self._usages[-1] = usage or self._usages[-1]
        choices = _read(chunk, "choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        reason = _read(choice, "finish_reason")
        self.finish_reason = reason if isinstance(reason, str) else self.finish_reason
        delta = _read(choice, "delta") or _read(choice, "message")
        for name, kind in _FIELDS.items():
            text = _read(delta, name)
            if isinstance(text, str) and text:
                if name == "reasoning" and isinstance(_read(delta, "reasoning_content"), str):
                    continue  # the same under two names
                self._blocks.setdefault(kind, []).append(text)
                yield kind, text
        calls = _read(delta, "tool_calls")
        for call in calls if isinstance(calls, list) else ():
            index, id = _read(call, "index"), _read(call, "id")
            function = _read(call, "function")
            name, arguments = _read(function, "name"), _read(function, "arguments")
            id = id if isinstance(id, str) else ""
            self._call(index, id, name).take(id, name, arguments)

    def go_on(self) -> None:
        """Count the next parts as another answer, which continues this one."""
        self.finish_reason = None
        self._usages.append(None)

    def usage(self, cost: Decimal | None = None) -> Usage | None:
        """Return the tokens of all answers in it, and their cost; None if the server did not count them."""
        counted = [one for one in self._usages if one is not None]
        if not counted:
            return None
        total: dict[str, Any] = {}
        for name in _COUNTS:
            known = [value for one in counted if (value := getattr(one, name)) is not None]
            total |= {name: sum(known)} if known else {}
        return Usage(**total, cost_usd=cost)

    def response(self, provider: str, model: str, cost: Decimal | None = None) -> ChatResponse:
        """Return it as the contract's response.

        Raises:
            InvalidToolCallError: the arguments of a tool call are no JSON object; the model has to be told.
        """
        content: list[Any] = []
        for kind, pieces in self._blocks.items():
            text = "".join(pieces)
            content.append(TextBlock(text=text) if kind == TEXT else ThinkingBlock(thinking=text))
        calls = [self._tool_call(call, provider, model) for call in self._calls]
        content += [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in calls]
        return ChatResponse(
            content=content,
            tool_calls=calls or None,
            usage=self.usage(cost),
            finish_reason="tool_calls" if calls else self.finish_reason,
            metadata={"model": self.model or model},
        )

    def _call(self, index: Any, id: str, name: Any) -> _Call:
        """Return the call that a part belongs to: by its index and id; without either, a name begins a new one."""
        for call in reversed(self._calls):
            if id and call.id:
                # Some servers number each part 0, and some give two calls one id.
                if call.id == id and (index is None or call.index in (None, index)):
                    return call
            elif index is not None:
                if call.index == index:
                    return call
            elif not (isinstance(name, str) and name):
                return call
        self._calls.append(_Call(index))
        return self._calls[-1]

    def _tool_call(self, call: _Call, provider: str, model: str) -> ToolCall:
        text = "".join(call.arguments)
        arguments = _arguments(text)
        if arguments is None or not call.name:
            wrong = f"with arguments that are no JSON object: {_shown(text)}" if call.name else "without its name"
            cut = "The answer was cut off there: pass less at once, or raise `max_output_tokens`. "
            if call.size > _MOST_CHARACTERS:
                wrong = f"with more than {_MOST_CHARACTERS:,} characters, and was not heard to its end"
            raise InvalidToolCallError(
                f"The model called `{call.name or 'a tool'}` {wrong}. {cut if self.is_cut_short else ''}Make the call "
                "again, with one JSON object.",
                provider=provider,
                model=model,
                retryable=False,
                tool_name=call.name,
                raw_arguments=text if call.size <= _MOST_CHARACTERS else text[:_SHOWN_CHARACTERS],
            )
        return ToolCall(id=call.id or f"call_{uuid.uuid4().hex[:24]}", name=call.name, arguments=arguments)


_COUNTS: Final = ("input_tokens", "output_tokens", "total_tokens", "reasoning_tokens", "cache_read_tokens")


def _arguments(text: str) -> dict[str, Any] | None:
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text)
        if isinstance(arguments, str):  # some models quote them twice
            arguments = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else {} if arguments is None else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


def _usage(given: Any) -> Usage | None:
    spent, made = _count(given, "prompt_tokens"), _count(given, "completion_tokens")
    if spent is None or made is None:
        return None
    return Usage(
        input_tokens=spent,
        output_tokens=made,
        total_tokens=spent + made,
        reasoning_tokens=_count(_read(given, "completion_tokens_details"), "reasoning_tokens"),
        cache_read_tokens=_count(_read(given, "prompt_tokens_details"), "cached_tokens"),
    )


def _count(given: Any, name: str) -> int | None:
    value = _read(given, name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _read(given: Any, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
