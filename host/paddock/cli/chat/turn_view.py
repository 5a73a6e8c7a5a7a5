"""Turn the events of a turn into what a person sees: text as it comes, one line for each tool call, notices.

Modules make these events: a value of the wrong type is ignored, and texts are returned unescaped, and the model's
unmasked, which is the work of the screen. Texts that are cut are masked before. The view knows no terminal.

Several events may carry the same text: the pieces of a provider, those of the loop, a whole block, and the answer of
the turn. It is shown once. The hint `visibility` is honoured: `internal` is never shown, `developer` only if
`is_verbose`, `user` always. Thinking without a hint counts as `developer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from paddock.cli.chat.tool_call import MAX_MASKED, Change, Mask, ReadText, change_of, one_line, short_argument

_MAX_CALLS: Final = 256  # open calls of a turn that are remembered
_MAX_REASON: Final = 300  # characters of the reason for which a call failed
_MAX_LINES: Final = 5  # of what a failed command wrote
_MAX_SAID: Final = 64  # texts of a turn that are remembered, so that none is shown twice

Outcome = Literal["ok", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the model's text, or of its thinking."""

    text: str
    is_thought: bool = False


@dataclass(frozen=True, slots=True)
class BlockEnd:
    """The end of a text; the next piece begins another one."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A tool call that ended."""

    name: str
    argument: str
    outcome: Outcome
    seconds: float | None
    reason: str = ""
    change: Change | None = None
    is_nested: bool = False
    said: tuple[str, ...] = ()  # the first lines of what a failed command wrote
    left_out: int = 0  # lines of it


@dataclass(frozen=True, slots=True)
class Notice:
    """A message of one line."""

    text: str
    is_warning: bool = False


Shown = TextPiece | BlockEnd | CallEnd | Notice


@dataclass(slots=True)
class _Call:
    """A tool call that has not ended."""

    name: str
    argument: str
    arguments: Mapping[str, Any]
    change: Change | None
    is_hidden: bool
    is_nested: bool
    started: float | None = None
    refusal: str = ""
    is_previewed: bool = False

    def begin(self, at: float) -> None:
        """Note that the tool runs from now on."""
        self.started = at

    def refuse(self, reason: str) -> None:
        """Note why the call was not permitted."""
        self.refusal = reason

    def preview(self, change: Change | None) -> Change | None:
        """Return the present change, which is shown before the call runs."""
        self.is_previewed = True
        return self.foresee(change)

    def foresee(self, change: Change | None) -> Change | None:
        """Note the present change: calls before this one may have changed the file."""
        self.change = change
        return change


