"""Everything that a module has mounted, registered and offered, and how to undo each of these acts.

A restarted module repeats its acts. A repeated act is renewed: the handles that others hold then stand for the new
life's objects. An act that is not repeated, or that has an object with other members, is undone; if the module could
not be mounted, all of them are.

Only a module's own objects are renewed. A handle of another module's object, if registered, keeps standing for that
object; to change it would change it for all its holders.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from paddock.rpc.peer import AnyHandle, Handle, Peer
from paddock_sdk.protocol.body import Codec


@dataclass(slots=True, eq=False)
class Registration:
    """One act of a module: its key, its object, and how to undo it."""

    key: tuple[Hashable, ...]
    handle: AnyHandle
    undo: Callable[[], None]
    is_own: bool
    is_renewed: bool = True

    def await_renewal(self) -> None:
        """Wait for the new life to repeat the act."""
        self.is_renewed = False

    def renew(self, handle: Handle) -> None:
        """Note that the new life has repeated it, with an object of its own."""
        self.own_handle.rebind(handle)
        self.is_renewed = True

    @property
    def own_handle(self) -> Handle:
        """The handle, where the act is about an object of the module's own."""
        assert self.is_own and isinstance(self.handle, Handle)
        return self.handle


class Registrations:
    """The acts of one module that are in force, in the order they were done."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._acts: list[Registration] = []
        self._is_renewing = False
        self._peer: Peer | None = None

    def begin_life(self, peer: Peer) -> None:
        """Begin a new life, as `peer`: every act of earlier lives waits to be renewed."""
        self._peer = peer
        self._is_renewing = bool(self._acts)
        for act in self._acts:
            act.await_renewal()

    def end_beginning(self) -> None:
        """Undo the acts that the new life, which is mounted, did not renew."""
        self._is_renewing = False
        for act in [act for act in self._acts if not act.is_renewed]:
            self.take_back(act)

    def add(self, key: tuple[Hashable, ...], handle: AnyHandle, undo: Callable[[], None]) -> Registration:
        """Note an act that was done."""
        act = Registration(key, handle, undo, self._is_own(handle))
        self._acts.append(act)
        return act

    def renew(self, key: tuple[Hashable, ...], handle: AnyHandle) -> Registration | None:
        """Let the handle of the earliest act of that key stand for `handle`'s object; None if there is none to renew.

        An object whose members differ is another object: methods go by number, and the old numbers would call others.
        """
        if not (self._is_renewing and isinstance(handle, Handle) and self._is_own(handle)):
            return None
        act = next((act for act in self._acts if act.key == key and act.is_own and not act.is_renewed), None)
        if act is None:
            return None
        if act.own_handle.description(self._codec).members != handle.description(self._codec).members:
            self.take_back(act)
            return None
        act.renew(handle)
        return act

    def _is_own(self, handle: AnyHandle) -> bool:
        return isinstance(handle, Handle) and handle.owner is self._peer

    def take_back(self, act: Registration) -> None:
        """Undo one act, if it is still in force."""
        if act in self._acts:
            self._acts.remove(act)
            act.undo()

    def take_back_all(self) -> None:
        """Undo everything, the latest first."""
        for act in reversed(list(self._acts)):
            self.take_back(act)

    def of(self, *key: Hashable) -> Registration | None:
        """Return the latest act of that key that is in force."""
        return next((act for act in reversed(self._acts) if act.key == key), None)

    def key_of(self, handle: Handle, sort: str) -> tuple[Hashable, ...] | None:
        """Return the key of the act of that sort that `handle` is the object of."""
        return next((act.key for act in self._acts if act.handle is handle and act.key[0] == sort), None)

    def latest_handler(self, name: str) -> Registration | None:
        """Return the latest handler registered under `name`."""
        handlers = (act for act in reversed(self._acts) if act.key[0] == "handler" and act.key[2] == name)
        return next(handlers, None)
