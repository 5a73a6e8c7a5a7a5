"""The events of one answer while it comes: its blocks begin, grow and end; an answer that breaks off is void.

They are those by which providers of the community announce pieces from within `complete`. Each try of a request has a
`request_id` of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

START: Final = "llm:stream_block_start"
DELTA: Final = "llm:stream_block_delta"
END: Final = "llm:stream_block_end"
ABORTED: Final = "llm:stream_aborted"
ANNOUNCED: Final = (START, DELTA, END, ABORTED)


class ShownAnswer:
    """Announces the pieces of one try; without hooks nothing is announced. `about` is in each event."""

    def __init__(self, hooks: Any | None, about: Mapping[str, Any]) -> None:
        self._hooks = hooks
        self._about = {**about, "request_id": uuid.uuid4().hex}
        self._open: dict[str, Any] | None = None
        self._sequence = 0  # of the next piece in its block
        self._half = ""  # the first half of a character whose second one comes with the next piece

    async def piece(self, index: int, kind: str, text: str) -> None:
        """Announce a part of a block of the answer."""
        block = {"block_index": index, "block_type": kind}
        if block != self._open:
            await self.end()
            self._open, self._sequence = block, 0
            await self._emit(START, block)
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = text.removesuffix(self._half).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if text:
            await self._emit(DELTA, {**block, "sequence": self._sequence, "text": text})
            self._sequence += 1

    async def end(self) -> None:
        """Announce the end of the block that is open."""
        block, self._open, self._half = self._open, None, ""
        if block is not None:
            await self._emit(END, block)

    async def abort(self, error: Exception) -> None:
        """Announce that the announced part of the answer is void."""
        if self._open is not None:
            self._open = None
            await self._emit(ABORTED, {"error": {"type": type(error).__name__, "msg": str(error)}})

    async def _emit(self, event: str, data: Mapping[str, Any]) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, {**self._about, **data})
