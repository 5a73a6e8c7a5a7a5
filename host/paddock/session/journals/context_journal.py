"""The host's record of the context's messages, so that the context's death loses and doubles nothing.

Calls that change the context are noted when they have ended well, as the bytes they were made of. A fresh context is
compared with them. An empty one gets everything, and one that kept a beginning gets the rest. One that holds something
else of its own is left as it is, and so is one that holds the conversation of earlier sessions with the journal's at
its end. A store keeps the record: a journal on a store that has one goes on with it.

The journal is bounded by the memory that it takes, so that it fits into the context and the host. A message counts from
when it is admitted, under a number by which it is known until it is noted or released. The last quarter is reserved for
what the session needs to go on, so that no tool's results and no hook's injections close the conversation.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgpack

from paddock.plan.units import size_text
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded, Handle
from paddock.session.journals.journal_store import JournalEntry, JournalStore
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.body import EncodeError
from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.frames import Buffer

_MUTATORS: Final = frozenset({"add_message", "set_messages", "clear", "set_system_prompt_factory"})
_MAX_WEIGHT: Final = 32 * 1024 * 1024  # bytes of memory, of a context without a known limit
_OPENING: Final = 8 * 1024 * 1024  # bytes of memory that one `set_messages` takes: half a message at most
_TOGETHER: Final = 15 * 1024 * 1024  # bytes of a call that sets all messages, and of memory for its values: a frame's
_BESIDE: Final = 512  # bytes that a noted call takes besides
_ONE_ARGUMENT, _NONE_BY_NAME = b"\x92\x91", b"\x80"  # around the argument of an encoded call
_TABLES: Final = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])  # first bytes of an encoded table
_RESULT_SHARE: Final = 16  # of the room that is left, one goes to a single result
_KEPT_SHARE: Final = 4  # of the conversation, one is reserved for what the session needs to go on
_CLOSING: Final = 4 * 1024  # bytes of memory that the answer to a tool call may take of the reserve
_ANSWER: Final = "Error: the turn was interrupted before this tool call was answered"
_ROLES_OF_THE_SESSION: Final = ("user", "assistant", "system", "developer")

_log = logging.getLogger(__name__)

Ask = Callable[[Handle, str, Encoded], Awaitable[Encoded]]
"""Calls a member of the context's present life, and returns the answer undecoded."""


