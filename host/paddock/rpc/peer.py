"""One worker as the router sees it: its channel, the objects that it handed out, and those that it was handed.

A handle stands for an object that some process handed out. It is owned by one peer, or by the host itself, and lives as
long as the host or any worker holds it. When the last holder releases it, its owner is informed. Descriptions are read
once, on use.

Object numbers are per connection, so a worker can name only objects that it was handed. Each object that a worker holds
has one of three rights: it may be called as long as it is held, it may be called during the calls that it came with, or
it may only be shown and passed back. A giver cannot give more than it has.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from paddock.rpc.admission import AdmissionControl, PeerLimits, values_in
from paddock.rpc.channel import Channel, WriteBatch
from paddock.rpc.object_limits import Count, ObjectLimits
from paddock.rpc.rights import BorrowedRef, CallAuthority, ObjectGrant, ObjectGrants, Pending, Right, allow_any
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.protocol import (
    Connection,
    Frame,
    HandleEntry,
    HandleSide,
    OverBudgetError,
    RemoteProtocolError,
)
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.description import Description, check_description, decode_description, without_data
from paddock_sdk.protocol.frames import Buffer
from paddock_sdk.protocol.remote_object import Caller

_ID_BITS: Final = 0xFFFFFFFF  # of a number in a frame's header
_MAX_UNCONFIRMED: Final = 100_000  # objects that the host released and their owner has not confirmed
_KEPT_BYTES: Final = 256  # of the description of an object that was not taken, in case it comes again without one
_CONVERSATION: Final = "context"  # the object mounted there holds the whole conversation
_VALUE_BYTES: Final = 64  # of memory that count for a value

Place = tuple[str, str | None]
"""The point and name at which the session has something mounted: reaching it there takes a right of its own."""


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """Decides about the calls of one object, besides the right to make them; a None decides nothing.

    `admit` is called before a call, with its method, its message and the calling worker (None: the application). It
    refuses the call by raising, or returns a number for it (0: it needs none). `on_success` gets that number and the
    answer, encoded, when the admitted call has ended well, `release` gets it when the call is over. `answer_max`
    returns the memory that an answer to another module may take now. `settle` is awaited between the admission of a
    call and its start, and may refuse it by raising. With `outlives_caller`, a call that has a
    number is not cancelled with its caller: it may have had its effect by then, which `on_success` is to hear of.
    """

    admit: Callable[[str, Encoded, Peer | None], int] | None = None
    on_success: Callable[[str, Encoded, int, Buffer], None] | None = None
    release: Callable[[int], object] | None = None
    answer_max: Callable[[], int] | None = None
    settle: Callable[[], Awaitable[None]] | None = None
    outlives_caller: bool = False

    def also(self, other: CallPolicy) -> CallPolicy:
        """Return the policy that decides as `other` does, and as this one does where `other` decides nothing."""
        return CallPolicy(
            other.admit or self.admit,
            other.on_success or self.on_success,
            other.release or self.release,
            other.answer_max or self.answer_max,
            other.settle or self.settle,
            other.outlives_caller or self.outlives_caller,
        )


NO_POLICY: Final = CallPolicy()


class DescriptionRefusedError(ValueError):
    """Raised for a description that an object may not have."""


class Handle:
    """An object of a worker, by its owner and the number the owner gave it."""

    __slots__ = (
        "__weakref__",
        "_check",
        "_parsed",
        "described",
        "mounted",
        "object_id",
        "owner",
        "policy",
        "proxy",
        "received",
    )

    def __init__(self, owner: Peer, object_id: int, described: bytes) -> None:
        self.owner = owner
        self.object_id = object_id
        self.described = described
        self.received = Count(described)
        self.mounted: Place | None = None
        self.proxy: Callable[[], object | None] | None = None  # the host's stand-in for it, weakly
        self.policy = NO_POLICY
        self._check: Callable[[bytes], object] | None = None
        self._parsed: Description | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a call of it starts at once: its owner takes calls, and no policy has to settle anything first."""
        return self.owner.takes_calls and self.policy.settle is None

    def description(self, codec: Codec) -> Description:
        """Return the description, read on first use.

        Raises:
            RemoteProtocolError: the owner sent something else.
        """
        if self._parsed is None:
            self._parsed = decode_description(self.described, codec)
        return self._parsed

    def hold_to(self, check: Callable[[bytes], object]) -> None:
        """Have every later description checked, in all lives of its owner; `check` raises for one that is refused."""
        self._check = check

    def redescribe(self, described: bytes) -> None:
        """Take a newer description from the owner.

        Raises:
            DescriptionRefusedError: it may not have this one; it stays as it was.
        """
        if self._check is not None:
            self._check(described)
        self.described = described
        self.received.redescribe(described)
        self._parsed = None

    def mount_at(self, place: Place | None) -> None:
        """Note where the session has the object mounted, None if it is no longer mounted."""
        self.mounted = place

    def follow(self, policy: CallPolicy) -> None:
        """Apply one more policy, that of a point where it is mounted, to its calls from here on, in all lives."""
        self.policy = self.policy.also(policy)

    def note_stand_in(self, instance: object) -> None:
        """Note the host's stand-in for it, weakly."""
        self.proxy = weakref.ref(instance)

    def rebind(self, successor: Handle) -> None:
        """Let this handle stand for an object of the owner's next life.

        Raises:
            DescriptionRefusedError: it may not have that object's description.
        """
        if self._check is not None:
            self._check(successor.described)
        self.owner, self.object_id, self.received = successor.owner, successor.object_id, successor.received
        self.redescribe(successor.described)
        self.owner.adopt(self)


