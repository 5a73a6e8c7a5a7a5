"""Calls on their way through the host: what a worker asked for, and what is asked of a worker for it.

A call knows in whose service it is made, so that the chain of calls that wait for each other can
be followed. What becomes of it when it ends is the switch's to decide.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from paddock.rpc.admission import values_in
from paddock.rpc.call_queue import MAX_HANDED
from paddock.rpc.channel import FOREVER, OpenCall
from paddock.rpc.peer import AnyHandle, Encoded, Handle, Peer
from paddock.rpc.rights import BorrowedRef, Right
from paddock_sdk.contract.boundary_errors import DeadlockError
from paddock_sdk.protocol import Frame, RemoteProtocolError
from paddock_sdk.protocol.frames import Buffer

_NO_RIGHTS: Final[Mapping[AnyHandle, Right]] = MappingProxyType({})
_MAX_UNREAD: Final = 16 * 1024 * 1024  # bytes that a worker may have yet to read when it is handed another call
_MAX_BLOCKED: Final = 8  # calls in which one worker stands still, each in the one before; real code nests one or two


class CallEvents(Protocol):
    """What calls report to."""

    loop: asyncio.AbstractEventLoop

    def on_forward_end(self, forward: Forward, frame: Frame | None) -> None: ...

    def on_forward_item(self, forward: Forward, frame: Frame) -> None: ...

    def on_success(self, call: RoutedCall) -> None: ...

    def failure_instead(self, answer: Frame, error: Exception) -> Frame: ...

    def fail(self, call: IncomingCall, error: BaseException) -> None: ...

    def on_overdue(self, call: RoutedCall) -> None: ...


class HostMethods(Protocol):
    """The host's own methods, as the router hands workers' requests on to them."""

    def serve(self, call: IncomingCall, method: int, message: Encoded) -> None:
        """Answer `call`, now or later, through the router; raise RemoteProtocolError for nonsense."""

    def notice(self, peer: Peer, method: int, message: Encoded) -> None:
        """Take a notification."""

    def refuse(self, peer: Peer, handle: AnyHandle) -> BaseException:
        """Note that a worker may not call what it was shown; return the error that it is answered with."""

    def forget(self, peer: Peer) -> None:
        """A worker is gone."""


class FailurePolicy(Protocol):
    """What becomes of calls into a worker that is dead, dying, overstaying or says too much."""

    async def revive(self, handle: Handle, method: str) -> Encoded | None:
        """Bring the owner of `handle` back, and `handle` with it.

        When it stays dead, return what stands in for the answer of `method`, or raise.
        """

    async def answer_for(self, call: RoutedCall, method: str, tries: int) -> Encoded | None:
        """Return what stands in for the lost answer, None to make the call again; raise to fail it.

        `tries` counts the lives that the call has cost, this one included.
        """

    def instead_of(self, call: RoutedCall, method: str, weight: int, most: int) -> Encoded | None:
        """Return what is answered in place of an answer that takes more memory than it may, None to let it pass."""

    def on_overdue(self, call: RoutedCall, method: str) -> None:
        """`call` of `method` has run longer than it may."""

    def on_violation(self, peer: Peer, error: RemoteProtocolError) -> None:
        """The worker broke the protocol."""

    def on_lost(self, peer: Peer) -> None:
        """The worker's connection is gone."""


