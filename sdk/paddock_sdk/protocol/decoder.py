"""Cut a byte stream into frames without copying more than once.

The decoder owns the memory the bytes are received into: 64 KiB that are reused, and one exact allocation for each frame
that does not fit. A length over the cap is refused before anything is allocated for it. After an error the decoder must
not be used again.
"""

from __future__ import annotations

from typing import Final

from paddock_sdk.protocol.errors import OverBudgetError, RemoteProtocolError
from paddock_sdk.protocol.frames import HEADER_BYTES, LENGTH, MAX_FRAME_BYTES, Frame, decode_frame

_RESIDENT_BYTES: Final = 64 * 1024


class FrameDecoder:
    """Receive bytes through `get_buffer` and `buffer_updated`, or whole through `receive_data`."""

    __slots__ = ("_end", "_large", "_large_end", "_max", "_resident")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        self._resident = memoryview(bytearray(_RESIDENT_BYTES))
        self._end = 0  # bytes of the resident buffer in use
        self._large: memoryview | None = None
        self._large_end = 0

    @property
    def is_empty(self) -> bool:
        """Whether the stream stands exactly between two frames."""
        return self._end == 0 and self._large is None

    def get_buffer(self) -> memoryview:
        """Return the memory to receive the next bytes into; never empty."""
        if self._large is not None:
            return self._large[self._large_end :]
        return self._resident[self._end :] if self._end else self._resident

    def buffer_updated(self, count: int) -> list[Frame]:
        """Take note of `count` received bytes and return the frames they complete.

        Raises:
            RemoteProtocolError: a length or header that no frame may have.
        """
        if self._large is not None:
            self._large_end += count
            if self._large_end < len(self._large):
                return []
            whole, self._large, self._large_end = self._large, None, 0
            return [decode_frame(whole, 0, len(whole))]
        frames: list[Frame] = []
        end = self._end = self._end + count
        buffer, start = self._resident, 0
        while end - start >= LENGTH.size:
            size: int = LENGTH.unpack_from(buffer, start)[0] + LENGTH.size
            if size < HEADER_BYTES:
                raise RemoteProtocolError(f"a frame of {size} bytes is shorter than its header")
            if size > self._max:
                message = f"a frame of {size} bytes is over the limit of {self._max}"
                raise OverBudgetError("frame_max", allowed=self._max, observed=size, message=message)
            if end - start < size:
                if size > _RESIDENT_BYTES:
                    self._large = memoryview(bytearray(size))
                    self._large[: end - start] = buffer[start:end]
                    self._large_end = end - start
                    self._end = 0
                    return frames
                break
            frames.append(decode_frame(buffer, start, start + size))
            start += size
        if start == end:
            self._end = 0
        elif start:
            rest = bytes(buffer[start:end])
            buffer[: len(rest)] = rest
            self._end = len(rest)
        return frames

    def receive_data(self, data: bytes) -> list[Frame]:
        """Copy `data` in and return the frames it completes."""
        frames: list[Frame] = []
        rest = memoryview(data)
        while rest:
            room = self.get_buffer()
            step = min(len(room), len(rest))
            room[:step] = rest[:step]
            frames += self.buffer_updated(step)
            rest = rest[step:]
        return frames