class ContextJournal:
    """The messages of one session's context, in the order they were added.

    The factory of its system prompt is an object of this host alone, and not in the store.
    """

    def __init__(self, marshaller: Marshaller, store: JournalStore) -> None:
        self.max_weight = _MAX_WEIGHT
        self.weight = sum(_weight(entry.message) for entry in store.load())
        self._numbers = itertools.count(1)
        self._marshaller = marshaller
        self._store = store
        self._admitted: dict[int, int] = {}  # the memory of calls that are not over, by their numbers
        self._admitted_weight = 0
        self._prompt_factory: Encoded | None = None
        self._came_back_empty = False

    def bound(self, max_weight: int) -> None:
        """Limit the journal to the conversation that its context can hold."""
        self.max_weight = max_weight

    def note(self, method: str, message: Encoded, number: int, answer: Buffer = b"") -> None:
        """Remember a call of the context that ended well; `number` is from when it was admitted, 0 if it was not.

        Its `answer` says nothing about the conversation.
        """
        weight = self.release(number)
        if method not in _MUTATORS:
            return
        if method == "set_system_prompt_factory":
            self._prompt_factory = message
            return
        entry = None
        if method != "clear":
            try:
                weight = weight if weight and method == "add_message" else _weight(message)
                entry = JournalEntry(method, message)
            except RemoteProtocolError:
                pass  # if the context took it, it meant something there; it cannot be sent again
        if method != "add_message":
            self.weight = weight if entry is not None else 0
            self._store.replace([entry] if entry is not None else [])
        elif entry is not None:
            self.weight += weight
            self._store.append(entry)

    @property
    def room(self) -> int:
        """How many bytes of memory more results and injections may take."""
        return max(0, self._open_weight - self._taken)

    @property
    def _open_weight(self) -> int:
        return self.max_weight - self.max_weight // _KEPT_SHARE

    @property
    def _taken(self) -> int:
        return self.weight + self._admitted_weight

    def result_max(self) -> int:
        """How many bytes of memory a result may take now, so that it leaves room for others."""
        return self.room // _RESULT_SHARE

    def admit(self, method: str, message: Encoded, is_the_sessions: bool = True) -> int:
        """Set aside room for a call that adds messages to the context, until it is noted or released.

        `is_the_sessions` means that the orchestrator or the application makes it. Returns the number of the call, 0 for
        one that adds none.

        Raises:
            OverLimitError: there is no room for it.
        """
        if method not in ("add_message", "set_messages"):
            return 0
        try:
            size = _weight(message)
        except RemoteProtocolError:
            return 0  # it is over a cap, as its receiver reports, and is not noted
        more = (
            size if method == "add_message" else max(0, size - self.weight)
        )  # the new messages replace the earlier ones
        most = self._open_weight
        if more and self._taken + more > most:
            if method == "set_messages":
                most = self.max_weight if is_the_sessions else most
            elif self._is_needed(message, size, is_the_sessions):
                most = self.max_weight
            if self._taken + more > most:
                raise OverLimitError(self._refusal(size, most))
        number = next(self._numbers)
        self._admitted[number] = more
        self._admitted_weight += more
        return number

    def release(self, number: int) -> int:
        """Release the room that was set aside for the call of this number; return how much that was, 0 if none was."""
        weight = self._admitted.pop(number, 0)
        self._admitted_weight -= weight
        return weight

    def _is_needed(self, message: Encoded, size: int, is_the_sessions: bool) -> bool:
        """Whether the session cannot go on without a message: its own messages, and short answers to tool calls."""
        argument = _argument(message, self._marshaller)
        facts: dict[str, Any] = argument if isinstance(argument, dict) else getattr(argument, "__dict__", {})
        metadata = facts.get("metadata")
        if not is_the_sessions or (isinstance(metadata, dict) and metadata.get("source") == "hook"):
            return False
        return facts.get("role") in _ROLES_OF_THE_SESSION or (facts.get("role") == "tool" and size <= _CLOSING)

    def _refusal(self, size: int, most: int) -> str:
        held = f"the conversation takes {size_text(self._taken)} of the {size_text(self.max_weight)} that it may"
        kept = ""
        if most < self.max_weight:
            kept = f", of which {size_text(self.max_weight - most)} are kept for what the session itself has to say"
        return (
            f"{held}{kept}, and there is no room for {size_text(size)} more: clear it, set a shorter one, or give the "
            "context a larger `memory_max`, an eighth of which is the conversation's"
        )

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages that were added to the context."""
        return messages_of(self._store.load(), self._marshaller)

    async def restore(self, handle: Handle, ask: Ask, *, notes_more: bool = False) -> None:
        """Bring the fresh context behind `handle` to where its predecessor was.

        `notes_more` has what the context kept beyond this record noted: an earlier host could not store it.
        """
        if self._prompt_factory is not None:
            await ask(handle, "set_system_prompt_factory", self._prompt_factory)
        present = await self._present(handle, ask)
        self._came_back_empty = present == []
        if present == []:
            await self._fill(handle, ask)
            return
        messages = self.messages()
        if present is not None and present == messages[: len(present)]:
            await self._add(messages[len(present) :], handle, ask)
        elif notes_more and present is not None and (later := self._kept_beyond(present)):
            for message in later:
                self.note("add_message", self._marshaller.encode([[message], {}]), 0)
        elif present is None or not any(_ends_with(one, self._added()) for one in (present, present[:-1])):
            _log.warning(
                "context `%s` came back with messages of its own; they stay, nothing was added", handle.owner.name
            )

    async def _fill(self, handle: Handle, ask: Ask) -> None:
        """Give an empty context all messages, from their bytes where these are in the usual form."""
        entries = self._store.load()
        together = _together(entries)
        if together is not None:
            values = self.weight - len(entries) * _BESIDE - len(together.body)
            if len(entries) == 1 or max(values, len(together.body)) <= _TOGETHER:
                await ask(handle, "set_messages", together)
                return
        messages = self.messages()
        known = opening(messages, self._marshaller)
        if known:
            await ask(handle, "set_messages", self._marshaller.encode([[messages[:known]], {}]))
        await self._add(messages[known:], handle, ask)

    async def _add(self, messages: Sequence[object], handle: Handle, ask: Ask) -> None:
        for message in messages:
            await ask(handle, "add_message", self._marshaller.encode([[message], {}]))

    async def ends_with(self, handle: Handle, call: Encoded, ask: Ask) -> bool | None:
        """Whether the last message of the context is the one that `call` adds and the journal has not noted.

        None if the context cannot say: it holds more than one message does.
        """
        if self._came_back_empty:  # it holds later messages, and did not get this one
            return False
        present = await self._present(handle, ask)
        if present is None:
            return None
        if present == self.messages() or not _ends_with(present, [_argument(call, self._marshaller)]):
            return False
        return _ends_with(present[:-1], self._added())

    def _kept_beyond(self, present: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages that a context kept, and whose host ended before they were noted.

        Where the context had others before this session, that is the last one at most.
        """
        messages, added = self.messages(), self._added()
        if present[: len(messages)] == messages and (messages or len(present) == 1):
            return present[len(messages) :]
        is_behind_added = added and _ends_with(present[:-1], added) and not _ends_with(present, added)
        return present[-1:] if is_behind_added else []

    def _added(self) -> list[dict[str, Any]]:
        """Return the messages that were added since the conversation was last set."""
        added = [one for one in self._store.load() if one.method == "add_message"]
        return messages_of(added, self._marshaller)

    async def _present(self, handle: Handle, ask: Ask) -> list[dict[str, Any]] | None:
        """Return the messages that the context holds now, None if they are more than it can say at once."""
        try:
            answer = await ask(handle, "get_messages", self._marshaller.encode([[], {}]))
        except RuntimeError as exc:
            if isinstance(exc, OverLimitError) or getattr(exc, "remote_type", "") == EncodeError.__name__:
                return None  # too many bytes, or too many values
            raise
        messages: list[dict[str, Any]] = self._marshaller.decode(answer)
        return messages