class IncomingCall:
    """A worker's request that has not been answered."""

    __slots__ = (
        "__weakref__",
        "blocks",
        "brought",
        "cause",
        "credited",
        "depth",
        "early_credit",
        "emitter",
        "id",
        "is_idle",
        "peer",
        "rights",
        "served_by",
        "size",
        "task",
        "values_read",
    )

    def __init__(self, peer: Peer, id: int, cause: RoutedCall | None, blocks: bool, size: int = 0) -> None:
        self.peer = peer
        self.id = id
        self.cause = cause  # the call in whose service the worker makes this one
        self.blocks = blocks  # the worker's loop stands still until the answer
        self.size = size  # bytes of its body
        self.depth: int = cause.origin.depth + 1 if cause is not None and cause.origin is not None else 0
        self.served_by: RoutedCall | None = None  # the call that it waits for, unless a task does
        self.credited: asyncio.Event | None = None  # set when a stream that the host itself serves may go on
        self.task: asyncio.Task[None] | None = None
        self.rights = _NO_RIGHTS  # to what it names, as its worker had them when it arrived
        self.brought = _NO_RIGHTS  # those, where the application is called with what it names
        self.early_credit = 0  # items that the worker allowed before the caller could be informed
        self.emitter: str | None = None  # the module whose event this emits
        self.values_read = 0  # by the host, of what others answered in its service
        # Nobody works for the worker (yet), or it reads a stream whose items wait for it, and not it for them.
        self.is_idle = True

    @property
    def is_open(self) -> bool:
        """Whether the worker still waits for the answer."""
        return self.peer.incoming.get(self.id) is self

    def keep_rights(self, rights: Mapping[AnyHandle, Right]) -> None:
        """Keep the rights to what it names, as they are when it arrives."""
        self.rights = rights

    def bring_rights(self) -> None:
        """What it names is brought to the application, which calls it in this worker's name."""
        self.brought = self.rights

    def serve_by(self, by: RoutedCall | asyncio.Task[None] | None) -> None:
        """A call or a task works on the answer from here on; None as long as neither does."""
        self.served_by, self.task = (by, None) if isinstance(by, RoutedCall) else (None, by)

    def begin_stream(self) -> asyncio.Event:
        """The host itself answers with a stream; return what is set when the reader wants more of it."""
        self.credited = asyncio.Event()
        return self.credited

    def allow_early(self, items: int) -> None:
        """Note items that the worker allowed before there is a stream."""
        self.early_credit += items

    def note_emitter(self, module: str) -> None:
        """Note whose event this request emits."""
        self.emitter = module

    def count(self, body: Buffer) -> None:
        """Count what the host reads of an answer in this request's service: for the worker, never for who was asked.

        Raises:
            RemoteProtocolError: it is over a cap.
        """
        self.values_read += values_in(body)

    def take_values_read(self) -> int:
        """Return what was counted since this was last asked."""
        values, self.values_read = self.values_read, 0
        return values

    def idles(self, now: float) -> None:
        """The worker has every item that it gave credit for: what time passes is its own again."""
        if not self.is_idle:
            self.is_idle = True
            if self.cause is not None:
                self.cause.nested_ends(now)

    def goes_on(self, now: float) -> None:
        """The worker waits for others, or does so once more."""
        if self.is_idle:
            self.is_idle = False
            if self.cause is not None:
                self.cause.nested_begins(now)

    def ends(self, now: float) -> None:
        """The worker has its answer, or does not wait for it any more."""
        if self.cause is not None and not self.is_idle:
            self.cause.nested_ends(now)


current: contextvars.ContextVar[IncomingCall | None] = contextvars.ContextVar("paddock_incoming", default=None)
"""The worker's request that the host's current code serves."""


class RoutedCall(OpenCall):
    """A call of a worker's object, with the request it is made for, if any."""

    __slots__ = (
        "__weakref__",
        "credit",
        "handle",
        "is_admitted",
        "is_stream",
        "is_waiting",
        "message",
        "method",
        "origin",
        "owner",
        "runs_on",
    )

    def __init__(self, origin: IncomingCall | None, handle: Handle, method: int, message: Encoded) -> None:
        super().__init__()
        self.origin = origin
        self.handle = handle
        self.owner = handle.owner  # whom the call was made of; the handle may come to stand for a later life's object
        self.is_admitted = False  # who keeps count of what the object is told knows of it
        self.is_stream = False
        self.is_waiting = False  # until its owner has fewer calls to serve
        self.credit = 0  # items its stream may still send
        self.runs_on: RoutedCall | None = None  # the owner's own call that waits for this one: its time runs on
        self.method = method
        self.message = message

    @property
    def level(self) -> int:
        """How many calls wait for this one, each for the next."""
        return 0 if self.origin is None else self.origin.depth + 1

    @property
    def caller_peer(self) -> Peer | None:
        """The worker in whose service it is made, None for the application's own."""
        return None if self.origin is None else self.origin.peer

    @property
    def early_credit(self) -> int:
        """How many items its reader has allowed before it could be made."""
        return 0

    @property
    def is_open(self) -> bool:
        """Whether the owner has yet to answer."""
        return self.owner.channel.calls.get(self.id) is self

    def right_to(self, handle: AnyHandle) -> Right:
        """Return the right to an argument that the owner is given with this call, which the host itself makes.

        In a worker's service no more comes of what that worker named than came with its request; all else the
        application or the host adds, and gives.
        """
        if self.origin is None:
            return self.owner.may_reach(handle) or BorrowedRef(self)
        if handle in self.origin.rights:
            return self.owner.may_call_mounted(handle) or self.origin.rights[handle]
        return self.owner.may_reach(handle)

    def address_owner(self) -> None:
        """The call is made of the present life of its object's owner."""
        self.owner = self.handle.owner

    def note_admitted(self) -> None:
        """The policy of its object has admitted it; `let_go` gives back what that set aside."""
        self.is_admitted = True

    def mark_waiting(self, is_waiting: bool) -> None:
        """Whether it waits until its owner has fewer calls to serve."""
        self.is_waiting = is_waiting

    def begin_stream(self, now: float) -> None:
        """It is answered by a stream, of which nobody wants an item yet."""
        self.is_stream = True
        self.wants_no_item(now)

    def allow(self, items: int, now: float) -> None:
        """Its reader takes so many items more."""
        if self.credit == 0:
            self.wants_items(now)
        self.credit += items

    def let_time_run(self) -> None:
        """A worker that waits for itself does not wait for the host: the time of its own call runs on."""
        call = self.origin
        while call is not None and call.cause is not None:
            if call.cause.owner is self.owner:
                self.runs_on = call.cause
                call.cause.nested_ends(asyncio.get_running_loop().time())
                return
            call = call.cause.origin

    def on_given_up(self, now: float) -> None:
        if self.is_stream and self.credit == 0:
            self.nested_ends(now)  # its items are not wanted any more
        if self.deadline != FOREVER:
            self.limit_time(now, self.owner.runtime_max)

    def on_over(self) -> None:
        self.time_stands()
        self.let_go()

    def on_unmade(self, error: Exception) -> None:
        """The call waited, and could not be made when its turn came."""
        raise NotImplementedError

    def let_go(self) -> None:
        """What the call takes of what it was admitted to is free again, unless it ended well."""
        if self.is_admitted:
            self.is_admitted = False
            if self.handle.policy.release is not None:
                self.handle.policy.release(self.message)

    def time_stands(self) -> None:
        """A worker that waited for itself waits for the host again."""
        if self.runs_on is not None:
            self.runs_on.nested_begins(asyncio.get_running_loop().time())
            self.runs_on = None

    def wants_no_item(self, now: float) -> None:
        """The reader has every item that it gave credit for: the owner's time stands still, and the reader's runs."""
        self.nested_begins(now)
        reading = self._reading()
        if reading is not None:
            reading.idles(now)

    def wants_items(self, now: float) -> None:
        """The reader wants items again, and waits for the owner."""
        self.nested_ends(now)
        reading = self._reading()
        if reading is not None:
            reading.goes_on(now)

    def item_came(self) -> None:
        """Count an item of a stream."""
        self.credit -= 1
        if self.credit == 0:
            self.wants_no_item(asyncio.get_running_loop().time())

    def _reading(self) -> IncomingCall | None:
        """Return the request of the worker that reads this stream, if one does and its time is not running anyway.

        What the host itself reads in a worker's service, that worker waits for.
        """
        reads = self.origin
        return None if reads is None or reads.served_by is not self or self.runs_on is reads.cause else reads


