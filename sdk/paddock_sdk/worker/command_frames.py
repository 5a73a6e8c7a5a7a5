"""What is said between the host and a worker that runs commands: small frames over one stream, without any of its IO.

A frame is its kind, the length of its payload and the payload. Each side reads with a decoder that knows which kinds it
may be sent and how long each may be, and takes nothing else. One command at a time: what arrives for one that has ended
is of no interest any more.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class FrameKind(IntEnum):
    """What a frame is: up to STOP from the host, the others from the worker."""

    RUN = 1  # msgpack: argv, and whether there is input
    INPUT = 2
    INPUT_END = 3
    STOP = 4  # how long the command may take to end by itself
    STDOUT = 17
    STDERR = 18
    TAKEN = 19  # how much input the command has taken
    ENDED = 20  # the exit code, negative for a signal
    FAILED = 21  # the error number, and the text, of why it was not started


MAX_DATA_BYTES: Final = 256 << 10  # of one frame of input or output
INPUT_WINDOW_BYTES: Final = 1 << 20  # of input on its way; the worker never holds more
COUNT: Final = struct.Struct(">I")
CODE: Final = struct.Struct(">i")
MAX_TEXT_BYTES: Final = 1024
MAX_RUN_BYTES: Final = 1 << 20  # of arguments; the kernel takes little more

TO_WORKER: Final[Mapping[int, int]] = {
    FrameKind.RUN: MAX_RUN_BYTES,
    FrameKind.INPUT: MAX_DATA_BYTES,
    FrameKind.INPUT_END: 0,
    FrameKind.STOP: COUNT.size,
}
TO_HOST: Final[Mapping[int, int]] = {
    FrameKind.STDOUT: MAX_DATA_BYTES,
    FrameKind.STDERR: MAX_DATA_BYTES,
    FrameKind.TAKEN: COUNT.size,
    FrameKind.ENDED: CODE.size,
    FrameKind.FAILED: COUNT.size + MAX_TEXT_BYTES,
}
"""The most bytes of payload of each kind that may be sent to either side."""

_HEAD: Final = struct.Struct(">BI")


class FrameError(ValueError):
    """Raised for bytes that no honest sender sends."""


def frame(kind: FrameKind, payload: bytes | memoryview = b"") -> bytes:
    """Return a frame as it is sent."""
    return b"".join((_HEAD.pack(kind, len(payload)), payload))


class CommandFrameDecoder:
    """Finds the frames in a stream; `accepted` are the kinds there may be and the most bytes of each."""

    def __init__(self, accepted: Mapping[int, int]) -> None:
        self._accepted = accepted
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> list[tuple[FrameKind, memoryview]]:
        """Take in what was received and return the frames that it completes.

        Raises:
            FrameError: a frame is none that may be sent here.
        """
        buffer = self._buffer
        buffer += data
        found = []
        start = 0
        while len(buffer) - start >= _HEAD.size:
            kind, size = _HEAD.unpack_from(buffer, start)
            most = self._accepted.get(kind)
            if most is None or size > most:
                raise FrameError(f"a frame of kind {kind} with {size} bytes")
            end = start + _HEAD.size + size
            if end > len(buffer):
                break
            with memoryview(buffer) as view:
                found.append((FrameKind(kind), memoryview(view[start + _HEAD.size : end].tobytes())))
            start = end
        del buffer[:start]
        return found
