"""The objects that cross a worker's connection by handle: its own, and stand-ins for others'.

An object handed out keeps its number for as long as the host holds it, so a returned one is the very same object. A
stand-in is the same one each time its number comes in. The host is informed when a stand-in has been collected. Numbers
mean nothing on any other connection.
"""

from __future__ import annotations

import types
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from paddock_sdk.protocol import HandleEntry, HandleSide, RemoteProtocolError
from paddock_sdk.protocol.body import Codec, NoFormError
from paddock_sdk.protocol.describing import describe, described_anew, masked, member_of
from paddock_sdk.protocol.description import Description, Flavour, decode_description, encode_description
from paddock_sdk.protocol.remote_object import Caller, refresh, stand_in
from paddock_sdk.worker.unsendable import unsendable


class Exported:
    """An object of this process that the host holds a handle to."""

    __slots__ = ("description", "id", "key", "methods", "mount_point", "times", "value")

    def __init__(self, value: object, key: object, id: int) -> None:
        self.value = value
        self.id = id
        self.key = key
        self.times = 0
        self.mount_point: str | None = None
        self.description = describe(value)
        self.methods: list[tuple[Any, Flavour]] = [
            (value if self.description.is_function else _member(value, member.name), member.flavour)
            for member in self.description.members
        ]

    def hand_out(self) -> None:
        """The host is handed it once more."""
        self.times += 1

    def let_go(self, times: int) -> bool:
        """The host released it so many times; return whether that was the last reference."""
        self.times -= times
        return self.times <= 0

    def mount_at(self, point: str) -> None:
        """Note where it is mounted, so that its data is kept current."""
        self.mount_point = point

    def changed(self) -> bool:
        """Re-read the known data of the object; return whether it is different now."""
        return self._differs(self.description.attributes)

    def computes_anew(self) -> bool:
        """Re-read the object's properties; return whether its data is different now."""
        return self._differs(self.description.properties)

    def _differs(self, names: Iterable[str]) -> bool:
        value, known = self.value, self.description.attributes
        for name in names:
            if _differs(value, name, known.get(name)):
                return self.described_anew()
        return False

    def described_anew(self) -> bool:
        """Look at the object once more; return whether its data is different now."""
        fresh = described_anew(self.value, self.description)  # its members stay: others call them by their numbers
        if fresh == self.description:
            return False  # the difference is masked, or was lost and came back
        self.description = fresh
        return True


