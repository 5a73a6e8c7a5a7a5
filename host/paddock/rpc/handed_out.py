"""How many objects a worker has handed out, and what memory their descriptions take wherever they are read.

What it hands out by itself, in its own requests or to the application, is its own to answer for. What it answers
another worker with was asked for by that one, which may keep it for good: so that is counted between the two, and what
is too much fails a call of the worker that asks. The one that answers is not ended, and goes on answering others. An
object counts until its owner has confirmed that the host let go of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final
from weakref import WeakKeyDictionary

from paddock_sdk.contract.boundary_errors import OverLimitError

_MAX_OBJECTS: Final = 10_000  # of one worker's own accord
_MAX_DESCRIBED: Final = 16 * 1024 * 1024  # bytes of memory
_MAX_ASKED_OBJECTS: Final = 4096  # that another worker was answered with; far above what any known module keeps
_MAX_ASKED_DESCRIBED: Final = 4 * 1024 * 1024


class _Share:
    """What one worker answers for of another's objects, or of its own."""

    __slots__ = ("described", "described_max", "objects", "objects_max")

    def __init__(self, objects_max: int, described_max: int) -> None:
        self.objects = self.described = 0
        self.objects_max = objects_max
        self.described_max = described_max

    def check(self, objects: int, weight: int) -> None:
        if objects and self.objects + objects > self.objects_max:
            raise OverLimitError(f"more than {self.objects_max} objects handed out")
        if weight > 0 and self.described + weight > self.described_max:
            raise OverLimitError(f"objects handed out whose descriptions take more than {self.described_max} bytes")

    def count(self, objects: int, weight: int) -> None:
        self.objects += objects
        self.described += weight


class HandedOut:
    """The objects of one worker, by their numbers."""

    def __init__(self) -> None:
        self._own = _Share(_MAX_OBJECTS, _MAX_DESCRIBED)
        self._asked: WeakKeyDictionary[Hashable, _Share] = WeakKeyDictionary()
        self._objects: dict[int, tuple[_Share, int]] = {}

    def add(self, object_id: int, weight: int, asker: Hashable | None) -> None:
        """Count an object that is handed out, to `asker` if that asked for it.

        Raises:
            OverLimitError: it is one too many, or too large with the others.
        """
        share = self._own if asker is None else self._asked.get(asker)
        if share is None:
            share = self._asked[asker] = _Share(_MAX_ASKED_OBJECTS, _MAX_ASKED_DESCRIBED)
        self.forget(object_id)
        share.check(1, weight)
        share.count(1, weight)
        self._objects[object_id] = share, weight

    def weigh(self, object_id: int, weight: int) -> None:
        """Count what an object's newer description takes.

        Raises:
            OverLimitError: that is too much together with those of the other objects; the older one counts on.
        """
        share, before = self._objects[object_id]
        share.check(0, weight - before)
        share.count(0, weight - before)
        self._objects[object_id] = share, weight

    def weight(self, object_id: int) -> int:
        """Return what memory the description of an object takes, 0 if there is none."""
        return self._objects[object_id][1] if object_id in self._objects else 0

    def forget(self, object_id: int) -> None:
        """Count an object no more."""
        if object_id in self._objects:
            share, weight = self._objects.pop(object_id)
            share.count(-1, -weight)
