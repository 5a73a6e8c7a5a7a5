"""Keep the frames for one worker that reads more slowly than others write to it.

Frames keep their order. Where only the latest value counts, there is one entry a key, at the place of its first unsent
change, encoded when it is sent. So shared state that keeps changing takes no more room than the state itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from paddock_sdk.protocol.frames import Buffer, FrameParts

Make = Callable[[], bytes | FrameParts | None]
"""Writes an entry down as a frame, None if there is nothing to say any more."""


class _Kept(NamedTuple):
    make: Make
    is_new: bool


class SendBacklog:
    """Frames and entries in the order in which they are to be sent."""

    __slots__ = ("_items", "_number", "frame_bytes")

    def __init__(self) -> None:
        self.frame_bytes = 0  # in frames; entries take none until they are sent
        self._items: OrderedDict[Hashable, _Kept | Sequence[Buffer]] = OrderedDict()
        self._number = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, frame: Sequence[Buffer]) -> None:
        """Send a frame after all that is here."""
        self._number += 1
        self._items[self._number] = frame
        self.frame_bytes += sum(map(len, frame))

    def keep(self, key: tuple[Hashable, ...], make: Make, *, is_new: bool) -> None:
        """Send what `make` returns at its turn, in place of the earlier entry; `is_new` if the key was never sent."""
        before = self._items.get(key)
        self._items[key] = _Kept(make, before.is_new if isinstance(before, _Kept) else is_new)

    def kept(self, key: tuple[Hashable, ...]) -> Any:
        """Return what makes the frame that is kept under a key, None if none is."""
        item = self._items.get(key)
        return item.make if isinstance(item, _Kept) else None

    def drop_new(self, key: tuple[Hashable, ...]) -> bool:
        """Forget the entry of a key that was never sent to the worker; return whether there was such an entry."""
        item = self._items.get(key)
        if not isinstance(item, _Kept) or not item.is_new:
            return False
        del self._items[key]
        return True

    def take(self) -> Sequence[Buffer]:
        """Return what comes first, as pieces of one frame; no pieces if there is nothing left to send for it."""
        _, item = self._items.popitem(last=False)
        if not isinstance(item, _Kept):
            self.frame_bytes -= sum(map(len, item))
            return item
        frame = item.make()
        return (frame,) if isinstance(frame, bytes) else frame or ()
