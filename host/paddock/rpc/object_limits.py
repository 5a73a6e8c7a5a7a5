"""Limits on the objects that a worker hands out, by number and by the memory of their descriptions.

Objects in a worker's own requests, or handed to the application, count against the worker. Objects in its answers to
another worker count against that pair, since the caller asked for them and may keep them: one too many fails the
caller's call, and the worker that answers goes on answering others. An object counts until its owner has confirmed that
the host released it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final
from weakref import WeakKeyDictionary

from paddock_sdk.contract.boundary_errors import OverLimitError

_MAX_OBJECTS: Final = 10_000  # in a worker's own requests, or handed to the application
_MAX_DESCRIBED: Final = 16 * 1024 * 1024  # bytes of memory
_MAX_ASKED_OBJECTS: Final = 4096  # in answers to one other worker; far above what any known module keeps
_MAX_ASKED_DESCRIBED: Final = 4 * 1024 * 1024


class _Share:
    """The objects that count against one worker, or against a pair of workers."""

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


class ObjectLimits:
    """The objects that one worker handed out, by their numbers."""

    def __init__(self) -> None:
        self._own = _Share(_MAX_OBJECTS, _MAX_DESCRIBED)
        self._asked: WeakKeyDictionary[Hashable, _Share] = WeakKeyDictionary()
        self._objects: dict[int, tuple[_Share, int]] = {}

    def add(self, object_id: int, weight: int, requester: Hashable | None) -> None:
        """Count an object that is handed out; `requester` is the worker whose call it answers, if any.

        Raises:
            OverLimitError: it exceeds a limit; it is not counted, nor is an earlier one of its number.
        """
        share = self._own if requester is None else self._asked.get(requester)
        if share is None:
            share = self._asked[requester] = _Share(_MAX_ASKED_OBJECTS, _MAX_ASKED_DESCRIBED)
        self.forget(object_id)
        share.check(1, weight)
        share.count(1, weight)
        self._objects[object_id] = share, weight

    def weigh(self, object_id: int, weight: int) -> None:
        """Count the memory of an object's newer description in place of the older one's.

        Raises:
            OverLimitError: it exceeds the limit; the older one still counts.
        """
        share, before = self._objects[object_id]
        share.check(0, weight - before)
        share.count(0, weight - before)
        self._objects[object_id] = share, weight

    def weight(self, object_id: int) -> int:
        """Return the memory that the description of an object takes, 0 for an object that is not counted."""
        return self._objects[object_id][1] if object_id in self._objects else 0

    def forget(self, object_id: int) -> None:
        """Stop counting an object; one that is not counted is ignored."""
        if object_id in self._objects:
            share, weight = self._objects.pop(object_id)
            share.count(-1, -weight)


class Count:
    """How often a worker handed out one object; the host sends it this number on release."""

    __slots__ = ("described", "holders", "times")

    def __init__(self, described: bytes) -> None:
        self.described = described
        self.holders = 0  # handles that stand for the object; two while one is rebound
        self.times = 0

    def hold(self) -> None:
        """One more handle stands for it."""
        self.holders += 1

    def drop(self) -> bool:
        """A handle is gone; return whether it was the last."""
        self.holders -= 1
        return not self.holders

    def came(self) -> None:
        """The owner has handed it out once more."""
        self.times += 1

    def redescribe(self, described: bytes) -> None:
        """Take a newer description."""
        self.described = described
