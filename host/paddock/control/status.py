"""What a session's control socket says and takes, as JSON: each request and each answer is one line.

A reader may be root, and the session another user's; so everything here is bounded, and texts are shown escaped. Keys
that are not known are left out: a host may be newer than its reader.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

VERSION: Final = 1
REQUEST_BYTES: Final = 1 << 16
ANSWER_BYTES: Final = 1 << 23
FOLLOW_LEAST: Final = 0.2  # seconds
_CHARACTERS: Final = 1000
_MODULES: Final = 1000

State = Literal["starting", "idle", "busy", "blocked", "restarting", "quarantined", "revoked", "gone"]
Act = Literal["lift", "revoke", "end"]

_Text = Annotated[str, Field(max_length=_CHARACTERS)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Request(_Message):
    """One request: `get` reads, `do` acts on a `module`, or without one ends the session.

    With `follow`, the answer comes again every so many seconds. `since` are positions of an earlier answer with logs.
    """

    v: Literal[1] = VERSION
    get: Literal["status", "logs"] | None = None
    do: Act | None = None
    module: _Text | None = None
    since: dict[_Text, _Count] = Field(default={}, max_length=_MODULES)
    follow: Annotated[float, Field(ge=FOLLOW_LEAST, le=3600)] | None = None


class ModuleRow(_Message):
    """One module: bytes, seconds, and counts since the session began; None is what nothing counts or limits.

    `call` is the oldest that it serves. `cpu_seconds` and `calls` are those of all its lives.
    """

    module: _Text
    kind: _Text
    level: _Text
    state: State
    call: _Text = ""
    call_seconds: _Seconds | None = None
    pid: _Count | None = None
    cpu_seconds: _Seconds = 0.0
    memory_bytes: _Count | None = None
    memory_max: _Count | None = None
    tasks: _Count | None = None
    tasks_max: _Count | None = None
    calls: _Count = 0
    queued: _Count = 0
    restarts: _Count = 0
    printed_bytes: _Count = 0
    last_denial: _Text = ""
    last_end: _Text = ""


class SessionStatus(_Message):
    """One session of a host at the host's time `at`; times are seconds since 1970, `lag_ms` is a turn of its loop."""

    v: Literal[1] = VERSION
    session: _Text
    plan: _Text | None
    folder: _Text
    pid: _Count
    uid: _Count
    version: _Text
    began: _Seconds
    at: _Seconds
    turn: _Count = 0
    turn_seconds: _Seconds | None = None
    lag_ms: _Seconds = 0.0
    modules: Annotated[tuple[ModuleRow, ...], Field(max_length=_MODULES)] = ()


class LogLine(_Message):
    """A line that a module printed."""

    module: _Text
    stream: Literal["stdout", "stderr"]
    text: Annotated[str, Field(max_length=REQUEST_BYTES)]


class LogLines(_Message):
    """Lines of modules, those of each in order, the positions after them, and how many bytes were lost before them."""

    lines: tuple[LogLine, ...] = ()
    positions: dict[_Text, _Count] = Field(default={}, max_length=_MODULES)
    dropped: dict[_Text, _Count] = Field(default={}, max_length=_MODULES)


class Done(_Message):
    """An act was done; `said` is what else there is to say about it, for people."""

    done: Act
    said: tuple[_Text, ...] = ()


class Refused(_Message):
    """A request that was not served, and why."""

    error: _Text


def cut(text: str) -> str:
    """Return as much of a text as an answer holds."""
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
