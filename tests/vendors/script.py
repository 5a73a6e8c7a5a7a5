"""Scripts: the answers of a model, turn by turn, and faults, as values without any vendor's format.

A script is a mapping, as JSON holds it:

    {"models": ["small"], "key": "sk-1", "context_tokens": 1000, "repeat": false, "quirks": [],
     "turns": [{"reasoning": "hm", "text": ["Hel", "lo"], "finish": "stop",
                "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}, "id": "call_7"}],
                "usage": {"input": 10, "output": 5, "cached": 4, "reasoning": 2},
                "faults": [{"kind": "rate_limit", "times": 2, "retry_after": "0.01"}]}]}

All keys may be left out. A text in one piece is sent word by word, a list of texts is sent as it stands; `{sent_ns}` in
it becomes the time at which it is sent, in nanoseconds of the monotonic clock. The `arguments` of a call are a mapping,
or text (or a list of texts) that need not be JSON. A request that meets a fault uses up that fault and not the turn; so
does one whose reader goes away before the end. What does not fit raises `ValueError` and names the place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

Kind = Literal[
    "key",  # the key is wrong
    "permission",  # the key may not do this
    "model",  # there is no such model
    "bad_request",
    "context",  # more than the model takes
    "content_filter",
    "rate_limit",
    "quota",  # nothing is left to spend
    "overloaded",
    "server_error",
]
"""What a vendor refuses a request for."""

Mishap = Literal[
    "html",  # a page where an answer belongs
    "json",  # its message as it is, where an answer belongs
    "stall",  # nothing more is sent, until the reader goes away
    "cut",  # the connection is closed
    "garble",  # an event of which a part is missing, so that it is no JSON; then the rest
    "error_event",  # the vendor's own error, where the next event belongs
]
"""What goes wrong otherwise: `after` so many events of a stream, or instead of any answer."""

_WORDS = re.compile(r"\s*\S+|\s+")
_ARGUMENT_CHARACTERS = 12  # of one delta


@dataclass(slots=True)
class Fault:
    """Something that goes wrong `times` times; with `times` of -1, always."""

    kind: str
    times: int = 1
    after: int | None = None
    status: int = 0  # instead of the usual one
    retry_after: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        if self.kind not in (*get_args(Kind), *get_args(Mishap)):
            raise ValueError(f"there is no fault `{self.kind}`")


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call: its arguments as the texts that are sent."""

    name: str
    arguments: tuple[str, ...]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens, as a vendor counts them: `cached` and `written` (to the cache) are among the input, `reasoning` among the
    output.
    """

    input: int
    output: int
    cached: int = 0
    reasoning: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer, each part of it as the pieces that are sent."""

    text: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    tool_calls: tuple[Call, ...] = ()
    usage: Spent | None = None
    finish: str = ""  # the vendor's own word, instead of the one that fits
    faults: tuple[Fault, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.text or self.reasoning or self.tool_calls or self.finish)

    @classmethod
    def of(cls, item: Any, place: str = "turn") -> Self:
        """Return the turn that an item of a script describes; a text is what is said."""
        given = _known(cls, {"text": item} if isinstance(item, str | list) else item, place)
        for name in ("text", "reasoning"):
            given[name] = _pieces(given.get(name))
        calls = enumerate(given.get("tool_calls", ()))
        given["tool_calls"] = tuple(_call(call, f"{place}.tool_calls[{index}]") for index, call in calls)
        given["faults"] = tuple(Fault(**_known(Fault, fault, f"{place}.faults")) for fault in given.get("faults", ()))
        if given.get("usage") is not None:
            given["usage"] = Spent(**_known(Spent, given["usage"], f"{place}.usage"))
        return cls(**given)


class Script:
    """Turns in order. `next_turn` and `next_fault` are for one server alone, which calls them on one thread."""

    def __init__(
        self,
        turns: list[Any],
        *,
        models: list[str] | None = None,
        key: str = "",
        context_tokens: int = 0,
        repeat: bool = False,
        quirks: list[str] | None = None,
    ) -> None:
        self.turns = [Turn.of(turn, f"turns[{index}]") for index, turn in enumerate(turns)]
        self.models = models
        self.key = key
        self.context_tokens = context_tokens
        self.quirks = frozenset(quirks or ())
        self._repeat = repeat
        self._waiting = list(self.turns)

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> Self:
        """Return the script that a mapping describes."""
        known = {"turns", "models", "key", "context_tokens", "repeat", "quirks"}
        if unknown := sorted(set(source) - known):
            raise ValueError(f"script: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        return cls(**{"turns": [], **source})

    def next_fault(self) -> Fault | None:
        """Use up one fault of the next turn, and return it; a turn without content ends with its last fault."""
        turn = self._peek()
        if turn is None:
            return None
        for fault in turn.faults:
            if fault.times:
                fault.times -= fault.times > 0
                if turn.is_empty and not any(one.times for one in turn.faults):
                    self._waiting.pop(0)
                return fault
        return None

    def next_turn(self) -> Turn | None:
        """Take the turn that comes next, if there is one."""
        turn = self._peek()
        if turn is not None:
            self._waiting.pop(0)
        return turn

    def give_back(self, turn: Turn) -> None:
        """Put back a turn that its reader left before the end; it comes next again."""
        self._waiting.insert(0, turn)

    def _peek(self) -> Turn | None:
        if not self._waiting and self._repeat:
            self._waiting = list(self.turns)
        return self._waiting[0] if self._waiting else None


def _known(kind: type, item: Any, place: str) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise ValueError(f"{place}: expected a mapping, not {type(item).__name__}")
    names = {field.name for field in fields(kind)}
    if unknown := sorted(set(item) - names):
        raise ValueError(f"{place}: unknown {', '.join(unknown)}; known are {', '.join(sorted(names))}")
    return dict(item)


def _pieces(text: Any) -> tuple[str, ...]:
    if text is None:
        return ()
    return tuple(_WORDS.findall(text)) if isinstance(text, str) else tuple(text)


def _call(item: Any, place: str) -> Call:
    given = _known(Call, item, place)
    arguments = given.get("arguments", {})
    if isinstance(arguments, Mapping):
        text = json.dumps(arguments)
        arguments = [text[at : at + _ARGUMENT_CHARACTERS] for at in range(0, len(text), _ARGUMENT_CHARACTERS)]
    given["arguments"] = (arguments,) if isinstance(arguments, str) else tuple(arguments)
    return Call(**given)
