"""Record which process served which call, and when, as Chrome trace events for ui.perfetto.dev.

A trace has names, sizes and times, never arguments or answers. It follows the calls that the host makes of workers,
each in a lane of its process, with an arrow from the call in whose service it was made; what the host answers itself is
not among them. A session without a trace runs none of this. Beyond a bound, calls are counted and left out.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from paddock.rpc.calls import RoutedCall
from paddock.rpc.open_calls import OpenCall, OpenCalls
from paddock.rpc.peer import Peer
from paddock.text import escape

_MOST: Final = 100_000  # calls; Perfetto opens the 50 MB of text that they come to
_LONGEST: Final = 200  # characters of a name
_FIRST_LANE: Final = 1  # viewers take thread 0 for the kernel's own
_MICROSECONDS: Final = 1e6


@dataclass(slots=True)
class _Span:
    """One call, which is open until its end; `begin` and `end` are in seconds."""

    process: int
    name: str
    kind: str
    size: int
    parent: _Span | None
    begin: float
    end: float = math.inf
    outcome: str = "open"
    lane: int = _FIRST_LANE


class Trace:
    """The calls of one session and its sub-sessions."""

    def __init__(self) -> None:
        self.left_out = 0
        self._spans: list[_Span] = []
        self._names = {os.getpid(): "paddock"}
        self._turn: _Span | None = None

    @property
    def has_calls(self) -> bool:
        """Whether a worker was called yet."""
        return bool(self._spans)

    def follow(self, peer: Peer, pid: int, name: str, method_name: Callable[[RoutedCall], str]) -> None:
        """Record the calls of a worker, which has not been called yet, as those of a process with this name."""
        self._names[pid] = name
        peer.channel.calls = _TracedCalls(self, peer, pid, method_name)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Record a turn; the application's own calls are made in its service."""
        self._turn = self.begin(os.getpid(), "turn", "turn", 0, None)
        try:
            yield
        finally:
            self.end(self._turn, "ended")
            self._turn = None

    def begin(self, process: int, name: str, kind: str, size: int, cause: OpenCall | None) -> _Span | None:
        """Record the begin of a call in the service of `cause`; None where there is no room for it."""
        if len(self._spans) >= _MOST:
            self.left_out += 1
            return None
        parent = self._turn
        if isinstance(cause, RoutedCall) and isinstance(cause.owner.channel.calls, _TracedCalls):
            parent = cause.owner.channel.calls.span_of(cause)
        span = _Span(process, name, kind, size, parent, time.perf_counter())
        self._spans.append(span)
        return span

    def end(self, span: _Span | None, outcome: str) -> None:
        """Record the end of a call."""
        if span is not None:
            span.end, span.outcome = time.perf_counter(), outcome

    def as_json(self, mask: Callable[[str], str]) -> str:
        """Return the trace as the text of a file, with secrets in names hidden."""
        show = cache(lambda name: escape(mask(name)))
        now = time.perf_counter()
        _lay_out(self._spans)
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": pid, "tid": _FIRST_LANE, "args": {"name": show(name)}}
            for pid, name in self._names.items()
        ]
        for number, span in enumerate(self._spans):
            place = {"pid": span.process, "tid": span.lane, "ts": _micro(span.begin)}
            call = {"ph": "X", "name": show(span.name), "cat": span.kind, **place}
            duration = _micro(min(span.end, now) - span.begin)
            events.append({**call, "dur": duration, "args": {"bytes": span.size, "outcome": span.outcome}})
            if span.parent is not None:
                arrow = {"name": "call", "cat": "call", "id": number}
                events.append({"ph": "s", **arrow, **place, "pid": span.parent.process, "tid": span.parent.lane})
                events.append({"ph": "f", "bp": "e", **arrow, **place})
        return json.dumps({"traceEvents": events, "otherData": {"calls_left_out": self.left_out}})


class _TracedCalls(OpenCalls):
    """The calls of one worker, each recorded."""

    def __init__(self, trace: Trace, peer: Peer, pid: int, method_name: Callable[[RoutedCall], str]) -> None:
        super().__init__(peer.channel.connection)
        self._trace = trace
        self._pid = pid
        self._peer = peer
        self._method_name = method_name
        self._open: dict[int, _Span | None] = {}
        self._taken: _Span | None = None

    def span_of(self, call: OpenCall) -> _Span | None:
        return self._open.get(call.id)

    def add(self, id: int, call: OpenCall) -> None:
        super().add(id, call)
        if isinstance(call, RoutedCall):
            _, mounted = call.handle.mounted or ("", None)
            name = f"{mounted or self._peer.name}.{self._method_name(call)}"
            name = name if len(name) <= _LONGEST else "(a name too long to be kept)"  # half of one may be half a secret
            cause = None if call.origin is None else call.origin.cause
            self._open[id] = self._trace.begin(self._pid, name, self._peer.kind, len(call.message.body), cause)

    def take(self, id: int) -> OpenCall | None:
        self._taken = self._open.pop(id, None)
        self._trace.end(self._taken, "ended")
        return super().take(id)

    def keep_cancelled(self, call: OpenCall, now: float) -> None:
        self._trace.end(self._taken, "given up")  # it was taken just before
        super().keep_cancelled(call, now)

    def take_all(self) -> list[OpenCall]:
        for span in self._open.values():
            self._trace.end(span, "lost")
        self._open.clear()
        return super().take_all()


def _lay_out(spans: Iterable[_Span]) -> None:
    """Give calls that one process served at the same time lanes of their own."""
    free_from: dict[int, list[float]] = {}
    for span in spans:
        lanes = free_from.setdefault(span.process, [])
        place = next((lane for lane, free in enumerate(lanes) if free <= span.begin), len(lanes))
        lanes[place : place + 1] = [span.end]
        span.lane = _FIRST_LANE + place


def _micro(seconds: float) -> float:
    return round(seconds * _MICROSECONDS, 1)
