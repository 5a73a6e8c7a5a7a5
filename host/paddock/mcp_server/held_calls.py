"""Calls of a client that wait for the person there, between two requests of the client (the era of 2026).

The first request of such a call is answered with a question and a random state. The client sends the call again, with
the answer and the state, and the call goes on. A state is good once, for the call it was given to, for ten minutes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from paddock_sdk.mcp.messages import Code, Id

HELD_SECONDS: Final = 600.0
MOST_HELD: Final = 64

Json = Mapping[str, Any]


class Timer(Protocol):
    """What calls a function later, unless it is cancelled; asyncio's `TimerHandle` is one."""

    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Timer]


class RefusedError(Exception):
    """A request that is answered with an error of the protocol's."""

    def __init__(self, code: Code, message: str, data: Json | None = None) -> None:
        self.code = code
        self.data = data
        super().__init__(message)


@dataclass(eq=False, slots=True)
class OpenCall:
    """One call of a client, from its first request to its last answer.

    `id` is that of the request to be answered next, None while the call is held. `reply` takes the person's answer,
    while there is a question. `outcome` is what the call ended with while it was held.
    """

    method: str
    params: Json
    is_modern: bool
    can_ask: bool
    id: Id | None
    token: Id | None = None
    done: float | None = None
    reply: Callable[[Json], None] | None = None
    outcome: Json | RefusedError | None = None

    def is_like(self, params: Json) -> bool:
        """Whether a call with these parameters may be this one, sent again."""
        return all(self.params.get(key) == params.get(key) for key in ("name", "arguments"))


class HeldCalls:
    """The calls that are held, by their states; `end` is called with each that nobody takes up in time."""

    def __init__(self, later: Later, end: Callable[[OpenCall], None]) -> None:
        self._later = later
        self._end = end
        self._held: dict[str, tuple[OpenCall, Timer]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, call: OpenCall) -> str:
        """Hold a call, and return its state."""
        state = secrets.token_urlsafe(32)
        self._held[state] = (call, self._later(HELD_SECONDS, lambda: self._expire(state)))
        return state

    def take(self, state: object, params: Json) -> OpenCall | None:
        """Return the call of a state, which is held no longer; None if the state is not that of such a call."""
        held = self._held.get(state) if isinstance(state, str) else None
        if held is None or not held[0].is_like(params):
            return None
        call, timer = self._held.pop(str(state))
        timer.cancel()
        return call

    def end_all(self) -> None:
        """Let go of all of them, without a word to `end`."""
        for _, timer in self._held.values():
            timer.cancel()
        self._held.clear()

    def _expire(self, state: str) -> None:
        call, _ = self._held.pop(state)
        self._end(call)