class HostObject:
    """An object of the host or its application that workers may hold."""

    __slots__ = ("__weakref__", "described", "description", "mounted", "value")

    def __init__(self, value: object, description: Description, described: bytes) -> None:
        self.value = value
        self.description = description
        self.described = described
        self.mounted: Place | None = None

    def mount_at(self, place: Place | None) -> None:
        """Note where the session has the object mounted, None if it is no longer mounted."""
        self.mounted = place


AnyHandle = Handle | HostObject


class Encoded(NamedTuple):
    """A body with the handles it refers to: a message not yet bound for a worker.

    It is a tuple, because two are made for every call and a frozen dataclass takes twice the time.
    """

    body: bytes | bytearray | memoryview
    handles: tuple[AnyHandle, ...] = ()


RightTo = Callable[[AnyHandle], Right]


class PeerDelegate(Protocol):
    """The receiver of a worker's requests and of its end."""

    batch: WriteBatch

    def on_request(self, peer: Peer, request: Frame) -> None: ...

    def on_event(self, peer: Peer, event: Frame) -> None: ...

    def on_violation(self, peer: Peer, error: RemoteProtocolError) -> None: ...

    def on_room(self, peer: Peer) -> None: ...

    def on_lost(self, peer: Peer) -> None: ...


class Peer:
    """A connected worker.

    Args:
        name: the module, as people know it.
        kind: tool, hook, provider, orchestrator or context.
        authority: what it may do beyond its own objects.
        router: what this worker's requests are handed to.
        caller_of: makes what the host's stand-in for an object of this worker calls it by.
        connection: the host's end of its wire.
        limits: what it may have the host do at once, and how long its calls may take.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        router: PeerDelegate,
        caller_of: Callable[[Handle], Caller],
        authority: CallAuthority,
        connection: Connection,
        limits: PeerLimits,
    ) -> None:
        self.name = name
        self.kind = kind
        self.authority = authority
        self.caller_of = caller_of
        # What the channel reports goes to the router as it is, but for the ends of the connection.
        self.on_request = partial(router.on_request, self)
        self.on_event = partial(router.on_event, self)
        self.on_violation = partial(router.on_violation, self)
        self.on_room = partial(router.on_room, self)
        self._router = router
        self._loop = asyncio.get_running_loop()
        self.hello: asyncio.Future[Frame | None] = self._loop.create_future()
        self.runtime_max = limits.runtime_max
        self.call_max = limits.call_max
        self.admission = AdmissionControl(limits.work, lambda exc: self.channel.fail_worker(exc))
        self.answers = limits.answers
        self._limits = limits
        self.computes = False  # whether something that it mounted has properties
        self.state_changes_taken = 0  # of this worker's own; each change of state sent to it contains this number
        self.is_restoring = False  # it lives, and is not yet restored for its callers
        self.incoming: dict[int, Pending] = {}
        self.open_bytes = 0  # in the bodies of those
        self.blocked: list[Pending] = []
        self.waiting = 0  # calls, until it has fewer to serve
        self.gate: Callable[[Any], bool] | None = None  # returns whether a call has to wait
        self.is_held = False
        self._exports: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()
        self._let_go_of: dict[int, bytes] = {}  # descriptions of released objects that may be in transit again
        self._object_limits = ObjectLimits()  # of those not released, or whose release is not confirmed
        self._grants: ObjectGrants[AnyHandle] = ObjectGrants()
        self.channel = Channel(connection, self, limits.unread_seconds, router.batch)

    @property
    def is_open(self) -> bool:
        return self.channel.is_open

    @property
    def takes_calls(self) -> bool:
        """Whether its objects, if called, would answer as the caller expects."""
        return self.channel.is_open and not self.is_restoring

    def check_open(self, size: int) -> str:
        """Refuse another request of this size; return the reason if only the request fails.

        Raises:
            OverBudgetError: this worker has more that wait for their answers than it may have.
        """
        if len(self.incoming) >= self._limits.calls_max:
            problem = f"more than {self._limits.calls_max} requests that wait for their answers"
            raise OverBudgetError(
                "calls_max", allowed=self._limits.calls_max, observed=self._limits.calls_max + 1, message=problem
            )
        observed, allowed = self.open_bytes + size, self._limits.open_bytes_max
        if observed <= allowed:
            return ""
        problem = f"requests of {observed} bytes that wait for their answers, of {allowed} that it may have"
        if self.kind == "orchestrator":  # which passes on others' large answers
            return problem
        raise OverBudgetError("bytes of open requests", allowed=allowed, observed=observed, message=problem)

    def begin(self, call: Pending, id: int, size: int, *, blocks: bool) -> None:
        """Keep a request of this worker's until it is answered; with `blocks`, its loop is blocked meanwhile."""
        self.incoming[id] = call
        self.open_bytes += size
        if blocks:
            self.blocked.append(call)

    def end(self, id: int, size: int, *, blocks: bool) -> bool:
        """Forget a request that is answered; return whether it was open."""
        call = self.incoming.pop(id, None)
        if call is None:
            return False
        self.open_bytes -= size
        if blocks:
            self.blocked.remove(call)
        return True

    def count_waiting(self, calls: int) -> None:
        """Count calls that begin to wait for this worker to have fewer to serve; fewer than 0 wait no longer."""
        self.waiting += calls

    def guard(self, gate: Callable[[Any], bool] | None, *, is_held: bool = False) -> None:
        """Have a gate asked about each call of this worker, or none; if it `is_held`, all calls wait for a record."""
        self.gate, self.is_held = gate, is_held

    def mark_restoring(self, is_restoring: bool) -> None:
        """Note whether this worker, which lives, is not yet restored for its callers."""
        self.is_restoring = is_restoring

    def note_properties(self) -> None:
        """Note that an object it mounted has computed properties."""
        self.computes = True

    def take_state_change(self) -> int:
        """Count a change of state by this worker, modulo the size of the frame's field; return the number."""
        self.state_changes_taken = self.state_changes_taken + 1 & _ID_BITS
        return self.state_changes_taken

    def charge(self, body: Buffer) -> None:
        """Count a message of this worker's that the host itself reads, or one that it writes for it.

        Raises:
            RemoteProtocolError: it is over a cap.
        """
        self.admission.charge(values_in(body))

    def charge_weight(self, weight: int) -> None:
        """Charge this many bytes of memory, read or written for this worker."""
        self.admission.charge(weight // _VALUE_BYTES)

    def export(self, object_id: int) -> Handle | None:
        """Return the handle of an object of this worker, if the host still holds it."""
        return self._exports.get(object_id)

    def adopt(self, handle: Handle) -> None:
        """Keep `handle` as the one for its object."""
        self._exports[handle.object_id] = handle
        handle.received.hold()
        # Weakly, as a peer leads to all of its session, and with that back to the handle.
        weakref.finalize(handle, _drop, weakref.ref(self), handle.object_id, handle.received).atexit = False

    def grant(self, id: int) -> ObjectGrant[AnyHandle]:
        """Return the object that this worker was handed under number `id`.

        Raises:
            RemoteProtocolError: it was handed nothing under it; the worker made the number up.
        """
        return self._grants.by_number(id)

    def granted(self, handle: AnyHandle) -> int | None:
        """Return the number under which this worker knows `handle`, if it does."""
        return self._grants.number_of(handle)

    def receive(self, entries: Sequence[HandleEntry], requester: Peer | None = None) -> tuple[AnyHandle, ...]:
        """Return the handles that a frame from this worker refers to.

        If the frame answers another worker, that is the `requester`.

        Raises:
            RemoteProtocolError: one of them was never handed out, or the worker has handed out too many by itself.
            OverLimitError: `requester` keeps too many, or one was not taken before for that; those here are let go of.
        """
        other = requester if requester is not self else None
        over: OverLimitError | None = None
        received: list[AnyHandle] = []
        for entry in entries:
            try:
                received.append(self._receive_one(entry, other))
            except OverLimitError as exc:
                over = exc
                self._refuse(entry)
        if over is not None:
            raise over
        return tuple(received)

    def _receive_one(self, entry: HandleEntry, requester: Peer | None) -> AnyHandle:
        if entry.side == HandleSide.RECEIVER:
            return self.grant(entry.id).handle
        handle = self._exports.get(entry.id)
        if handle is None:
            description = entry.description or self._let_go_of.get(entry.id)
            if description is None:
                raise RemoteProtocolError(f"object {entry.id} came without a description")
            if not description:
                raise OverLimitError(f"an object of `{self.name}` was not taken before, as there was no room for it")
            weight = check_description(description)
            (requester or self).charge_weight(weight)  # an answer is charged to the requester
            try:
                self._object_limits.add(entry.id, weight, requester)
            except OverLimitError as exc:
                if requester is None:
                    raise RemoteProtocolError(str(exc)) from None
                raise OverLimitError(
                    f"`{requester.name}` keeps too much of `{self.name}`: {exc}; let go of some"
                ) from None
            handle = Handle(self, entry.id, description)
            self.adopt(handle)
        handle.received.came()
        return handle

    def _refuse(self, entry: HandleEntry) -> None:
        """Release at once an object that there is no room for.

        Raises:
            RemoteProtocolError: its owner has not confirmed that of far too many others.
        """
        if len(self._let_go_of) >= _MAX_UNCONFIRMED:
            raise RemoteProtocolError(f"more than {_MAX_UNCONFIRMED} objects let go of, which it does not confirm")
        known = self._let_go_of.get(entry.id) or entry.description
        self._let_go_of[entry.id] = known if len(known) <= _KEPT_BYTES else b""
        self.channel.release(entry.id, 1)

    def weigh(self, object_id: int, weight: int) -> None:
        """Count the weight of an object's description, in place of the one it had before.

        Raises:
            OverLimitError: it is too much together with those of the other objects.
        """
        self._object_limits.weigh(object_id, weight)

    def weight_of(self, *objects: object) -> int:
        """Return the memory that the descriptions of this worker's own among these objects take."""
        own = {handle for handle in objects if isinstance(handle, Handle) and handle.owner is self}
        return sum(self._object_limits.weight(handle.object_id) for handle in own)

    def may_call_mounted(self, handle: AnyHandle) -> bool:
        """Whether `handle` is mounted, and this worker may call it there without being handed it."""
        return handle.mounted is not None and self.authority.may_call(*handle.mounted)

    def may_reach(self, handle: AnyHandle) -> bool:
        """Whether this worker may call `handle` when the host hands it on; a mounted object needs the worker's own
        right.
        """
        return handle.mounted is None or self.authority.may_call(*handle.mounted)

    def sees_data(self, handle: AnyHandle) -> bool:
        """Whether this worker gets the contents of `handle`; for a conversation it needs the right to call it."""
        return handle.mounted is None or handle.mounted[0] != _CONVERSATION or self.authority.may_call(*handle.mounted)

    def shown(self, handle: AnyHandle) -> bytes:
        """Return the description of `handle` for this worker."""
        return handle.described if self.sees_data(handle) else without_data(handle.described)

    def holding(self, handle: AnyHandle) -> Callable[[], bool]:
        """Return a check whether this worker may call `handle`, which it now holds; it works after a release too."""
        held = self._grants.of(handle)
        if held is None:
            return lambda: False
        return lambda: (held.may_call or held.borrowed is not None) and self.may_reach(handle)

    def may_give(self, handle: AnyHandle, receiver: Peer) -> bool:
        """Whether `receiver` may call `handle`, as long as it holds it, when this worker answers with it or offers it.

        A mounted object needs a right of the receiver's own, unless it is this worker's own to give.
        """
        if isinstance(handle, Handle) and handle.owner is self:
            return True
        if handle.mounted is not None:
            return receiver.authority.may_call(*handle.mounted)
        held = self._grants.of(handle)
        return held is not None and held.may_call

    def rights_to_pass(self, handles: Iterable[AnyHandle], call: Pending) -> dict[AnyHandle, Right]:
        """Return the rights to the objects in this worker's request that go along with it, as they are now."""
        return {handle: self._right_to_pass(handle, call) for handle in handles}

    def _right_to_pass(self, handle: AnyHandle, call: Pending) -> Right:
        if isinstance(handle, Handle) and handle.owner is self:
            return True
        held = self._grants.of(handle)
        if held is None:
            return False
        if held.may_call:
            return BorrowedRef(call)
        borrowed = held.borrowed
        return borrowed is not None and BorrowedRef(call, borrowed)

    def send(self, handles: Iterable[AnyHandle], right_to: RightTo = allow_any) -> list[HandleEntry]:
        """Return the handle table that refers to `handles` in a frame to this worker."""
        return [self._send_one(handle, right_to(handle)) for handle in handles]

    def take_back(self, entries: Iterable[HandleEntry]) -> None:
        """Undo `send`: the frame could not be sent, so the worker did not get its handles."""
        for entry in entries:
            if entry.side == HandleSide.SENDER:
                self._grants.let_go(entry.id, 1)

    def send_ahead(self, handles: Sequence[AnyHandle], right_to: RightTo) -> list[HandleEntry]:
        """Do what `send` does for a frame that overtakes others, which may be the first to describe the objects."""
        rows = zip(handles, self.send(handles, right_to), strict=True)
        return [
            HandleEntry(row.side, row.id, self.shown(handle)) if row.side == HandleSide.SENDER else row
            for handle, row in rows
        ]

    def _send_one(self, handle: AnyHandle, right: Right) -> HandleEntry:
        if isinstance(handle, Handle) and handle.owner is self:
            return HandleEntry(HandleSide.RECEIVER, handle.object_id)
        held = self._grants.of(handle)
        description = b""
        if held is None:
            held = self._grants.add(handle)
            description = self.shown(handle)
        held.give(right)
        return HandleEntry(HandleSide.SENDER, held.number, description)

    def on_release(self, event: Frame) -> None:
        """Take the worker's release of an object, or its note that the host released one."""
        if event.target == 0:
            self._let_go_of.pop(event.id, None)
            if event.id not in self._exports:
                self._object_limits.forget(event.id)
        elif self._grants.let_go(event.id, event.target):
            self.channel.release(event.id, 0)

    def _on_dropped(self, object_id: int, received: Count) -> None:
        # The collector runs in the middle of anything, also between the two writes of a large frame, on any thread.
        if received.drop() and not self._loop.is_closed():
            self._let_go_of[object_id] = received.described
            self._loop.call_soon_threadsafe(self._release, object_id, received.times)

    def _release(self, object_id: int, times: int) -> None:
        if object_id in self._exports:  # it has come in again meanwhile, and is counted again
            self._let_go_of.pop(object_id, None)
        self.channel.release(object_id, times)

    # -- what the channel reports ----------------------------------------------------------

    def on_hello(self, hello: Frame) -> None:
        if not self.hello.done():  # its caller may have given up
            self.hello.set_result(hello)

    def on_lost(self) -> None:
        if not self.hello.done():
            self.hello.set_result(None)
        self.admission.forget()
        self._grants.clear()
        self._router.on_lost(self)


def _drop(peer: weakref.ref[Peer], object_id: int, received: Count) -> None:
    """Inform a peer that is still there that a handle is gone."""
    owner = peer()
    if owner is not None:
        owner._on_dropped(object_id, received)
