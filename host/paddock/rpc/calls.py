"""Calls on their way through the host: the requests of workers, and the calls that the host makes of workers for them.

A call knows the request that it serves, so that the chain of calls that wait for each other can be followed. The router
decides what happens when a call ends.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, Protocol

from paddock.rpc.admission import values_in
from paddock.rpc.open_calls import FOREVER, OpenCall
from paddock.rpc.peer import AnyHandle, Encoded, Handle, Peer
from paddock.rpc.rights import BorrowedRef, Right
from paddock_sdk.contract.boundary_errors import DeadlockError
from paddock_sdk.protocol import Frame, RemoteProtocolError
from paddock_sdk.protocol.frames import Buffer

_NO_RIGHTS: Final[Mapping[AnyHandle, Right]] = MappingProxyType({})


class CallEvents(Protocol):
    """The events that calls report to the router."""

    loop: asyncio.AbstractEventLoop
    host_methods: HostMethods

    def on_forward_end(self, forward: Forward, frame: Frame | None) -> None: ...

    def on_forward_item(self, forward: Forward, frame: Frame) -> None: ...

    def on_success(self, call: RoutedCall, answer: Buffer) -> None: ...

    def failure_instead(self, answer: Frame, error: Exception) -> Frame: ...

    def fail(self, call: IncomingCall, error: BaseException) -> None: ...

    def on_overdue(self, call: RoutedCall) -> None: ...


class HostMethods(Protocol):
    """The host's own methods, as the router hands workers' requests on to them."""

    @property
    def session_id(self) -> str:
        """The id of the session whose methods they are."""

    def name_of(self, call: RoutedCall) -> str:
        """Return the name of a call for people: of a tool, an event, or else a method."""

    def serve(self, call: IncomingCall, method: int, message: Encoded) -> None:
        """Answer `call`, now or later, through the router; raise UnfitValueError for arguments that do not fit."""

    def notice(self, peer: Peer, method: int, message: Encoded) -> None:
        """Take a notification."""

    def refuse(self, peer: Peer, handle: AnyHandle) -> BaseException:
        """Note that a worker may not call an object it was shown; return the error for its request."""

    def forget(self, peer: Peer) -> None:
        """Drop the state of a worker that is gone."""


class FailurePolicy(Protocol):
    """Decides about calls to a worker that is dead, is dying, takes too long or answers with too much."""

    async def revive(self, handle: Handle, method: str) -> Encoded | None:
        """Start the owner of `handle` again, and renew `handle`.

        If it stays dead, return the stand-in for the answer of `method`, or raise.
        """

    async def answer_for(self, call: RoutedCall, method: str, tries: int) -> Encoded | None:
        """Return a stand-in for the lost answer, or None to make the call again; raise to fail it.

        `tries` counts the lives that the call has cost, this one included.
        """

    def instead_of(self, call: RoutedCall, method: str, weight: int, most: int) -> Encoded | None:
        """Return the replacement for an answer that takes more memory than it may, or None to let it pass."""

    def on_overdue(self, call: RoutedCall, method: str) -> None:
        """Handle a `call` of `method` that has run longer than it may."""

    def on_violation(self, peer: Peer, error: RemoteProtocolError) -> None:
        """Handle a worker that broke the protocol."""

    def on_lost(self, peer: Peer) -> None:
        """Handle a worker whose connection is gone."""


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

    def __init__(
        self,
        peer: Peer,
        id: int,
        cause: RoutedCall | None,
        blocks: bool,
        size: int = 0,
    ) -> None:
        self.peer = peer
        self.id = id
        self.cause = cause  # the call in whose service the worker makes this one
        self.blocks = blocks  # the worker's loop is blocked until the answer
        self.size = size  # bytes of its body
        self.depth: int = cause.origin.depth + 1 if cause is not None and cause.origin is not None else 0
        self.served_by: RoutedCall | None = None  # the call that it waits for, unless a task does
        self.credited: asyncio.Event | None = None  # set when a stream that the host itself serves may go on
        self.task: asyncio.Task[None] | None = None
        self.rights = _NO_RIGHTS  # to the objects it names, as its worker had them when it arrived
        self.brought = _NO_RIGHTS  # the same, where the application is called with these objects
        self.early_credit = 0  # items that the worker allowed before the caller could be informed
        self.emitter: str | None = None  # the module that emits the event
        self.values_read = 0  # by the host, in the answers of others in its service
        # Whether the worker waits for no other: no call works for it yet, or it has every item that it gave credit for.
        self.is_idle = True

    @property
    def is_open(self) -> bool:
        """Whether the worker still waits for the answer."""
        return self.peer.incoming.get(self.id) is self

    def keep_rights(self, rights: Mapping[AnyHandle, Right]) -> None:
        """Keep the rights to the objects that it names, as they are when it arrives."""
        self.rights = rights

    def bring_rights(self) -> None:
        """Note that the objects it names go to the application, which calls them in this worker's name."""
        self.brought = self.rights

    def serve_by(self, by: RoutedCall | asyncio.Task[None] | None) -> None:
        """Note the call or task that works on the answer from here on; None as long as neither does."""
        self.served_by, self.task = (by, None) if isinstance(by, RoutedCall) else (None, by)

    def begin_stream(self) -> asyncio.Event:
        """Let the host itself answer with a stream; return the event that is set when the reader wants more."""
        self.credited = asyncio.Event()
        return self.credited

    def allow_early(self, items: int) -> None:
        """Note items that the worker allowed before there is a stream."""
        self.early_credit += items

    def note_emitter(self, module: str) -> None:
        """Note the module that emits the event of this request."""
        self.emitter = module

    def count(self, body: Buffer) -> None:
        """Charge what the host reads of an answer for this request: to its worker, never to the one that answered.

        Raises:
            RemoteProtocolError: it is over a cap.
        """
        self.values_read += values_in(body)

    def take_values_read(self) -> int:
        """Return the count since the last call of this method."""
        values, self.values_read = self.values_read, 0
        return values

    def idles(self, now: float) -> None:
        """The worker has every item that it gave credit for: time counts as its own again."""
        if not self.is_idle:
            self.is_idle = True
            if self.cause is not None:
                self.cause.nested_ends(now)

    def goes_on(self, now: float) -> None:
        """The worker waits for others (again)."""
        if self.is_idle:
            self.is_idle = False
            if self.cause is not None:
                self.cause.nested_begins(now)

    def ends(self, now: float) -> None:
        """The worker has its answer, or no longer waits for it."""
        if self.cause is not None and not self.is_idle:
            self.cause.nested_ends(now)


