"""Hide some texts in a stream of bytes that comes in pieces: each is replaced by as many stars.

The last bytes so far are held back, as many as one text may still need to be whole, until more come or whoever reads
the stream has waited. How many these are never depends on what they say: else whoever sees them come could try out the
beginnings of a text, one byte after the other. The number of bytes stays what it was, and so does how long a message
says it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


class EchoFilter:
    """Filters one stream; `found` counts what was hidden."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.found = 0
        self._texts = tuple(texts)
        # The longest first: of two that begin at the same place, all of it has to go.
        ordered = sorted(self._texts, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, ordered)))
        self._reach = len(ordered[0]) - 1
        self._held = b""

    @property
    def is_holding(self) -> bool:
        """Whether anything is held back."""
        return bool(self._held)

    def feed(self, data: bytes | bytearray) -> bytes:
        """Return what can be passed on of what was held back and of this."""
        data = self._held + data
        hidden, passed = self._hide(data, max(0, len(data) - self._reach))
        self._held = bytes(data[passed:])
        return hidden

    def end(self) -> bytes:
        """Return what was held back: nothing comes after it, or not for a while."""
        return self.feed_whole(b"")

    def feed_whole(self, data: bytes) -> bytes:
        """Return all of what was held back and of this: nothing comes after it."""
        data, self._held = self._held + data, b""
        return self._hide(data, len(data))[0]

    def _hide(self, data: bytes, end: int) -> tuple[bytes, int]:
        """Return what is before `end` with the texts hidden that begin there, and where it ends: behind them."""
        if not any(text in data for text in self._texts):
            return bytes(data[:end]), end
        hidden = bytearray(data)
        for match in self._pattern.finditer(data):
            if match.start() >= end:
                break
            self.found += 1
            hidden[match.start() : match.end()] = b"*" * len(match[0])
            end = max(end, match.end())
        return bytes(hidden[:end]), end
