"""Keep the end of what a process tree prints, without ever making the host wait or grow.

It pumps both pipes on the running loop, a bounded read at a time, into one ring of bytes that keeps the order of
arrival and counts what it dropped. A pipe is closed at its end; `close` gives up on pipes that another process still
holds open. Text is untrusted and unescaped here; the reader has to show it safely. The rate of lines that are handed on
is limited by a burst and an amount per second. At most once a second, a line reports how much was left out.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from paddock.plan.units import size_text

_LINE_BYTES: Final = 64  # that a line counts for besides its own: handing it on takes as long


Stream = Literal["stdout", "stderr"]
_READ_BYTES = 1 << 14  # per wake-up: a flood is read in turns with everything else the loop has to do
_LIVE_READ_BYTES = 1 << 11  # fewer where each line, of at least a byte, costs a call
_COALESCED_BYTES = 1 << 12  # single bytes written one by one share a chunk, or their bookkeeping would dwarf them
_BYTES_PER_CHUNK = 64  # at least this many of the limit are charged for each chunk, for the same reason
_PIPE_BYTES = 1 << 16  # the capacity of a pipe
_PAUSE_SECONDS = 0.002  # a flood then has 32 MiB a second, and the host a wake-up for each pipe full of it
_LIVE_LINE_BYTES = 1 << 14  # a live line that never ends is handed over in pieces of this size


class OutputRate:
    """A bucket of `at_once` bytes that gains `per_second`."""

    def __init__(self, per_second: int, at_once: int) -> None:
        self.lines = 0  # left out so far
        self.bytes = 0
        self._per_second = per_second
        self._at_once = at_once
        self._left = float(at_once)
        self._since = time.monotonic()
        self._reported = (0, 0)
        self._reported_at = 0.0

    def admits(self, data: bytes) -> bool:
        """Whether printed bytes are to be handed on."""
        now = time.monotonic()
        self._left = min(self._left + (now - self._since) * self._per_second, self._at_once)
        self._since = now
        size = len(data) + _LINE_BYTES * data.count(b"\n")
        if size > self._left:
            return False
        self._left -= size
        return True

    def leave_out(self, data: bytes) -> None:
        """Count output that is not handed on."""
        self.bytes += len(data)
        self.lines += data.count(b"\n")

    def summary(self, *, is_last: bool) -> str:
        """Return a line with how much was left out since the last such line, at most one a second but the last.

        It is empty if nothing was left out.
        """
        now = time.monotonic()
        lines, size = self.lines - self._reported[0], self.bytes - self._reported[1]
        if not size or not (is_last or now - self._reported_at >= 1.0):
            return ""
        self._reported, self._reported_at = (self.lines, self.bytes), now
        return self._said(lines, size)

    @property
    def total(self) -> str:
        """A line with how much was left out in all, empty if nothing was."""
        return self._said(self.lines, self.bytes) if self.bytes else ""

    def _said(self, lines: int, size: int) -> str:
        return (
            f"[paddock: {lines} lines, {size_text(size)}, were left out; "
            f"a module may print {size_text(self._per_second)} a second]"
        )


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line of text, without its newline, and the stream it came from."""

    stream: Stream
    text: str