class ObjectTable:
    """Both directions of a worker's handles."""

    def __init__(self, caller: Caller, codec: Codec) -> None:
        self._caller = caller
        self._codec = codec
        self._exports: dict[int, Exported] = {}
        self._export_ids: dict[object, int] = {}
        self._mounted: dict[int, Exported] = {}
        self._computing: list[Exported] = []  # those of them that have properties
        self._next_id = 1
        self._stand_ins: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._stand_in_ids: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._descriptions: dict[int, Description] = {}
        self._received: dict[int, int] = {}
        self._collected: deque[int] = deque()

    # -- this process's objects ------------------------------------------------------------

    def export(self, value: object) -> HandleEntry:
        """Return the handle entry that refers to `value`, whether this process or another owns it."""
        try:
            foreign = self._stand_in_ids.get(value)
        except TypeError:  # unhashable or not weakly referable, so not one of ours
            foreign = None
        if foreign is not None:
            return HandleEntry(HandleSide.RECEIVER, foreign)
        key = _identity(value)
        object_id = self._export_ids.get(key)
        if object_id is not None:
            exported = self._exports[object_id]
            exported.hand_out()
            return HandleEntry(HandleSide.SENDER, object_id)
        object_id, self._next_id = self._next_id, self._next_id + 1
        exported = self._exports[object_id] = Exported(value, key, object_id)
        self._export_ids[key] = object_id
        exported.hand_out()
        return HandleEntry(HandleSide.SENDER, object_id, encode_description(exported.description, self._codec))

    def export_all(self, values: Sequence[object]) -> list[HandleEntry]:
        """Return the handle entries that refer to `values`."""
        return [self.export(value) for value in values]

    def may_go_live(self, value: object) -> bool:
        """Whether others may have a stand-in for `value`.

        Raises:
            NoFormError: it only means something in this process.
        """
        kind = unsendable(value)
        if kind is not None:
            raise NoFormError(f"{kind.name} cannot be sent; {kind.hint}")
        return True

    def take_back(self, entries: Iterable[HandleEntry]) -> None:
        """Undo `export`: the frame could not be sent, so the host does not know its handles."""
        for entry in entries:
            if entry.side == HandleSide.SENDER:
                self.release(entry.id, 1)

    def exported(self, object_id: int) -> Exported:
        """Return the record of one of this process's objects.

        Raises:
            RemoteProtocolError: no object was handed out under that number, or it was released.
        """
        try:
            return self._exports[object_id]
        except KeyError:
            raise RemoteProtocolError(f"a call of object {object_id}, which was never handed out") from None

    def mark_mounted(self, value: object, point: str) -> int | None:
        """Note where `value` is mounted, so that its data is kept current; return its number."""
        object_id = self._export_ids.get(_identity(value))
        if object_id is not None:
            exported = self._mounted[object_id] = self._exports[object_id]
            if exported.description.properties and exported.mount_point is None:
                self._computing.append(exported)
            exported.mount_at(point)
        return object_id

    def changed_by(self, called: Exported) -> list[Exported]:
        """Return the mounted objects whose data changed by a call of `called`.

        On other objects only properties are re-read: those may depend on anything, whereas data depends on the code
        that wrote it.
        """
        changed = [called] if called.mount_point is not None and called.changed() else []
        for other in self._computing:
            if other is not called and other.computes_anew():
                changed.append(other)  # noqa: PERF401 - most often there is none to look at
        return changed

    def changed_since(self) -> list[Exported]:
        """Return the mounted objects whose data changed since it was last sent, for any reason."""
        return [exported for exported in self._mounted.values() if exported.described_anew()]

    def release(self, object_id: int, times: int) -> bool:
        """The host released an object it was handed `times` times; 0 confirms a release of this side.

        Return whether that was the host's last reference to an object of this process, which is to be confirmed.
        """
        if times == 0:
            if object_id not in self._stand_ins:
                self._descriptions.pop(object_id, None)
            return False
        exported = self._exports.get(object_id)
        if exported is None:
            return False
        if not exported.let_go(times):
            return False
        del self._exports[object_id]
        del self._export_ids[exported.key]
        if self._mounted.pop(object_id, None) in self._computing:
            self._computing.remove(exported)
        return True

    # -- other processes' objects ----------------------------------------------------------

    def resolve(self, entry: HandleEntry) -> object:
        """Return the object that a received handle entry refers to.

        Raises:
            RemoteProtocolError: the entry refers to nothing.
        """
        if entry.side == HandleSide.RECEIVER:
            return self.exported(entry.id).value
        known = self._stand_ins.get(entry.id)
        if known is not None:
            self._received[entry.id] = self._received.get(entry.id, 0) + 1
            return known
        if entry.description:
            self._descriptions[entry.id] = decode_description(entry.description, self._codec)
        description = self._descriptions.get(entry.id)
        if description is None:
            raise RemoteProtocolError(f"object {entry.id} came without a description")
        instance = stand_in(description, entry.id, self._caller)
        self._stand_ins[entry.id] = instance
        self._stand_in_ids[instance] = entry.id
        weakref.finalize(instance, self._on_collected, entry.id).atexit = False
        # Counted while it is there: otherwise `dropped`, on another thread, could release it.
        self._received[entry.id] = self._received.get(entry.id, 0) + 1
        return instance

    def redescribe(self, object_id: int, data: bytes) -> None:
        """Take the new data of an object that a stand-in here may show."""
        description = decode_description(data, self._codec)
        before, self._descriptions[object_id] = self._descriptions.get(object_id), description
        instance = self._stand_ins.get(object_id)
        if instance is not None:
            refresh(instance, description, before)

    def update(self, object_id: int, changed: dict[str, Any], gone: list[str]) -> None:
        """Take the newer data of an object that a stand-in here may show."""
        before = self._descriptions[object_id]
        after = self._descriptions[object_id] = before.with_data(changed, gone)
        instance = self._stand_ins.get(object_id)
        if instance is not None:
            refresh(instance, after, before)

    @property
    def has_dropped(self) -> bool:
        return bool(self._collected)

    def dropped(self) -> list[tuple[int, int]]:
        """Return the objects released since the last call, with how often each had come in."""
        gone: list[tuple[int, int]] = []
        while self._collected:
            object_id = self._collected.popleft()
            if object_id not in self._stand_ins:  # else it came in again meanwhile, and counts on
                times = self._received.pop(object_id, 0)
                if times:
                    gone.append((object_id, times))
        return gone

    def _on_collected(self, object_id: int) -> None:
        # Runs whenever the collector likes, on any thread: so it only makes a note.
        self._collected.append(object_id)


def _member(value: object, name: str) -> Any:
    try:
        return member_of(value, name)
    except Exception:  # a module's property that could be read just now; calling it will show the error
        return None


def _differs(value: object, name: str, known: object) -> bool:
    try:
        item = getattr(value, name, known)
        return bool(item != known and masked(item) != known)
    except Exception:  # a module's property; its known value stays
        return False


def _identity(value: object) -> object:
    """Return a key that is equal for exports of the same object; a bound method is another object at each access."""
    if isinstance(value, types.MethodType):
        return (id(value.__self__), id(value.__func__))
    return id(value)
