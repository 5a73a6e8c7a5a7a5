"""Go on with a session whose host has ended: what has changed since, and what became of its open tool calls.

No right comes from a journal: what modules may do is in the plan and its acceptance. Each difference is told first,
since every module of the session sees the earlier conversation. The host repeats no call.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from paddock.errors import KindError
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded
from paddock.session.journals.context_journal import OpenCall, closing_messages, messages_of, open_calls
from paddock.session.journals.kept_session import KeptCall, KeptModule, KeptSession, Meta, time_text
from paddock_sdk.protocol import RemoteProtocolError

NOT_STARTED: Final = "Error: the host ended before this tool call was started; it did not run"
UNKNOWN: Final = (
    "Error: the host ended while this tool call ran, so its outcome is unknown: it may have run, wholly or in part; "
    "look at its effects before you repeat it"
)
STOPPED: Final = "Error: this tool call failed or was stopped before the host ended; a part of it may have run"
_MAY_HAVE_RUN: Final = "outcome unknown: it may have run"
_SHORT: Final = 12  # digits of a commit
_MOST_UNRECORDED: Final = 20  # calls, of those that the journal does not have, which people are told of each
_MAX_SHOWN: Final = 300  # characters of a tool's name, and of its input

Ask = Callable[[Sequence[str]], Awaitable[bool]]
"""Asks a person whether to go on in spite of these differences."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The session to go on with: its id, the beginning of one, or `last`; and who agrees to what has changed."""

    session: str
    accept_changes: bool = False
    ask: Ask | None = None

    async def check(self, earlier: Meta, now: Meta) -> None:
        """Have somebody agree to what is different now.

        Raises:
            KindError: nobody does.
        """
        found = tuple(differences(earlier, now))
        if not found or self.accept_changes or (self.ask is not None and await self.ask(found)):
            return
        raise KindError(
            "ResumeRefusedError",
            f"session `{now.session}` was of another plan, other code or other grants",
            exit_code=4,
            detail=found,
            hints=[*_ways_back(earlier, now), "to go on with what is there now: `--accept-changes`"],
        )


def summary(kept: KeptSession) -> tuple[str, ...]:
    """Return what people are told first of a session that is resumed."""
    turns = "1 turn" if len(kept.turns) == 1 else f"{len(kept.turns)} turns"
    count = kept.count_messages()
    messages = "1 message" if count == 1 else f"{count} messages"
    ended = f"; {kept.interruption}" if kept.interruption else ""
    torn = f"it is incomplete since {time_text(kept.last)}: the damaged rest is in {kept.torn}"
    return (
        f"resuming {kept.id} of {time_text(kept.began)}: {messages}, {turns}{ended}",
        *([torn] if kept.is_cut else []),
    )


def differences(earlier: Meta, now: Meta) -> Iterator[str]:
    """Yield, for people, what is different from the time when the session last ran."""
    if earlier.plan != now.plan:
        yield f"the plan is {now.plan or 'none of a file'}, and was {earlier.plan or 'none of a file'}"
    elif earlier.digest != now.digest:
        yield f"the plan has changed{f': {now.plan}' if now.plan else ''}"
    if earlier.working_dir != now.working_dir:
        yield f"modules work in {now.working_dir}, and did in {earlier.working_dir}"
    for name in [*now.modules, *(name for name in earlier.modules if name not in now.modules)]:
        yield from _of_module(name, earlier.modules.get(name), now.modules.get(name))


def _ways_back(earlier: Meta, now: Meta) -> Iterator[str]:
    """Yield what to type for the plan and the folder that the session had."""
    if earlier.plan not in (None, now.plan):
        yield f"to go on with the plan that it had, name that one: `{shlex.quote(earlier.plan)}`"
    if earlier.working_dir != now.working_dir:
        yield f"to have modules work where they did: `-C {shlex.quote(earlier.working_dir)}`"


def _of_module(name: str, before: KeptModule | None, now: KeptModule | None) -> Iterator[str]:
    if now is None:
        yield f"{name} is gone"
        return
    sends = f", and may send it: net: {_listed(now.grants['net'])}" if now.may_send else ""
    if before is None:
        yield f"{name} is new: it will see the earlier conversation{sends}"
        return
    if (before.source, before.commit, before.tree) != (now.source, now.commit, now.tree):
        codes = [f"{one.source} {(one.commit or one.tree)[:_SHORT]}".strip() for one in (before, now)]
        yield f"{name} runs other code: {codes[1]}, and before {codes[0]}"
    for family in sorted({*before.grants, *now.grants}):
        was, has = before.grants.get(family), now.grants.get(family)
        if family == "net" and has and not was:
            yield f"{name} may newly send: it will see the earlier conversation; net: {_listed(has)}"
        elif was != has:
            yield f"{name} is granted {family}: {_listed(has)}, and before {_listed(was)}"


