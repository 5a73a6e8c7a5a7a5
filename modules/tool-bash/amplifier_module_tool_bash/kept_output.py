"""Keep the beginning and the end of a stream, however long it is."""

from __future__ import annotations


class KeptOutput:
    """The first and the last bytes of a stream: `limit` in all, half of them each. The rest is counted."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._total += len(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Cut at twice the length, so that not every small piece moves the whole tail.
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    def take(self) -> str:
        """Return what was kept since the last time as text, with a line that says how much is missing in between."""
        tail = self._tail[-self._tail_limit :]
        left_out = self._total - len(self._head) - len(tail)
        if left_out:
            text = f"{_text(self._head)}\n[... {left_out} bytes are left out here ...]\n{_text(tail)}"
        else:
            text = _text(self._head + tail)
        self._head, self._tail, self._total = bytearray(), bytearray(), 0
        return text


def _text(data: bytearray) -> str:
    return data.decode("utf-8", errors="replace")