def _weight(message: Encoded) -> int:
    """Return the bytes of memory that a noted call takes.

    Raises:
        RemoteProtocolError: it is no value, or over a cap.
    """
    return weight_of(message.body) + _BESIDE


def messages_of(entries: Sequence[JournalEntry], marshaller: Marshaller) -> list[dict[str, Any]]:
    """Return the messages that calls of the context have added; calls that cannot be read add none."""
    messages: list[dict[str, Any]] = []
    for entry in entries:
        argument = _argument(entry.message, marshaller)
        messages.extend(argument if isinstance(argument, list) else [argument] if isinstance(argument, dict) else [])
    return messages


def _argument(call: Encoded, marshaller: Marshaller) -> Any:
    """Return the one argument of a call, None if it has none."""
    try:
        args, kwargs = marshaller.decode(call)
        return args[0] if args else next(iter(kwargs.values()), None)
    except (RemoteProtocolError, AttributeError, LookupError, TypeError, ValueError):
        return None  # if the context took it, it meant something there; it cannot be sent again


def _together(entries: Sequence[JournalEntry]) -> Encoded | None:
    """Return one call that sets the messages of all entries; None if there is none, or one is of an unusual form.

    It is made of their bytes: to decode and encode these takes longer than all else that a restored context needs.
    """
    arguments = []
    for entry in entries:
        call = entry.message.body
        if entry.message.handles or call[:2] != _ONE_ARGUMENT or call[-1:] != _NONE_BY_NAME:
            return None
        arguments.append(call[2:-1])
    body = memoryview(b"".join(arguments))
    reader = msgpack.Unpacker(max_buffer_size=len(body))
    reader.feed(body)
    count = start = end = 0
    try:
        for entry, argument in zip(entries, arguments, strict=True):
            if entry.method == "set_messages":  # which only the first entry can be
                count = reader.read_array_header()
                start = reader.tell()
                for _ in range(count):
                    reader.skip()
            elif argument[:1] and argument[0] in _TABLES:
                count += 1
                reader.skip()
            end += len(argument)
            if reader.tell() != end:
                return None
    except (ValueError, msgpack.UnpackException):
        return None
    if not count:
        return None
    return Encoded(b"".join((_ONE_ARGUMENT, b"\xdd", count.to_bytes(4, "big"), body[start:], _NONE_BY_NAME)))