def _listed(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(str, value))}]"
    return "nothing" if value is None else str(value)


class CallOutcomes:
    """What became of the open tool calls of a conversation, as far as the journal knows.

    A call is recognised by its id, which the contract's loops tell with it, or else by its tool and its input. Where
    hooks have changed the input, only the tool is known. The context and the loop tell ids and messages, and may lie:
    a call is said not to have run only where each call of its tool is one that the journal's own conversation has too,
    and the journal is whole.
    """

    def __init__(self, kept: KeptSession, marshaller: Marshaller) -> None:
        self.lines: list[str] = []
        self._unrecorded = 0
        self._kept = kept
        self._marshaller = marshaller
        self._left = [(one, *self._told_of(one)) for one in _latest_calls(kept, marshaller)]

    @cached_property
    def _asked(self) -> set[str]:
        return {call.id for call in open_calls(self._kept.messages())}

    def closing(self, messages: object) -> list[dict[str, Any]]:
        """Return the messages that answer the open calls of a conversation, once, and tell of calls that it lacks."""
        closing = closing_messages(messages, self._answer)
        self._tell_the_others()
        return closing

    def _answer(self, call: OpenCall) -> object:
        """Return the content that answers an open call; calls are asked for in the conversation's order."""
        same = [one for one in self._left if one[0].tool == call.tool]
        by_id = [one for one in self._left if one[1] == call.id]
        exact = by_id or [one for one in same if not one[1] and one[2] == call.input]
        if exact:
            self._left.remove(exact[0])
            return self._of_call(*exact[0])
        told = {call.id, *(id for _, id, _ in same)}
        self._unrecorded += 1  # as many as a context likes
        may_have_run = self._kept.is_cut or (same and not told <= self._asked)
        if self._unrecorded <= _MOST_UNRECORDED:
            said = f"{_MAY_HAVE_RUN}; the model is told so" if may_have_run else "was not started"
            self._tell(call.tool, call.input, said)
        return UNKNOWN if may_have_run else NOT_STARTED

    def _tell_the_others(self) -> None:
        """Tell of calls that were under way and that the conversation does not have, and how many were not told of."""
        if self._unrecorded > _MOST_UNRECORDED:
            self.lines.append(
                f"so it is with {self._unrecorded - _MOST_UNRECORDED} more that the journal does not have"
            )
        for kept, _, given in self._left:
            if kept.ended is None:
                self._tell(kept.tool, given, f"{_MAY_HAVE_RUN}; the conversation does not have it")

    def _of_call(self, kept: KeptCall, _: str, given: object) -> object:
        if kept.ended is None:
            self._tell(kept.tool, given, f"{_MAY_HAVE_RUN}; the model is told so")
            return UNKNOWN
        if kept.answer is None:
            self._tell(kept.tool, given, "had failed or was stopped; the model is told so")
            return STOPPED
        try:
            result = self._marshaller.decode(Encoded(kept.answer))
            content = str(result.get_serialized_output()) if hasattr(result, "get_serialized_output") else str(result)
        except (RemoteProtocolError, ValueError, TypeError, AttributeError):
            self._tell(kept.tool, given, "had ended, and its result cannot be read; the model is told so")
            return UNKNOWN
        self._tell(kept.tool, given, "had ended; its result is in the conversation now")
        return content

    def _told_of(self, kept: KeptCall) -> tuple[str, Any]:
        """Return the id of a call in the conversation, empty if it is not known, and its input."""
        try:
            match self._marshaller.decode(Encoded(kept.input)):
                case [list(args), dict(kwargs), *ambient]:
                    id = next((one["dispatch_context"]["tool_call_id"] for one in ambient), "")
                    return str(id), args[0] if args else next(iter(kwargs.values()), None)
        except (RemoteProtocolError, ValueError, TypeError, LookupError):
            pass
        return "", None

    def _tell(self, tool: str, given: object, what: str) -> None:
        self.lines.append(f"{tool[:_MAX_SHOWN]} {str(given)[:_MAX_SHOWN]}: {what}")


def _latest_calls(kept: KeptSession, marshaller: Marshaller) -> Iterator[KeptCall]:
    """Yield the calls that were made after the last message that asks for tools was stored.

    Where a call set the conversation since, as a compaction does, all of the turn may be meant.
    """
    asked = kept.since
    for entry, place in zip(reversed(kept.entries), reversed(kept.places), strict=True):
        if not kept.calls:
            break  # of a long conversation nothing need be read
        if entry.method == "set_messages":
            continue
        if open_calls(messages_of([entry], marshaller)):
            asked = place
            break
    return (call for call in kept.calls.values() if call.place > asked)
