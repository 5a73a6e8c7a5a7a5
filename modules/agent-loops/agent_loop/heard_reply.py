"""What was heard of the reply that is being made, which stays in the conversation if the reply is broken off.

A provider announces the pieces of its reply in events, and loops listen to these. Nothing else of them is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PIECE = "llm:stream_block_delta"


class HeardReply:
    """The blocks of one reply, by their places; another try of a request replaces those of the first."""

    def __init__(self) -> None:
        self._is_open = False
        self._blocks: dict[int, tuple[Any, list[str]]] = {}  # the request and the pieces of text

    @property
    def has_begun(self) -> bool:
        """Whether anything was heard."""
        return bool(self._blocks)

    def begin(self) -> None:
        """Listen to a new reply; outside of one, pieces belong to questions beside the conversation."""
        self._is_open, self._blocks = True, {}

    def end(self) -> str:
        """Listen no more; return the model's text so far, without its thinking."""
        heard, self._is_open, self._blocks = self._blocks, False, {}
        return "\n\n".join(text for _, pieces in heard.values() if (text := "".join(pieces)))

    def take(self, data: Mapping[str, Any]) -> None:
        """Add a piece; a value of the wrong type is ignored."""
        index, request, text = data.get("block_index"), data.get("request_id"), data.get("text")
        if self._is_open and isinstance(index, int) and isinstance(text, str):
            kept = {place: block for place, block in self._blocks.items() if place < index or block[0] == request}
            self._blocks = kept
            pieces = kept.setdefault(index, (request, []))[1]
            if "text" in str(data.get("block_type") or "text"):
                pieces.append(text)