def _ends_with(messages: Sequence[object], last: Sequence[object]) -> bool:
    return len(messages) >= len(last) and list(messages[len(messages) - len(last) :]) == list(last)


def opening(messages: Sequence[object], marshaller: Marshaller) -> int:
    """Return how many messages, from the first, a context can get at once; it gets the others one by one."""
    weight = 0
    for count, message in enumerate(messages):
        weight += weight_of(marshaller.encode(message).body)
        if weight > _OPENING:
            return max(count, 1)
    return len(messages)


def tables(value: object) -> list[dict[str, Any]]:
    """Return those of the items that are tables; the value should be a list of tables."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, (list, tuple)) else []


def text_of_message(message: Mapping[str, Any]) -> str:
    """Return the text of a message, and its other blocks and tool calls as JSON, a line each."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else tables(content)
    shown = [one.get("text") if one.get("type") == "text" else _json(one) for one in blocks]
    if not any(one.get("type") == "tool_call" for one in blocks):
        shown += [_json(one) for one in tables(message.get("tool_calls"))]
    return "\n".join(map(str, shown))


def _json(block: Mapping[str, Any]) -> str:
    return json.dumps(block, ensure_ascii=False, default=str)


class OpenCall(NamedTuple):
    """A tool call in a conversation that no later message answers."""

    id: str
    tool: str
    input: object


def closing_messages(
    messages: object, answer: Callable[[OpenCall], object] = lambda _: _ANSWER
) -> list[dict[str, Any]]:
    """Return the messages that answer the open tool calls of a conversation, to be put at its end.

    A turn that ended first leaves them, and providers refuse a conversation with such calls. The contents of a context
    are untrusted: anything that is no table, or no list of tables, is skipped and none of its methods are called.
    """
    return [
        {"role": "tool", "tool_call_id": call.id, "name": call.tool, "content": answer(call)}
        for call in open_calls(messages)
    ]


def open_calls(messages: object) -> list[OpenCall]:
    """Return the tool calls of a conversation that no later message answers."""
    found: dict[str, OpenCall] = {}
    for message in tables(messages):
        if _text(message, "role") in ("tool", "function"):
            found.pop(_text(message, "tool_call_id"), None)
            continue
        blocks = [block for block in tables(message.get("content")) if _text(block, "type") == "tool_call"]
        for call in (*tables(message.get("tool_calls")), *blocks):
            if isinstance(call.get("id"), str):
                tool = _text(call, "name") or _text(call, "tool") or "tool"
                given = call.get("arguments", call.get("input"))
                found[call["id"]] = OpenCall(call["id"], tool, given)
    return list(found.values())


def _text(table: dict[str, Any], key: str) -> str:
    """Return the text that a table has under a key, or an empty text."""
    value = table.get(key)
    return value if isinstance(value, str) else ""
