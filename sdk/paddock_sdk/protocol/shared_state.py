"""Notice module code's in-place changes of state that others read.

Modules write into `session_state` and into values they attached to the coordinator without a notification. Before each
frame leaves, the values that can be sent are compared with the last known ones, and the differences go out first. What
is no data is reported, once for each object: it is left as an attribute of that key, or stays in this process. The last
writer of a key wins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from paddock_sdk.protocol import LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.body import Codec

Change = list[Any]
"""`[path, [value]]` for a new value, `[path, []]` for one that is gone."""

_ABSENT: Final = object()
_UNTOLD: Final = b""  # in place of a value that others made of changes, and that is no message as a whole
_UNCHANGING: Final = frozenset({bool, int, float, str, bytes, type(None)})
_ONE_CHANGE: Final = b"\x91\x92\x91"  # a list of a list of two: of a list of one key, which comes next,
_TO_ONE_VALUE: Final = b"\x91"  # and of a list of one value, which comes after this
STATE_ATTRIBUTE: Final = "state:"
"""Before a key of `session_state`: the name of the attribute that has a live object under that key."""

MAX_KEY: Final = 190  # characters of one that has a live object
_DEPTH: Final = 8  # levels of mappings compared key by key; deeper ones are sent whole


class SharedState:
    """A live dict, and the state of it that the other processes know."""

    def __init__(self, codec: Codec, on_kept: Callable[[object, object], bool] = lambda key, value: False) -> None:
        self.live: dict[Any, Any] = {}
        self._codec = codec
        self._on_kept = on_kept
        self._kept: dict[object, tuple[object, bool]] = {}  # what is no data, and whether it was left for others
        self._known: dict[Any, bytes] = {}
        self._seen: dict[Any, object] = {}  # values looked at last, of those that cannot change in place

    def bind(self, live: dict[Any, Any]) -> None:
        """Look at another dict from now on: module code may put one in the place of the one before."""
        self.live = live

    def changes(self, among: Collection[Any] | None = None) -> list[Change]:
        """Return the changes since the last call, under some keys or under all, and record them as known."""
        if not (self.live or self._known or self._kept):
            return []
        changes: list[Change] = []
        for key in [key for key in ({**self._known, **self._kept} if among is None else among) if key not in self.live]:
            _, was_left = self._kept.pop(key, (None, False))
            if self._known.pop(key, None) is None and not was_left:
                continue
            self._seen.pop(key, None)
            changes.append([[key], []])
        # A list: another thread may be writing to it.
        live = list(
            self.live.items() if among is None else [(key, self.live[key]) for key in among if key in self.live]
        )
        for key, value in live:
            if type(value) in _UNCHANGING:
                if self._seen.get(key, _ABSENT) is value:
                    continue
                self._seen[key] = value
            else:
                self._seen.pop(key, None)
            packed = self._packed(value)
            known = self._known.get(key)
            if packed is None:
                if self._keep(key, value) and self._known.pop(key, None) is not None:
                    changes.append([[key], []])
                continue
            self._kept.pop(key, None)
            if packed == known:
                continue
            try:
                before = self._codec.decode(known) if known else _ABSENT
                after = self._codec.decode(packed)
            except RemoteProtocolError:  # it can be written and not read, like a mapping with models for keys
                continue
            if type(key) in _UNCHANGING or self._crosses(key):
                self._known[key] = packed
                self._compare([key], before, after, changes, _DEPTH)
        return changes

    def is_known(self, key: object) -> bool:
        """Whether others know of something under `key`."""
        return key in self._known

    def _keep(self, key: object, value: object) -> bool:
        """Note what is no data; return whether it was left for others just now."""
        before, was_left = self._kept.get(key, (None, True))
        if before is value or not was_left:
            return False
        self._kept[key] = value, False  # what it is looked at for may ask again
        was_left = self._on_kept(key, value)
        self._kept[key] = value, was_left
        return was_left

    def take_live(self, key: object, value: object) -> None:
        """Take a live object that another process left under a key."""
        self.live[key] = value
        self._known.pop(key, None)
        self._kept[key] = value, True

    def drop_live(self, key: object) -> None:
        """Take away a live object that another process left under a key."""
        if self._kept.pop(key, None) is not None:
            self.live.pop(key, None)

    def _compare(
        self,
        path: list[Any],
        before: Any,
        after: Any,
        changes: list[Change],
        depth: int,
    ) -> None:
        if not (depth and type(before) is dict and type(after) is dict):
            # As bytes: 1, 1.0 and True are equal, and NaN never equals itself, so it would be sent without end.
            if before is _ABSENT or self._packed(before) != self._packed(after):
                changes.append([path, [after]])
            return
        changes.extend([[*path, key], []] for key in before if key not in after)
        for key, value in after.items():
            self._compare([*path, key], before.get(key, _ABSENT), value, changes, depth - 1)

    def apply(self, changes: list[Change]) -> None:
        """Take changes that others made."""
        for path, value in changes:
            patch(self.live, path, value)
        # Each key once, however many changes touch it: packing takes as long as its whole value is large.
        for key in {path[0]: None for path, _ in changes}:
            self._seen.pop(key, None)
            self._kept.pop(key, None)
            if key in self.live:
                self._known[key] = self._packed(self.live[key]) or _UNTOLD
            else:
                self._known.pop(key, None)

    def whole(self, key: object) -> bytes | None:
        """Return a message with all that others know of a key, None if there is none; it may be over a cap."""
        name, known = self._packed(key), self._known.get(key)
        return b"".join((_ONE_CHANGE, name, _TO_ONE_VALUE, known)) if name and known else None

    def _crosses(self, key: object) -> bool:
        """Whether others find a value under `key` where this process does."""
        packed = self._packed(key)
        try:
            return packed is not None and bool(self._codec.decode(packed) == key)
        except Exception:  # a key may be of a module's own class, and compare as it likes
            return False

    def _packed(self, value: object) -> bytes | None:
        try:
            return self._codec.encode(value, live_objects=False)[0]
        except LocalProtocolError:
            return None


def is_change(change: object) -> bool:
    """Whether something that came in is a change: a path of keys, and the value there or nothing."""
    match change:
        case [[_, *_] as path, [] | [_]]:
            return all(_is_key(key) for key in path)
    return False


def is_gone(change: Change) -> bool:
    """Whether a change takes away all that is under a key."""
    path, value = change
    return len(path) == 1 and not value


def touch(one: Change, other: Change) -> bool:
    """Whether one of two changes is made at or below the path of the other."""
    common = min(len(one[0]), len(other[0]))
    return bool(one[0][:common] == other[0][:common])


def _is_key(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def patch(target: dict[Any, Any], path: list[Any], value: list[Any]) -> None:
    """Set or remove the value at `path`; a path through something that is no mapping is ignored."""
    for key in path[:-1]:
        inner = target.get(key)
        if not isinstance(inner, dict):
            return
        target = inner
    if value:
        target[path[-1]] = value[0]
    else:
        target.pop(path[-1], None)
