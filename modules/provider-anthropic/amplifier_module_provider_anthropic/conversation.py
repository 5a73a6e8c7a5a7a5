"""The conversation as Anthropic takes it: roles in turn, every tool call answered in the very next message.

* System messages at the beginning become the `system` parameter. Those in between stay where they are, as text of the
  user's in `<system>` tags, and developer messages in `<developer>` tags: what comes first is not changed by what comes
  later, which is what prompt caching and the signatures of thinking blocks depend on.
* Messages of one role in a row are one message. All results of a message's tool calls are in the message after it.
* A tool call without a result is given one that says so; a result without its call is left out.
* Thinking blocks are passed on as they came, with their signatures; one without a signature is left out.
* Text that is empty is left out, since the vendor refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from amplifier_core.message_models import Message

Block = dict[str, Any]

_MISSING = "Error: this call has no result; it was interrupted, or its result was lost. Make it again if it is needed."
_OMITTED = "[The conversation begins earlier; its beginning is not shown.]"
_GO_ON = "Continue."
_WRAPPED = {"system": "system", "developer": "developer"}


@dataclass(frozen=True, slots=True)
class Repair:
    """The repair of a tool call without a result, or of a result without its call."""

    tool_call_id: str
    tool_name: str
    repair: Literal["answered", "dropped"]


@dataclass(frozen=True, slots=True)
class MessageList:
    """`system` and `messages` for the request, and the repairs made."""

    system: list[Block]
    messages: list[dict[str, Any]]
    repairs: list[Repair]

    @classmethod
    def of(cls, messages: Iterable[Message], unusable: Collection[str] = ()) -> MessageList:
        """Return the conversation; thinking whose signature or data is among the `unusable` is left out."""
        system: list[Block] = []
        turns = _Turns()
        for message in messages:
            if message.role == "system" and not turns.has_begun:
                system += _said(message)
            elif message.role in _WRAPPED:
                turns.user([_wrapped(block, _WRAPPED[message.role]) for block in _said(message)])
            elif message.role == "assistant":
                turns.assistant(_assistant_blocks(message, unusable))
            elif message.role == "user":
                for call_id, result in _results(message):
                    turns.result(call_id, result, message.name or "")
                turns.user(_said(message))
            else:  # tool and function
                answered = message.tool_call_id or ""
                for call_id, result in list(_results(message)) or [(answered, _result(answered, _said(message)))]:
                    turns.result(call_id, result, message.name or "")
        return cls(system, turns.end(), turns.repairs)


class _Turns:
    """Puts blocks together into messages of the assistant and the user in turn."""

    def __init__(self) -> None:
        self.repairs: list[Repair] = []
        self._messages: list[dict[str, Any]] = []
        self._open: dict[str, str] = {}  # calls of the last message that have no result yet, with the tools' names
        self._results: list[Block] = []
        self._said: list[Block] = []

    @property
    def has_begun(self) -> bool:
        return bool(self._messages or self._said)

    def assistant(self, blocks: list[Block]) -> None:
        if not blocks:
            return
        self._end_user()
        if not self._messages:
            self._messages.append({"role": "user", "content": [{"type": "text", "text": _OMITTED}]})
        if self._messages[-1]["role"] == "assistant":
            self._messages[-1]["content"] += blocks
        else:
            self._messages.append({"role": "assistant", "content": blocks})
        self._open |= {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}

    def user(self, blocks: list[Block]) -> None:
        self._said += blocks

    def result(self, call_id: str, block: Block, name: str) -> None:
        if call_id in self._open:
            del self._open[call_id]
            self._results.append(block)
        else:
            self.repairs.append(Repair(call_id, name, "dropped"))

    def end(self) -> list[dict[str, Any]]:
        self._end_user()
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._messages.append({"role": "user", "content": [{"type": "text", "text": _GO_ON}]})
        return self._messages

    def _end_user(self) -> None:
        for call_id, name in self._open.items():
            self.repairs.append(Repair(call_id, name, "answered"))
            self._results.append({"type": "tool_result", "tool_use_id": call_id, "content": _MISSING, "is_error": True})
        content = [*self._results, *self._said]  # results come first, by the vendor's rule
        self._open, self._results, self._said = {}, [], []
        if content:
            self._messages.append({"role": "user", "content": content})


def _assistant_blocks(message: Message, unusable: Collection[str]) -> list[Block]:
    blocks: list[Block] = []
    if isinstance(message.content, str):
        blocks += _said(message)
    else:
        for block in message.content:
            match block.type:
                case "text":
                    blocks += _text(block.text)
                case "thinking" if block.signature and block.signature not in unusable:
                    blocks.append({"type": "thinking", "thinking": block.thinking, "signature": block.signature})
                case "redacted_thinking" if block.data not in unusable:
                    blocks.append({"type": "redacted_thinking", "data": block.data})
                case "tool_call":
                    blocks.append(_tool_use(block.id, block.name, block.input))
    there = {block["id"] for block in blocks if block["type"] == "tool_use"}
    for call in getattr(message, "tool_calls", None) or ():
        made = _listed_call(call)
        if made["id"] and made["id"] not in there:
            blocks.append(made)
    return blocks


def _listed_call(call: Any) -> Block:
    """Return a call as contexts keep it beside the content, in this contract's words or in OpenAI's."""
    entry = dict(call) if isinstance(call, Mapping) else call.model_dump()
    function = entry.get("function") or {}
    arguments = entry.get("arguments", function.get("arguments"))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = None
    name = entry.get("name") or entry.get("tool") or function.get("name") or ""
    return _tool_use(str(entry.get("id") or ""), str(name), arguments)


def _tool_use(call_id: str, name: str, arguments: Any) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments if isinstance(arguments, dict) else {}}


def _results(message: Message) -> Iterator[tuple[str, Block]]:
    if not isinstance(message.content, str):
        for block in message.content:
            if block.type == "tool_result":
                yield block.tool_call_id, _result(block.tool_call_id, _output(block.output))


def _result(call_id: str, content: list[Block]) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call_id}
    if len(content) == 1 and content[0]["type"] == "text":
        return {**block, "content": content[0]["text"]}
    return {**block, "content": content} if content else block


def _output(output: Any) -> list[Block]:
    if isinstance(output, list) and output and all(isinstance(item, Mapping) for item in output):
        blocks = [block for item in output for block in _content(dict(item))]
        if blocks:
            return blocks
    if output is None:
        return []
    return _text(output if isinstance(output, str) else json.dumps(output, default=str, ensure_ascii=False))


def _said(message: Message) -> list[Block]:
    """Return the text and the images of a message."""
    if isinstance(message.content, str):
        return _text(message.content)
    return [made for block in message.content for made in _content(block.model_dump())]


def _content(block: Mapping[str, Any]) -> list[Block]:
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return _text(block["text"])
    if block.get("type") == "image" and isinstance(block.get("source"), Mapping):
        return [{"type": "image", "source": dict(block["source"])}]
    return []


def _text(text: str) -> list[Block]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _wrapped(block: Block, tag: str) -> Block:
    return {**block, "text": f"<{tag}>\n{block['text']}\n</{tag}>"} if block["type"] == "text" else block
