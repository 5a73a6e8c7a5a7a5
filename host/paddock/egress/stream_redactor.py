"""Hide some texts in a stream of bytes that comes in pieces: each is replaced by as many stars.

A text may begin in one piece and end in a later one, so bytes are held back until it is certain that no text is cut in
two. A byte is passed on when a line end has come after it (no text has one in it), when `WINDOW_BYTES` have come after
it, when it has been here for `HOLD_SECONDS`, or when the message ends. None of these depends on the length or the bytes
of the texts. Otherwise a module could make a server echo guesses, and find the beginning of a key by the time or the
pieces in which the echo arrives. Bytes passed on because of their age are still remembered, so that the later rest of a
text is hidden.

The number of bytes stays the same, and with it the length that a message declares. It reads no clock.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Final

WINDOW_BYTES: Final = 16 * 1024
"""No text is longer: with four times the length in its longest form, a key of 4 KiB, which no vendor has."""

HOLD_SECONDS: Final = 0.25
"""More than TCP waits at first before it repeats a segment (0.2 s): a text that a loss cut in two is still hidden."""


class StreamRedactor:
    """Filters one stream; `found` counts hidden texts. No text has a line end or more than `WINDOW_BYTES`."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.found = 0
        self._texts = tuple(texts)
        # The longest first: of two that begin at the same place, all of it has to go.
        ordered = sorted(self._texts, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, ordered)))
        self._overlap = len(ordered[0]) - 1  # bytes of a text that may be before the place where one looks
        self._data = bytearray()
        self._passed = 0  # bytes of `_data` that were passed on for their age, and may be the beginning of a text
        self._arrivals = deque[tuple[float, int]]()  # when bytes came, and where in `_data` they end

    @property
    def due(self) -> float | None:
        """When the oldest held byte comes of age; None if there is none."""
        return self._arrivals[0][0] + HOLD_SECONDS if self._arrivals else None

    def feed(self, data: bytes | bytearray, now: float) -> bytes:
        """Return the bytes that can be passed on, of those held back and of these, which arrived `now`."""
        if not data:
            return b""
        self._data += data
        self._arrivals.append((now, len(self._data)))
        line_end = max(self._data.rfind(b"\n"), self._data.rfind(b"\r")) + 1
        return self._pass_on(max(line_end, len(self._data) - WINDOW_BYTES))

    def aged(self, now: float) -> bytes:
        """Return the bytes that have been held back for long enough."""
        end = 0
        for arrived, ends in self._arrivals:
            if arrived + HOLD_SECONDS > now:
                break
            end = ends
        return self._pass_on(end, is_settled=False)

    def end(self) -> bytes:
        """Return all bytes that were held back: no more follow."""
        return self._pass_on(len(self._data))

    def hide(self, text: bytes) -> bytes:
        """Return a whole text, which is no part of the stream, with the texts hidden in it."""
        hidden = bytearray(text)
        self._hide(hidden, len(hidden))
        return bytes(hidden)

    def _pass_on(self, end: int, *, is_settled: bool = True) -> bytes:
        """Return the bytes before `end`; `is_settled`: no text that begins there is still to become whole."""
        if end <= self._passed:
            return b""
        self._hide(self._data, end)
        out = bytes(self._data[self._passed : end])
        gone = end if is_settled else max(0, end - self._overlap)
        del self._data[:gone]
        self._passed = end - gone
        self._arrivals = deque((arrived, ends - gone) for arrived, ends in self._arrivals if ends > end)
        return out

    def _hide(self, data: bytearray, end: int) -> None:
        """Replace the texts that begin before `end`."""
        near = bytes(data[: end + self._overlap])
        if not any(text in near for text in self._texts):
            return
        for match in self._pattern.finditer(near):
            if match.start() >= end:
                break
            self.found += 1
            data[match.start() : match.end()] = b"*" * len(match[0])