class OutputRing:
    """The last `limit_bytes` that two pipes carried, in order of arrival; takes over both descriptors.

    `on_line`, if given, is called on the loop with each completed line and must not raise. The callbacks of `watch` get
    the number of bytes of each read. Output beyond the `rate` is kept like all else, but not handed to `on_line`. Such
    a flood is read a pipe at a time, with a pause in between that slows down the printing process.
    """

    def __init__(
        self,
        stdout_fd: int,
        stderr_fd: int,
        limit_bytes: int,
        on_line: Callable[[OutputLine], None] | None = None,
        rate: OutputRate | None = None,
    ) -> None:
        self.dropped_bytes = 0
        self.total_bytes = 0
        self.kept_bytes = 0  # now, of both pipes together
        self._on_data: Callable[[int], None] | None = None
        self._limit_bytes = limit_bytes
        self._on_line = on_line
        self._rate = rate
        self._chunks: deque[tuple[Stream, bytearray]] = deque()
        self._unfinished: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._open: dict[Stream, int] = {"stdout": stdout_fd, "stderr": stderr_fd}
        self._on_drained: list[Callable[[], None]] = []
        self._loop = asyncio.get_running_loop()
        for stream, fd in self._open.items():
            os.set_blocking(fd, False)
            self._loop.add_reader(fd, self._pump, stream)

    def watch(self, on_data: Callable[[int], None]) -> None:
        """Have each read counted from here on."""
        self._on_data = on_data

    def __iter__(self) -> Iterator[OutputLine]:
        """Yield the kept lines in the order they were completed; the first of a stream may lack its beginning."""
        unfinished: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        for stream, chunk in list(self._chunks):
            yield from _completed(stream, unfinished[stream], chunk)
        for stream, rest in unfinished.items():
            if rest:
                yield OutputLine(stream, _text(rest))

    @property
    def position(self) -> int:
        """The position after all that was printed, in bytes; the end of the pipes counts as one more."""
        return self.total_bytes + (not self._open)

    def since(self, position: int) -> tuple[list[OutputLine], int]:
        """Return the kept lines that ended after a position, and how many bytes after it are lost.

        `position` is the one after them. What is unfinished comes once the pipes have ended.
        """
        found = []
        at = self.dropped_bytes
        lost = max(0, at - position)
        unfinished: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        for stream, chunk in self._chunks:
            for piece in chunk.splitlines(keepends=True) if at + len(chunk) > position else [chunk]:
                at += len(piece)
                lines = list(_completed(stream, unfinished[stream], piece))
                found += lines if at > position else []
        if self.position > max(at, position):
            found += [OutputLine(stream, _text(rest)) for stream, rest in unfinished.items() if rest]
        return found, lost

    @property
    def left_out(self) -> str:
        """A line with how much was not handed on, empty if all was."""
        return self._rate.total if self._rate is not None else ""

    def tail(self, lines: int, stream: Stream | None = None) -> tuple[str, ...]:
        """Return the last lines of one stream, or of both in order of arrival."""
        return tuple(deque((line.text for line in self if stream in (None, line.stream)), maxlen=lines))

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call back on the loop, once, when both pipes have ended or been given up; soon, if they have."""
        if self._open:
            self._on_drained.append(callback)
        else:
            self._loop.call_soon(callback)

    def close(self) -> None:
        """Stop reading and close the pipes; what was kept stays readable."""
        for stream in tuple(self._open):
            self._end(stream)

    def _pump(self, stream: Stream) -> None:
        data = self._read(stream, _LIVE_READ_BYTES if self._on_line else _READ_BYTES)
        if data and not self._hand_on(stream, data):
            self._loop.remove_reader(self._open[stream])
            self._loop.call_later(_PAUSE_SECONDS, self._skim, stream)

    def _read(self, stream: Stream, size: int) -> bytes | None:
        """Return what was read and kept; nothing at the end of the pipe, None if it is empty for now."""
        try:
            data = os.read(self._open[stream], size)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._end(stream)
            return data
        self._keep(stream, data)
        if self._on_data:
            self._on_data(len(data))
        return data

    def _hand_on(self, stream: Stream, data: bytes) -> bool:
        """Hand over the lines in what was read; return whether they were within the rate."""
        if self._rate is not None and not self._rate.admits(data):
            self._finish_line(stream)
            self._rate.leave_out(data)
            return False
        if self._on_line:
            self._hand_over(stream, data, self._on_line)
        return True

    def _skim(self, stream: Stream) -> None:
        """Read a flood's output, and return to normal reading when it was little."""
        if stream not in self._open:
            return
        data = self._read(stream, _PIPE_BYTES)
        if data is None:
            self._tell_left_out(stream)
            self._loop.add_reader(self._open[stream], self._pump, stream)
        elif data:
            self._hand_on(stream, data)
            self._tell_left_out(stream)
            self._loop.call_later(_PAUSE_SECONDS, self._skim, stream)

    def _tell_left_out(self, stream: Stream, *, is_last: bool = False) -> None:
        if self._rate is not None and self._on_line and (summary := self._rate.summary(is_last=is_last)):
            self._on_line(OutputLine(stream, summary))

    def _keep(self, stream: Stream, data: bytes) -> None:
        self.total_bytes += len(data)
        self.kept_bytes += len(data)
        if self._chunks and self._chunks[-1][0] == stream and len(self._chunks[-1][1]) < _COALESCED_BYTES:
            self._chunks[-1][1].extend(data)
        else:
            self._chunks.append((stream, bytearray(data)))
        while self._chunks and len(self._chunks) > max(1, self._limit_bytes // _BYTES_PER_CHUNK):
            self._drop(len(self._chunks[0][1]))
        while self.kept_bytes > self._limit_bytes:
            self._drop(self.kept_bytes - self._limit_bytes)

    def _drop(self, size: int) -> None:
        """Drop up to `size` bytes from the oldest chunk."""
        oldest = self._chunks[0][1]
        dropped = min(size, len(oldest))
        if dropped == len(oldest):
            self._chunks.popleft()
        else:
            del oldest[:dropped]
        self.kept_bytes -= dropped
        self.dropped_bytes += dropped

    def _hand_over(self, stream: Stream, data: bytes, on_line: Callable[[OutputLine], None]) -> None:
        unfinished = self._unfinished[stream]
        for line in _completed(stream, unfinished, data):
            on_line(line)
        if len(unfinished) >= _LIVE_LINE_BYTES:
            self._finish_line(stream)

    def _finish_line(self, stream: Stream) -> None:
        unfinished = self._unfinished[stream]
        if unfinished and self._on_line:
            line = OutputLine(stream, _text(unfinished))
            unfinished.clear()
            self._on_line(line)

    def _end(self, stream: Stream) -> None:
        fd = self._open.pop(stream)
        if not self._loop.is_closed():
            self._loop.remove_reader(fd)
        os.close(fd)
        self._finish_line(stream)
        self._tell_left_out(stream, is_last=True)
        if not self._open:
            for callback in self._on_drained:
                callback()


def _completed(stream: Stream, unfinished: bytearray, data: bytes | bytearray) -> Iterator[OutputLine]:
    """Yield each line that `data` completes; the rest stays in `unfinished`."""
    unfinished += data
    if b"\n" not in data:
        return
    *lines, rest = unfinished.split(b"\n")
    unfinished[:] = rest
    for line in lines:
        yield OutputLine(stream, _text(line))


def _text(line: bytes | bytearray) -> str:
    return line.decode("utf-8", errors="replace").removesuffix("\r")