class Forward(RoutedCall):
    """One worker's call of another worker's object."""

    __slots__ = ("switch", "tries")

    def __init__(
        self, switch: CallEvents, origin: IncomingCall, handle: Handle, method: int, message: Encoded, tries: int = 1
    ) -> None:
        super().__init__(origin, handle, method, message)
        self.switch = switch
        self.tries = tries  # lives of the owner that were asked, this one included

    @property
    def caller(self) -> IncomingCall:
        """The request that it forwards."""
        assert self.origin is not None  # it was made with one
        return self.origin

    def right_to(self, handle: AnyHandle) -> Right:
        """Return the right to an argument that the owner is given with this call: its own, or what the request has."""
        return self.owner.may_call_mounted(handle) or self.caller.rights.get(handle, False)

    def on_end(self, frame: Frame | None) -> None:
        self.time_stands()
        try:
            self.switch.on_forward_end(self, frame)
        finally:
            self.let_go()

    def on_item(self, frame: Frame) -> None:
        self.item_came()
        self.switch.on_forward_item(self, frame)

    def on_overdue(self) -> None:
        self.switch.on_overdue(self)

    @property
    def early_credit(self) -> int:
        return self.caller.early_credit

    def on_unmade(self, error: Exception) -> None:
        self.switch.fail(self.caller, error)


def has_to_wait(call: RoutedCall) -> bool:
    """Whether a call that its owner does not itself wait for has to wait for its turn."""
    origin = call.origin
    if origin is not None and origin.blocks and len(origin.peer.blocked) <= _MAX_BLOCKED:
        return False  # its caller serves nothing meanwhile, also nothing that the owner may wait for
    return call.owner.waiting.has(call.level) or not has_room(call.owner, call.level)


def has_room(owner: Peer, level: int) -> bool:
    """Whether a worker serves few enough calls of a level, and has read nearly all of what it was sent."""
    channel = owner.channel
    if channel.unsent_bytes > _MAX_UNREAD:
        return False
    return channel.connection.outgoing < MAX_HANDED or channel.number_of_calls(level) < MAX_HANDED


def own_request(call: IncomingCall | None, peer: Peer) -> int:
    """Return the nearest request of the worker's own that `call` serves, 0 if there is none."""
    while call is not None:
        if call.peer is peer:
            return call.id
        call = call.cause.origin if call.cause is not None else None
    return 0


def refuse_deadlock(routed: RoutedCall, owner: Peer, name_of: Callable[[RoutedCall], str]) -> None:
    """Refuse a call of a worker that stands still until this very call has ended.

    Raises:
        DeadlockError: it would never end; the chain of modules is named.
    """
    waiting = [owner.name]
    call = routed.origin
    while call is not None:
        waiting.append(call.peer.name)
        if call.peer is owner and call.blocks:
            name = name_of(routed)
            chain = tuple(reversed(waiting))
            raise DeadlockError(
                f"`{name}` of module `{owner.name}` was called while that module stands still in a synchronous "
                f"call that waits, in the end, for this one: {' → '.join(chain)}; make what `{owner.name}` calls "
                f"in `{chain[1]}` a coroutine function and await it, or make `{name}` a plain one",
                chain=chain,
            )
        call = call.cause.origin if call.cause is not None else None
