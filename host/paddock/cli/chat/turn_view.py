"""Turn the events of a turn into what a person sees: text as it comes, one line for each tool call, notices.

Modules make these events: a value of the wrong type is ignored, and texts go to the screen unescaped, and the model's
unmasked, which is its work. Texts that are cut are masked before. The view knows no terminal.

Several events may carry the same text: the pieces of a provider, those of the loop, a whole block, and the answer of
the turn. It is shown once. The hint `visibility` is honoured: `internal` is never shown, `developer` only if
`is_verbose`, `user` always. Thinking without a hint counts as `developer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from paddock.cli.chat.conversation_screen import ConversationScreen
from paddock.cli.chat.tool_call import (
    MAX_MASKED,
    CallEnd,
    Change,
    Mask,
    Outcome,
    ReadText,
    change_of,
    one_line,
    short_argument,
)

_MAX_CALLS: Final = 256  # open calls of a turn that are remembered
_MAX_REASON: Final = 300  # characters of the reason for which a call failed
_MAX_LINES: Final = 5  # of what a failed command wrote
_MAX_SAID: Final = 64  # texts of a turn that are remembered, so that none is shown twice


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
    is_previewed: bool = False  # whether its change was shown before it ran


@dataclass(slots=True)
class _Reply:
    """The texts of one reply of the model, ended and open; the key of a mapping is whether it is thinking."""

    # The events and the emitter whose pieces are shown; the same text from others is ignored.
    source: dict[bool, tuple[str, str | None]] = field(default_factory=dict)
    open: dict[bool, list[str]] = field(default_factory=lambda: {True: [], False: []})
    hints: dict[object, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


class TurnView:
    """The view of one chat's turns on `drawn`; `session_id` distinguishes its events from those of sub-sessions."""

    def __init__(
        self,
        drawn: ConversationScreen,
        session_id: str,
        *,
        folder: str = "",
        is_verbose: bool = False,
        read: ReadText = lambda path: None,
        mask: Mask = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._drawn = drawn
        self._session_id = session_id
        self._folder = folder
        self._is_verbose = is_verbose
        self._read = read
        self._mask = mask
        self._clock = clock
        self._calls: dict[str, _Call] = {}
        self._reply = _Reply()
        self._said: list[str] = []
        self._handlers: Mapping[str, Callable[[Mapping[str, Any], str | None], None]] = {
            "provider:request": self._on_request,
            "content_block:start": self._on_block_start,
            "content_block:delta": partial(self._on_delta, "content_block"),
            "content_block:end": self._on_block_end,
            "content_block:discarded": self._on_discarded,
            "llm:stream_block_start": self._on_block_start,
            "llm:stream_block_delta": partial(self._on_delta, "llm:stream_block"),
            "llm:stream_block_end": self._on_stream_end,
            "llm:stream:chunk": partial(self._on_delta, "llm:stream"),
            "llm:stream:thinking": partial(self._on_delta, "llm:stream", is_thought=True),
            "thinking:delta": partial(self._on_delta, "thinking", is_thought=True),
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
            call = self._call_of(data)
            if call.change is not None and call.change.doubt:
                call.change = self._change_of(call.arguments)  # calls before this one may have changed the file

    def _change_of(self, arguments: Mapping[str, Any]) -> Change | None:
        return change_of(arguments, self._read, self._folder, self._mask)

    def begin(self) -> None:
        """Forget the turn before."""
        self._calls.clear()
        self._reply = _Reply()
        self._said.clear()

    def take(self, event: str, data: object, emitter: str | None = None) -> None:
        """Show an event that `emitter` made."""
        handler = self._handlers.get(event)
        if handler is not None and isinstance(data, Mapping):
            handler(data, emitter)

    def end(self, answer: str | None) -> None:
        """Show the end of a turn: calls without an outcome, and an answer that was not shown yet."""
        self._end_reply()
        if answer and _bare(answer) and _bare(answer) not in self._said:
            self._drawn.say(answer)
        self._drawn.end_text()

    def activity(self) -> str:
        """Return what the turn waits for: the running calls, or the model."""
        now = self._clock()
        running = [
            f"{call.name} {call.argument}".rstrip() + f" ({now - call.started:.0f} s)"
            for call in self._calls.values()
            if call.started is not None and not call.is_hidden
        ]
        return ", ".join(running) or "waiting for the model"

    def preview(self, prompt: str) -> None:
        """Show the change of the waiting call whose path is in the question, if there is just one; each only once."""
        asked = self._mask(prompt)  # as paths are
        calls = [
            call
            for call in self._calls.values()
            if call.change is not None and call.started is None and call.change.path and call.change.path in asked
        ]
        if len(calls) == 1 and not calls[0].is_previewed:
            (call,) = calls
            call.is_previewed, call.change = True, self._change_of(call.arguments)
            if call.change is not None:
                self._drawn.show_change(call.change)

    # -- the model's text ------------------------------------------------------------------

    def _on_request(self, data: Mapping[str, Any], emitter: str | None) -> None:
        if self._is_own(data) and "purpose" not in data:
            self._end_reply()
            self._reply = _Reply()

    def _end_reply(self) -> None:
        """End a reply and its calls; keep its texts and all of them joined, since an answer may be either."""
        self._end_open()
        for call in self._calls.values():  # without an event of their end: a hook refused them, or the turn ended first
            if call.started is None:
                self._show_end(call, "refused", call.refusal or "it was not started")
            else:
                self._show_end(call, "failed", "stopped before it was done")
        self._calls.clear()
        texts = self._reply.said[-_MAX_SAID:]
        self._said = [*self._said, *texts, "".join(texts)][-2 * _MAX_SAID :]

    def _on_block_start(self, data: Mapping[str, Any], emitter: str | None) -> None:
        block = data.get("block") if isinstance(data.get("block"), Mapping) else data.get("content_block")
        hint = _hint(data) or (_hint(block) if isinstance(block, Mapping) else "")
        if hint and self._is_own(data):
            self._reply.hints[_index(data)] = hint

    def _on_delta(
        self,
        family: str,
        data: Mapping[str, Any],
        emitter: str | None,
        *,
        is_thought: bool = False,
    ) -> None:
        text = _text_of(data)
        if not text or not self._is_own(data):
            return
        thinks = is_thought or _thinks(data)
        # The same text from another source is ignored.
        if self._reply.source.setdefault(thinks, (family, emitter)) == (family, emitter):
            self._say(text, _hint(data) or self._reply.hints.get(_index(data), ""), is_thought=thinks)

    def _on_stream_end(self, data: Mapping[str, Any], emitter: str | None) -> None:
        thinks = _thinks(data)
        if self._is_own(data) and self._reply.source.get(thinks, ("", None))[0] == "llm:stream_block":
            self._end_open(thinks)

    def _on_discarded(self, data: Mapping[str, Any], emitter: str | None) -> None:
        if not self._is_own(data):
            return
        self._end_open()
        if self._reply.said:
            self._drawn.notice("the answer broke off and is asked for again; what came of it does not count")
        self._reply = _Reply()

    def _on_block_end(self, data: Mapping[str, Any], emitter: str | None) -> None:
        block = data.get("block")
        if not isinstance(block, Mapping) or not self._is_own(data):
            return
        kind = block.get("type")
        hint = _hint(block) or _hint(data) or self._reply.hints.pop(_index(data), "")
        if kind == "tool_call":
            self._know(block.get("id"), block.get("name"), block.get("input"), hint)
            self._end_open()
        elif kind in ("text", "thinking"):
            self._whole(block.get(kind), hint, is_thought=kind == "thinking")

    def _whole(self, text: object, hint: str, *, is_thought: bool) -> None:
        if isinstance(text, str) and _bare(text):
            came = "".join(self._reply.open[is_thought])
            if _bare(came) and _bare(text).startswith(_bare(came)):
                self._say(text[len(came) :] if text.startswith(came) else "", hint, is_thought=is_thought)
            elif _bare(text) in self._reply.said:
                return
            else:
                self._end_open(is_thought)
                self._say(text, hint, is_thought=is_thought)
        self._end_open(is_thought)

    def _say(self, text: str, hint: str, *, is_thought: bool) -> None:
        self._reply.open[is_thought].append(text)
        if text and self._shows(hint, is_thought=is_thought):
            self._drawn.say(text, is_thought=is_thought)

    def _end_open(self, *kinds: bool) -> None:
        reply = self._reply
        for is_thought in kinds or (True, False):
            said = _bare("".join(reply.open[is_thought]))
            reply.open[is_thought] = []
            if said:
                reply.said.append(said)
                self._drawn.end_text()

    def _shows(self, hint: str, *, is_thought: bool = False) -> bool:
        match hint or ("developer" if is_thought else "user"):
            case "internal":
                return False
            case "developer":
                return self._is_verbose
        return True

    # -- tool calls ------------------------------------------------------------------------

    def _know(
        self,
        call_id: object,
        name: object,
        arguments: object,
        hint: str,
        *,
        is_nested: bool = False,
    ) -> _Call:
        key = _key(call_id, name)
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

    def _call_of(self, data: Mapping[str, Any]) -> _Call:
        """Return the call that an event is about."""
        return self._know(
            data.get("tool_call_id"),
            data.get("tool_name"),
            data.get("tool_input"),
            _hint(data),
            is_nested=not self._is_own(data),
        )

    def _on_tool_pre(self, data: Mapping[str, Any], emitter: str | None) -> None:
        if self._is_own(data):
            self._end_open()  # the reply that makes the call is over, although not all providers say so
        self._call_of(data).started = self._clock()

    def _on_tool_post(self, data: Mapping[str, Any], emitter: str | None) -> None:
        result = data.get("result", data.get("tool_response"))
        if isinstance(result, Mapping) and result.get("success") is False:
            error, output = result.get("error"), result.get("output")
            reason = self._one_line(error.get("message") if isinstance(error, Mapping) else output)
            self._ended(data, "failed", reason, self._written_by(output))
        else:
            self._ended(data, "ok", "")

    def _on_tool_error(self, data: Mapping[str, Any], emitter: str | None) -> None:
        self._ended(data, "failed", self._one_line(_said_by(data.get("error"))))

    def _written_by(self, output: object) -> list[str]:
        """Return the lines that a failed command wrote to stderr; to stdout if it wrote nothing there."""
        if not isinstance(output, Mapping):
            return []
        written = (output.get(name) for name in ("stderr", "stdout"))
        text = next((one for one in written if isinstance(one, str) and one.strip()), "")
        return self._mask(text[:MAX_MASKED]).strip("\r\n").splitlines()

    def _ended(
        self,
        data: Mapping[str, Any],
        outcome: Outcome,
        reason: str,
        said: Sequence[str] = (),
    ) -> None:
        call = self._call_of(data)
        self._calls.pop(_key(data.get("tool_call_id"), data.get("tool_name")), None)
        if self._shows(_hint(data)):
            self._show_end(call, outcome, reason, said)

    def _show_end(self, call: _Call, outcome: Outcome, reason: str, said: Sequence[str] = ()) -> None:
        if call.is_hidden:
            return
        seconds = None if call.started is None else self._clock() - call.started
        change = call.change if outcome == "ok" and not call.is_previewed else None
        if change is not None and change.doubt:  # it took effect all the same
            change = replace(change, doubt="")
        shown, left_out = tuple(said[:_MAX_LINES]), max(0, len(said) - _MAX_LINES)
        self._drawn.show_call(
            CallEnd(call.name, call.argument, outcome, seconds, reason, change, call.is_nested, shown, left_out)
        )

    def _on_denied(self, data: Mapping[str, Any], emitter: str | None) -> None:
        call_id = data.get("tool_call_id")
        call = self._calls.get(call_id) if isinstance(call_id, str) else None
        if call is not None:
            call.refusal = self._one_line(data.get("reason")) or "not allowed"

    # -- notices ---------------------------------------------------------------------------

    def _on_retry(self, data: Mapping[str, Any], emitter: str | None) -> None:
        said = _said_by(data.get("error"))
        why = self._one_line(said or data.get("error_message") or data.get("reason") or data.get("error_type"))
        wait = data.get("delay", data.get("retry_after"))
        when = f" in {wait:.0f} s" if isinstance(wait, int | float) and not isinstance(wait, bool) else ""
        if self._is_own(data):
            self._end_open()  # the next try sends the text from its beginning
        self._drawn.notice(f"the provider retries{when}{f': {why}' if why else ''}")

    def _on_compaction(self, data: Mapping[str, Any], emitter: str | None) -> None:
        if self._is_own(data):
            self._drawn.notice("the conversation was shortened to fit the model's context")

    def _on_notification(self, data: Mapping[str, Any], emitter: str | None) -> None:
        text = self._one_line(data.get("message") or data.get("text"))
        if text and self._shows(_hint(data)):
            is_warning = data.get("level") in ("warning", "error")
            self._drawn.notice(f"{emitter}: {text}" if emitter else text, is_warning=is_warning)

    def _one_line(self, text: object) -> str:
        return one_line(text, _MAX_REASON, self._mask) if isinstance(text, str) else ""

    def _is_own(self, data: Mapping[str, Any]) -> bool:
        return bool(data.get("session_id", self._session_id) == self._session_id)


def _hint(data: Mapping[str, Any]) -> str:
    hint = data.get("visibility")
    return hint if isinstance(hint, str) else ""


def _key(call_id: object, name: object) -> str:
    return call_id if isinstance(call_id, str) and call_id else f"{name}"


def _thinks(data: Mapping[str, Any]) -> bool:
    return "thinking" in str(data.get("block_type") or data.get("type") or "")


def _said_by(error: object) -> object:
    return (error.get("msg") or error.get("message")) if isinstance(error, Mapping) else error


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