@dataclass(slots=True)
class _Reply:
    """The texts of one reply of the model, ended and open; the key of a mapping is whether it is thinking."""

    # The events and the emitter whose pieces are shown; the same text from others is ignored.
    source: dict[bool, tuple[str, str | None]] = field(default_factory=dict)
    open: dict[bool, list[str]] = field(default_factory=lambda: {True: [], False: []})
    hints: dict[object, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


class TurnView:
    """The view of one chat's turns; `session_id` distinguishes its own events from those of sub-sessions."""

    def __init__(
        self,
        session_id: str,
        *,
        folder: str = "",
        is_verbose: bool = False,
        read: ReadText = lambda path: None,
        mask: Mask = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session_id = session_id
        self._folder = folder
        self._is_verbose = is_verbose
        self._read = read
        self._mask = mask
        self._clock = clock
        self._calls: dict[str, _Call] = {}
        self._reply = _Reply()
        self._said: list[str] = []
        self._handlers: Mapping[str, Callable[[Mapping[str, Any], str | None], Iterator[Shown]]] = {
            "provider:request": self._on_request,
            "content_block:start": self._on_block_start,
            "content_block:delta": self._on_delta("content_block"),
            "content_block:end": self._on_block_end,
            "llm:stream_block_start": self._on_block_start,
            "llm:stream_block_delta": self._on_delta("llm:stream_block"),
            "llm:stream_block_end": self._on_stream_end,
            "llm:stream:chunk": self._on_delta("llm:stream"),
            "llm:stream:thinking": self._on_delta("llm:stream", is_thought=True),
            "thinking:delta": self._on_delta("thinking", is_thought=True),
            "tool:pre": self._on_tool_pre,
            "tool:post": self._on_tool_post,
            "tool:error": self._on_tool_error,
            "approval:denied": self._on_denied,
            "provider:retry": self._on_retry,
            "provider:throttle": self._on_retry,
            "context:compaction": self._on_compaction,
            "user:notification": self._on_notification,
        }

    @property
    def events(self) -> tuple[str, ...]:
        """The events that `take` understands."""
        return tuple(self._handlers)

    def foresee(self, data: object) -> None:
        """Note a call from its `tool:pre`, before any hook can refuse it."""
        if isinstance(data, Mapping):
            hint, is_nested = _hint(data), not self._is_own(data)
            call = self._know(
                data.get("tool_call_id"), data.get("tool_name"), data.get("tool_input"), hint, is_nested=is_nested
            )
            if call.change is not None and call.change.doubt:
                call.foresee(self._change_of(call.arguments))

    def _change_of(self, arguments: Mapping[str, Any]) -> Change | None:
        return change_of(arguments, self._read, self._folder, self._mask)

    def begin(self) -> None:
        """Forget the turn before."""
        self._calls.clear()
        self._reply = _Reply()
        self._said.clear()

    def take(self, event: str, data: object, emitter: str | None = None) -> list[Shown]:
        """Return what to show of an event that `emitter` made."""
        handler = self._handlers.get(event)
        if handler is None or not isinstance(data, Mapping):
            return []
        return list(handler(data, emitter))

    def end(self, answer: str | None) -> list[Shown]:
        """Return what to show at the end of a turn: calls without an outcome, and an answer that was not shown yet."""
        shown: list[Shown] = [*self._end_open(), *self._unanswered()]
        self._remember(self._reply)
        if answer and _bare(answer) and _bare(answer) not in self._said:
            shown += [TextPiece(answer), BlockEnd()]
        return shown

    def activity(self) -> str:
        """Return what the turn waits for: the running calls, or the model."""
        now = self._clock()
        running = [
            f"{call.name} {call.argument}".rstrip() + f" ({now - call.started:.0f} s)"
            for call in self._calls.values()
            if call.started is not None and not call.is_hidden
        ]
        return ", ".join(running) or "waiting for the model"

    def preview(self, prompt: str) -> Change | None:
        """Return the change of the waiting call whose path is in the question, if there is just one; each only once."""
        asked = self._mask(prompt)  # as paths are
        calls = [
            call
            for call in self._calls.values()
            if call.change is not None and call.started is None and call.change.path and call.change.path in asked
        ]
        if len(calls) != 1 or calls[0].is_previewed:
            return None
        return calls[0].preview(self._change_of(calls[0].arguments))

    # -- the model's text ------------------------------------------------------------------

    def _on_request(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        if self._is_own(data) and "purpose" not in data:
            yield from self._end_open()
            yield from self._unanswered()
            self._remember(self._reply)
            self._reply = _Reply()

    def _on_block_start(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        block = data.get("block") if isinstance(data.get("block"), Mapping) else data.get("content_block")
        hint = _hint(data) or (_hint(block) if isinstance(block, Mapping) else "")
        if hint and self._is_own(data):
            self._reply.hints[_index(data)] = hint
        yield from ()

    def _on_delta(
        self, family: str, *, is_thought: bool = False
    ) -> Callable[[Mapping[str, Any], str | None], Iterator[Shown]]:
        def take(data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
            text = _text_of(data)
            if not text or not self._is_own(data):
                return
            thinks = is_thought or "thinking" in str(data.get("block_type") or data.get("type") or "")
            reply = self._reply
            if reply.source.setdefault(thinks, (family, emitter)) != (family, emitter):
                return  # the same text from another source
            reply.open[thinks].append(text)
            hint = _hint(data) or reply.hints.get(_index(data), "")
            if self._shows(hint, is_thought=thinks):
                yield TextPiece(text, thinks)

        return take

    def _on_stream_end(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        if self._is_own(data):
            thinks = "thinking" in str(data.get("block_type") or data.get("type") or "")
            if self._reply.source.get(thinks, ("", None))[0] == "llm:stream_block":
                yield from self._end_open(thinks)

    def _on_block_end(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        block = data.get("block")
        if not isinstance(block, Mapping) or not self._is_own(data):
            return
        kind = block.get("type")
        hint = _hint(block) or _hint(data) or self._reply.hints.pop(_index(data), "")
        if kind == "tool_call":
            self._know(block.get("id"), block.get("name"), block.get("input"), hint)
            yield from self._end_open()
        elif kind == "text":
            yield from self._whole(block.get("text"), hint, is_thought=False)
        elif kind == "thinking":
            yield from self._whole(block.get("thinking"), hint, is_thought=True)

    def _whole(self, text: object, hint: str, *, is_thought: bool) -> Iterator[Shown]:
        if not isinstance(text, str) or not _bare(text):
            yield from self._end_open(is_thought)
            return
        reply = self._reply
        came = "".join(reply.open[is_thought])
        if _bare(came) and _bare(text).startswith(_bare(came)):
            rest = text[len(came) :] if text.startswith(came) else ""
            reply.open[is_thought].append(rest)
            if rest and self._shows(hint, is_thought=is_thought):
                yield TextPiece(rest, is_thought)
            yield from self._end_open(is_thought)
        elif _bare(text) not in reply.said:
            yield from self._end_open(is_thought)
            reply.open[is_thought] = [text]
            if self._shows(hint, is_thought=is_thought):
                yield TextPiece(text, is_thought)
            yield from self._end_open(is_thought)

    def _end_open(self, *kinds: bool) -> Iterator[Shown]:
        reply = self._reply
        for is_thought in kinds or (True, False):
            said = _bare("".join(reply.open[is_thought]))
            reply.open[is_thought] = []
            if said:
                reply.said.append(said)
                yield BlockEnd()

    def _remember(self, reply: _Reply) -> None:
        """Keep each text of a reply and all of them joined, since an answer may be either."""
        texts = reply.said[-_MAX_SAID:]
        self._said = [*self._said, *texts, "".join(texts)][-2 * _MAX_SAID :]

    def _shows(self, hint: str, *, is_thought: bool = False) -> bool:
        match hint or ("developer" if is_thought else "user"):
            case "internal":
                return False
            case "developer":
                return self._is_verbose
        return True

    # -- tool calls ------------------------------------------------------------------------

    def _know(self, call_id: object, name: object, arguments: object, hint: str, *, is_nested: bool = False) -> _Call:
        key = call_id if isinstance(call_id, str) and call_id else f"{name}"
        known = self._calls.get(key)
        shown = arguments if isinstance(arguments, Mapping) else {}
        if known is None or (shown and known.arguments != shown):
            call = _Call(
                one_line(str(name), _MAX_REASON, self._mask),
                short_argument(shown, self._folder, self._mask),
                shown,
                self._change_of(shown),
                not self._shows(hint),
                is_nested,
            )
            if len(self._calls) >= _MAX_CALLS and key not in self._calls:
                return call
            self._calls[key] = known = call
        return known

    def _on_tool_pre(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        call = self._know(
            data.get("tool_call_id"),
            data.get("tool_name"),
            data.get("tool_input"),
            _hint(data),
            is_nested=not self._is_own(data),
        )
        call.begin(self._clock())
        yield from ()

    def _on_tool_post(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        result = data.get("result", data.get("tool_response"))
        failed = isinstance(result, Mapping) and result.get("success") is False
        if not failed or not isinstance(result, Mapping):
            yield from self._ended(data, "ok", "")
            return
        error, output = result.get("error"), result.get("output")
        reason = self._one_line(error.get("message") if isinstance(error, Mapping) else output)
        yield from self._ended(data, "failed", reason, self._written_by(output))

    def _on_tool_error(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        error = data.get("error")
        said = (error.get("msg") or error.get("message")) if isinstance(error, Mapping) else error
        yield from self._ended(data, "failed", self._one_line(said))

    def _written_by(self, output: object) -> list[str]:
        """Return the lines that a failed command wrote to stderr; to stdout if it wrote nothing there."""
        if not isinstance(output, Mapping):
            return []
        written = (output.get(name) for name in ("stderr", "stdout"))
        text = next((one for one in written if isinstance(one, str) and one.strip()), "")
        return self._mask(text[:MAX_MASKED]).strip("\r\n").splitlines()

    def _ended(
        self, data: Mapping[str, Any], outcome: Outcome, reason: str, said: Sequence[str] = ()
    ) -> Iterator[Shown]:
        is_nested = not self._is_own(data)
        call = self._know(
            data.get("tool_call_id"), data.get("tool_name"), data.get("tool_input"), _hint(data), is_nested=is_nested
        )
        call_id, name = data.get("tool_call_id"), data.get("tool_name")
        self._calls.pop(call_id if isinstance(call_id, str) and call_id else f"{name}", None)
        if not call.is_hidden and self._shows(_hint(data)):
            yield self._end_of(call, outcome, reason, said)

    def _end_of(self, call: _Call, outcome: Outcome, reason: str, said: Sequence[str] = ()) -> CallEnd:
        seconds = None if call.started is None else self._clock() - call.started
        change = call.change if outcome == "ok" and not call.is_previewed else None
        if change is not None and change.doubt:  # it took effect all the same
            change = replace(change, doubt="")
        shown, left_out = tuple(said[:_MAX_LINES]), max(0, len(said) - _MAX_LINES)
        return CallEnd(call.name, call.argument, outcome, seconds, reason, change, call.is_nested, shown, left_out)

    def _on_denied(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        call_id = data.get("tool_call_id")
        call = self._calls.get(call_id) if isinstance(call_id, str) else None
        if call is not None:
            call.refuse(self._one_line(data.get("reason")) or "not allowed")
        yield from ()

    def _unanswered(self) -> Iterator[Shown]:
        """Yield the calls without an event of their end: a hook refused them, or the turn ended first."""
        for call in self._calls.values():
            if not call.is_hidden:
                if call.started is None:
                    yield self._end_of(call, "refused", call.refusal or "it was not started")
                else:
                    yield self._end_of(call, "failed", "stopped before it was done")
        self._calls.clear()

    # -- notices ---------------------------------------------------------------------------

    def _on_retry(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        error = data.get("error")
        said = (error.get("msg") or error.get("message")) if isinstance(error, Mapping) else error
        why = self._one_line(said or data.get("error_message") or data.get("reason") or data.get("error_type"))
        wait = data.get("delay", data.get("retry_after"))
        when = f" in {wait:.0f} s" if isinstance(wait, int | float) and not isinstance(wait, bool) else ""
        if self._is_own(data):
            yield from self._end_open()  # the next try sends the text from its beginning
        yield Notice(f"the provider retries{when}{f': {why}' if why else ''}")

    def _on_compaction(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        if self._is_own(data):
            yield Notice("the conversation was shortened to fit the model's context")

    def _on_notification(self, data: Mapping[str, Any], emitter: str | None) -> Iterator[Shown]:
        text = self._one_line(data.get("message") or data.get("text"))
        if text and self._shows(_hint(data)):
            yield Notice(f"{emitter}: {text}" if emitter else text, data.get("level") in ("warning", "error"))

    def _one_line(self, text: object) -> str:
        return one_line(text, _MAX_REASON, self._mask) if isinstance(text, str) else ""

    def _is_own(self, data: Mapping[str, Any]) -> bool:
        return bool(data.get("session_id", self._session_id) == self._session_id)


def _hint(data: Mapping[str, Any]) -> str:
    hint = data.get("visibility")
    return hint if isinstance(hint, str) else ""


def _index(data: Mapping[str, Any]) -> object:
    index = data.get("block_index", data.get("index"))
    return index if isinstance(index, int | str) else None


def _text_of(data: Mapping[str, Any]) -> str:
    for key in ("delta", "text", "content", "thinking", "chunk"):
        value = data.get(key)
        if isinstance(value, Mapping):
            value = value.get("text") or value.get("thinking")
        if isinstance(value, str) and value:
            return value
    return ""


def _bare(text: str) -> str:
    """Return a text without white space, since modules join pieces and blocks in different ways."""
    return "".join(text.split())
