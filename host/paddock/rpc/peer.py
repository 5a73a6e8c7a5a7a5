"""One worker as the router sees it: its channel and the objects it gave and was given.

Numbers of objects are per connection, so a worker can name only what it was handed. Each object
a worker was handed carries whether it may be called or only be shown and passed back.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from paddock.rpc.handle import AnyHandle, Count, Encoded, Handle
from paddock_sdk.protocol import Frame, HandleEntry, HandleSide, RemoteProtocolError

if TYPE_CHECKING:
    from paddock.rpc.channel import Channel
    from paddock.rpc.router import IncomingCall, Router

_MAX_OBJECTS: Final = 10_000  # objects one worker may have handed out and not let go


class Authority(Protocol):
    """What a worker may do beyond its own objects."""

    def may_call(self, point: str, name: str | None) -> bool: ...


class Grant:
    """One object a worker was handed."""

    __slots__ = ("handle", "may_call", "times")

    def __init__(self, handle: AnyHandle, may_call: bool) -> None:
        self.handle = handle
        self.may_call = may_call
        self.times = 0


class Peer:
    """A connected worker.

    Args:
        name: the module, as people know it.
        kind: tool, hook, provider, orchestrator or context.
        authority: what it may do beyond its own objects.
        router: what this worker's requests are handed to.
        runtime_max: seconds one call of this worker may take, its waiting for the host not counted.
    """

    def __init__(self, name: str, kind: str, router: Router, authority: Authority, runtime_max: float) -> None:
        self.name = name
        self.kind = kind
        self.authority = authority
        self._router = router
        self._loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[Frame | None] = self._loop.create_future()
        self.runtime_max = runtime_max
        self.channel: Channel
        self.incoming: dict[int, IncomingCall] = {}
        self.blocked: list[IncomingCall] = []
        self._exports: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()
        self._grants: dict[int, Grant] = {}
        self._grant_ids: dict[AnyHandle, int] = {}
        self._next_grant = 1

    @property
    def is_open(self) -> bool:
        return self.channel.is_open

    def export(self, object_id: int) -> Handle | None:
        """Return the handle of an object of this worker, if the host still holds it."""
        return self._exports.get(object_id)

    def adopt(self, handle: Handle) -> None:
        """Keep `handle` as the one for its object."""
        self._exports[handle.object_id] = handle
        weakref.finalize(handle, self._on_dropped, handle.object_id, handle.received).atexit = False

    def grant(self, id: int) -> Grant:
        """Return what this worker was handed under number `id`.

        Raises:
            RemoteProtocolError: it was handed nothing under it; the worker made the number up.
        """
        try:
            return self._grants[id]
        except KeyError:
            raise RemoteProtocolError(f"a reference to object {id}, which this module was never handed") from None

    def granted(self, handle: AnyHandle) -> int | None:
        """Return the number under which this worker knows `handle`, if it does."""
        return self._grant_ids.get(handle)

    def receive(self, entries: Sequence[HandleEntry]) -> tuple[AnyHandle, ...]:
        """Return the handles that a frame from this worker refers to.

        Raises:
            RemoteProtocolError: one of them was never handed out.
        """
        return tuple(self._receive_one(entry) for entry in entries)

    def _receive_one(self, entry: HandleEntry) -> AnyHandle:
        if entry.side == HandleSide.RECEIVER:
            return self.grant(entry.id).handle
        handle = self._exports.get(entry.id)
        if handle is None:
            if not entry.description:
                raise RemoteProtocolError(f"object {entry.id} came without a description")
            if len(self._exports) >= _MAX_OBJECTS:
                raise RemoteProtocolError(f"more than {_MAX_OBJECTS} objects handed out")
            handle = Handle(self, entry.id, entry.description)
            self.adopt(handle)
        handle.received.times += 1
        return handle

    def send(self, handles: Iterable[AnyHandle], *, may_call: bool = True) -> list[HandleEntry]:
        """Return the handle table that refers to `handles` in a frame to this worker."""
        return [self._send_one(handle, may_call) for handle in handles]

    def _send_one(self, handle: AnyHandle, may_call: bool) -> HandleEntry:
        if isinstance(handle, Handle) and handle.owner is self:
            return HandleEntry(HandleSide.RECEIVER, handle.object_id)
        id = self._grant_ids.get(handle)
        description = b""
        if id is None:
            id, self._next_grant = self._next_grant, self._next_grant + 1
            self._grant_ids[handle] = id
            self._grants[id] = Grant(handle, may_call)
            description = handle.described
        grant = self._grants[id]
        grant.times += 1
        grant.may_call = grant.may_call or may_call
        return HandleEntry(HandleSide.SENDER, id, description)

    def on_release(self, event: Frame) -> None:
        """The worker let go of something it was handed."""
        grant = self._grants.get(event.id)
        if grant is None:
            return
        grant.times -= event.target
        if grant.times <= 0:
            del self._grants[event.id]
            del self._grant_ids[grant.handle]
            self.channel.release(event.id, 0)

    def _on_dropped(self, object_id: int, received: Count) -> None:
        # The collector runs in the middle of anything, also between the two writes of a large frame.
        if not self._loop.is_closed():
            self._loop.call_soon(self._let_go, object_id, received)

    def _let_go(self, object_id: int, received: Count) -> None:
        if object_id not in self._exports:
            self.channel.release(object_id, received.times)

    def mirror(self, section: int, change: Encoded, *, may_call: bool) -> None:
        """Tell the worker of a change of shared state."""
        if self.is_open:
            self.channel.mirror(section, change.body, self.send(change.handles, may_call=may_call))

    # -- what the channel reports ----------------------------------------------------------

    def on_hello(self, hello: Frame) -> None:
        self.hello.set_result(hello)

    def on_request(self, request: Frame) -> None:
        self._router.on_request(self, request)

    def on_event(self, event: Frame) -> None:
        self._router.on_event(self, event)

    def on_violation(self, error: RemoteProtocolError) -> None:
        self._router.on_violation(self, error)

    def on_lost(self) -> None:
        if not self.hello.done():
            self.hello.set_result(None)
        self._router.on_lost(self)