current: contextvars.ContextVar[IncomingCall | None] = contextvars.ContextVar("paddock_incoming", default=None)
"""The worker's request that the host's current code serves."""


class RoutedCall(OpenCall):
    """A call of a worker's object, with the request that it serves, if any."""

    __slots__ = (
        "__weakref__",
        "admission",
        "credit",
        "handle",
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
        self.owner = handle.owner  # the callee; the handle may later stand for an object of its next life
        self.admission: int | None = None  # the number that the object's policy gave it, if it has admitted it
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
        """The worker whose request it serves, None for a call of the application's own."""
        return None if self.origin is None else self.origin.peer

    @property
    def early_credit(self) -> int:
        """How many items its reader has allowed before it could be made."""
        return 0

    @property
    def is_open(self) -> bool:
        """Whether the owner has yet to answer."""
        return self.owner.channel.calls.is_running(self)

    def right_to(self, handle: AnyHandle) -> Right:
        """Return the owner's right to an argument of this call, which the host itself makes.

        If the call serves a worker, objects that the worker named carry only the rights that came with its request. All
        other arguments are given by the application or the host.
        """
        if self.origin is None:
            return self.owner.may_reach(handle) or BorrowedRef(self)
        if handle in self.origin.rights:
            return self.owner.may_call_mounted(handle) or self.origin.rights[handle]
        return self.owner.may_reach(handle)

    def address_owner(self) -> None:
        """Note that the call goes to the present life of its object's owner."""
        self.owner = self.handle.owner

    def note_admitted(self, number: int) -> None:
        """Note that the object's policy admitted it under this number; `let_go` returns the room that was set aside."""
        self.admission = number

    def mark_waiting(self, is_waiting: bool) -> None:
        """Note whether it waits until its owner has fewer calls to serve."""
        self.is_waiting = is_waiting
        self.owner.count_waiting(1 if is_waiting else -1)

    def begin_stream(self, now: float) -> None:
        """Note that a stream answers it, of which no reader wants an item yet."""
        self.is_stream = True
        self.wants_no_item(now)

    def allow(self, items: int, now: float) -> None:
        """Let the owner send this many more items; the reader waits for it again."""
        if self.credit == 0:
            self.nested_ends(now)
            self.go_on(now)
            reading = self._reading()
            if reading is not None:
                reading.goes_on(now)
        self.credit += items

    def let_time_run(self) -> None:
        """Let the time of the worker's own call run on, if this call goes back to the worker that made it.

        Such a worker waits for itself, not for the host.
        """
        call = self.origin
        while call is not None and call.cause is not None:
            if call.cause.owner is self.owner:
                self.runs_on = call.cause
                call.cause.nested_ends(asyncio.get_running_loop().time())
                return
            call = call.cause.origin

    def on_cancelled(self, now: float) -> None:
        if self.is_stream and self.credit == 0:
            self.nested_ends(now)  # its items are not wanted any more
            self.go_on(now)
        if self.deadline != FOREVER:
            self.limit_time(now, self.owner.runtime_max)
            self.limit_all_time(now, self.owner.runtime_max)  # nobody waits for it, so it waits for nobody any longer

    @property
    def has_own_clock(self) -> bool:
        """Whether it is one that the host, the application or an orchestrator makes; others end with their cause."""
        return True

    def on_over(self) -> None:
        self.time_stands()
        self.let_go()

    def on_unmade(self, error: Exception) -> None:
        """Handle a waiting call that could not be made when its turn came."""
        raise NotImplementedError

    def let_go(self) -> None:
        """Return the room that was set aside for the call, unless it ended well."""
        number, self.admission = self.admission, None
        if number is not None and self.handle.policy.release is not None:
            self.handle.policy.release(number)

    def time_stands(self) -> None:
        """Let a worker that waited for itself wait for the host again."""
        if self.runs_on is not None:
            self.runs_on.nested_begins(asyncio.get_running_loop().time())
            self.runs_on = None

    def wants_no_item(self, now: float) -> None:
        """Let the owner's time stand still and the reader's run: the reader has every item that it gave credit for."""
        self.nested_begins(now)
        self.hold(now)
        reading = self._reading()
        if reading is not None:
            reading.idles(now)

    def item_came(self) -> None:
        """Count an item of a stream."""
        self.credit -= 1
        if self.credit == 0:
            self.wants_no_item(asyncio.get_running_loop().time())

    def _reading(self) -> IncomingCall | None:
        """Return the request of the worker that reads this stream, unless there is none or its time runs anyway.

        A worker also waits for what the host itself reads for it.
        """
        reads = self.origin
        return None if reads is None or reads.served_by is not self or self.runs_on is reads.cause else reads


class Forward(RoutedCall):
    """One worker's call of another worker's object."""

    __slots__ = ("events", "tries")

    def __init__(
        self, events: CallEvents, origin: IncomingCall, handle: Handle, method: int, message: Encoded, tries: int = 1
    ) -> None:
        super().__init__(origin, handle, method, message)
        self.events = events
        self.tries = tries  # lives of the owner that were asked, this one included

    @property
    def caller(self) -> IncomingCall:
        """The request that it forwards."""
        assert self.origin is not None  # it was made with one
        return self.origin

    @property
    def has_own_clock(self) -> bool:
        return self.caller.peer.kind == "orchestrator"

    def right_to(self, handle: AnyHandle) -> Right:
        """Return the owner's right to an argument of this call: its own, or the one that came with the request."""
        return self.owner.may_call_mounted(handle) or self.caller.rights.get(handle, False)

    def on_end(self, frame: Frame | None) -> None:
        self.time_stands()
        try:
            self.events.on_forward_end(self, frame)
        finally:
            self.let_go()

    def on_item(self, frame: Frame) -> None:
        self.item_came()
        self.events.on_forward_item(self, frame)

    def on_overdue(self) -> None:
        self.events.on_overdue(self)

    @property
    def early_credit(self) -> int:
        return self.caller.early_credit

    def on_unmade(self, error: Exception) -> None:
        self.events.fail(self.caller, error)


@contextmanager
def holding(call: IncomingCall | None) -> Iterator[None]:
    """Hold the calls that a request serves, while a person is asked for it or a sub-session works for it."""
    loop, held = asyncio.get_running_loop(), []
    while call is not None and call.cause is not None:
        held.append(call.cause)
        call = call.cause.origin
    for one in held:
        one.hold(loop.time())
    try:
        yield
    finally:
        for one in held:
            one.go_on(loop.time())


def own_request(call: IncomingCall | None, peer: Peer) -> int:
    """Return the nearest request of the worker's own that `call` serves, 0 if there is none."""
    while call is not None:
        if call.peer is peer:
            return call.id
        call = call.cause.origin if call.cause is not None else None
    return 0


def refuse_deadlock(routed: RoutedCall, owner: Peer, name_of: Callable[[RoutedCall], str]) -> None:
    """Refuse a call of a worker that is blocked until this very call has ended.

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
