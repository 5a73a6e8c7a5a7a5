"""Decide, for every request of every worker, where it goes, and bring the answer back.

The router reads headers and handle tables, never bodies: a message between workers is passed on byte by byte, with the
receiver's object numbers. It knows the caller by the connection of a request. Each request is answered exactly once,
also when its target dies, hangs or is started again meanwhile; the `FailurePolicy` decides how. A call that would wait
for itself is refused at once. The router knows nothing of processes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, cast

from paddock.rpc.call_queue import MAX_HANDED, SMALL_CALL, CallQueue, has_room
from paddock.rpc.calls import (
    FailurePolicy,
    Forward,
    HostMethods,
    IncomingCall,
    RoutedCall,
    current,
    own_request,
    refuse_deadlock,
)
from paddock.rpc.channel import WriteBatch
from paddock.rpc.host_objects import HostObjects
from paddock.rpc.marshal import Marshaller
from paddock.rpc.open_calls import FOREVER
from paddock.rpc.peer import AnyHandle, Encoded, Handle, HostObject, Peer
from paddock.rpc.rights import ObjectGrant
from paddock.rpc.tasks import SessionTasks
from paddock_sdk.contract.boundary_errors import DeadlockError, ModuleGoneError, OverLimitError
from paddock_sdk.protocol import (
    Flag,
    Frame,
    HandleEntry,
    Kind,
    LocalProtocolError,
    RemoteProtocolError,
)
from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.description import Flavour, Member
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.frames import Buffer
from paddock_sdk.protocol.methods import WorkerMethod

_MAX_DEPTH: Final = 64  # calls nested through workers; the deepest real session seen nests 9
_MOST_OF_A_BYTE: Final = 300  # bytes of memory that a byte of a body may come to, wherever its value is built
_UNASKED_SECONDS: Final = 1.0  # that a worker may owe the host for notifications before no more of them are read
_LONGEST_HOLD: Final = 1.0  # seconds for which that goes on at a time
_BLOCKED, _STREAM, _IN_PLACE = int(Flag.BLOCKED), int(Flag.STREAM), int(Flag.IN_PLACE)
_RESPONSE: Final = int(Kind.RESPONSE)
_log = logging.getLogger(__name__)
_FLAGS: Final = {Flavour.ASYNC: 0, Flavour.SYNC: _IN_PLACE, Flavour.STREAM: _STREAM}


class Router:
    """The one way for calls through the host.

    `make_host_methods` makes the host's own methods, which answer through the router they are made with.
    """

    def __init__(
        self,
        marshaller: Marshaller,
        tasks: SessionTasks,
        failure_policy: FailurePolicy,
        make_host_methods: Callable[[Router], HostMethods],
    ) -> None:
        self.marshaller = marshaller
        self.failure_policy = failure_policy
        self.batch = WriteBatch()
        self._host_objects = HostObjects(marshaller)
        self._queue = CallQueue()
        self.tasks = tasks
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.host_methods = make_host_methods(self)

    @property
    def in_loop_thread(self) -> bool:
        """Whether this is the thread of the session's loop, which everything here belongs to."""
        return threading.get_ident() == self._thread

    # -- requests from workers -------------------------------------------------------------

    def on_request(self, peer: Peer, request: Frame) -> None:
        """Route one request; its answer is sent when it is there."""
        size = len(request.body)
        over = peer.check_open(size)
        cause = peer.channel.calls.get(request.parent) if request.parent else None
        blocks = bool(request.flags & _BLOCKED)
        call = IncomingCall(peer, request.id, cause, blocks, size)  # type: ignore[arg-type]
        peer.begin(call, request.id, size, blocks=blocks)
        try:
            handles = peer.receive(request.handles) if request.handles else ()
        except OverLimitError as exc:
            self.fail(call, exc)
            return
        if handles:
            call.keep_rights(peer.rights_to_pass(handles, call))
        message = Encoded(request.body, handles)
        if over:
            self.fail(call, OverLimitError(over))
            return
        if call.depth > _MAX_DEPTH:
            self.fail(call, RecursionError(f"calls nested through more than {_MAX_DEPTH} processes"))
            return
        handle: AnyHandle | None = None
        if request.target:
            grant = peer.grant(request.target)
            handle = grant.handle
            if not grant.may_call and not self._is_borrowed(peer, grant, request.method):
                self.fail(call, self.host_methods.refuse(peer, handle))
                return
        if peer.admission.is_behind:
            peer.admission.put_off(call, partial(self._dispatch, call, handle, request.method, message))
        else:
            self._dispatch(call, handle, request.method, message)

    def _dispatch(self, call: IncomingCall, handle: AnyHandle | None, method: int, message: Encoded) -> None:
        """Carry out a worker's request that has not been given up; without a `handle` the host serves it."""
        peer = call.peer
        if peer.incoming.get(call.id) is not call:
            return
        if handle is not None and handle.mounted is not None:
            peer.authority.note_call(*handle.mounted)
        if not isinstance(handle, Handle):
            peer.charge(message.body)
            try:
                self._serve_here(call, handle, method, message)
            except UnfitValueError as exc:
                self.fail(call, exc)
        else:
            forward = Forward(self, call, handle, method, message)
            call.serve_by(forward)
            if call.cause is not None:
                call.goes_on(self.loop.time())
            self._send(forward)

    def _is_borrowed(self, peer: Peer, grant: ObjectGrant[AnyHandle], method: int) -> bool:
        """Whether a worker may call an object because it serves a call that the object came with."""
        if grant.borrowed is None:
            return False
        handle = grant.handle
        if handle.mounted is None:
            return True
        members = handle.description.members if isinstance(handle, HostObject) else self._members(handle)
        # The caller gets the error of a missing member where the call is made.
        return method >= len(members) or peer.authority.may_use_lent(handle.mounted[0], members[method].name)

    def _serve_here(self, call: IncomingCall, handle: HostObject | None, method: int, message: Encoded) -> None:
        """Serve a request of the host itself, or of one of its objects.

        Raises:
            UnfitValueError: it means nothing here, and fails for it; bytes that are no request end the worker.
        """
        if handle is None:
            self.host_methods.serve(call, method, message)
        else:
            call.bring_rights()
            self.serve(call, self._host_objects.answer(call, handle, method, message))

    def on_event(self, peer: Peer, event: Frame) -> None:
        """Take any other frame of a worker."""
        try:
            self._on_event(peer, event)
        except OverLimitError as exc:  # it names an object of an answer that was not taken, and has no effect
            _log.warning("a message of module `%s` is ignored: %s", peer.name, exc)

    def _on_event(self, peer: Peer, event: Frame) -> None:
        if event.kind == Kind.NOTIFY:
            peer.charge(event.body)
            self.host_methods.notice(peer, event.method, Encoded(event.body, peer.receive(event.handles)))
            # It is in order with all other frames, and has been done: only later ones are put off.
            if peer.admission.is_behind and (owed := peer.admission.seconds_owed) > _UNASKED_SECONDS:
                peer.channel.hold(min(owed - _UNASKED_SECONDS, _LONGEST_HOLD))
        elif event.kind == Kind.CANCEL:
            self._on_cancel(peer, event.id)
        elif event.kind == Kind.CREDIT:
            call = _request(peer, event.id)
            if call is None:
                return
            if call.credited is not None:
                call.credited.set()
            elif call.served_by is not None and call.served_by.id:
                self.pass_credit(call.served_by, event.target)
            else:
                call.allow_early(event.target)
        elif event.kind == Kind.RELEASE:
            peer.on_release(event)
        elif event.kind == Kind.DISCARDED:
            peer.receive(event.handles)  # they count as handed over, and are released again at once

    def on_violation(self, peer: Peer, error: RemoteProtocolError) -> None:
        self.failure_policy.on_violation(peer, error)

    def on_lost(self, peer: Peer) -> None:
        """Drop the requests of a worker that is gone: nothing waits for the answers."""
        for id in list(peer.incoming):
            self._on_cancel(peer, id)
        self.host_methods.forget(peer)
        self.failure_policy.on_lost(peer)
        for routed in self._queue.drain(peer):
            routed.on_over()
            if isinstance(routed, Forward):
                self._send(routed)  # of its next life
            else:
                routed.on_end(None)

    def respond(self, call: IncomingCall, answer: Encoded) -> None:
        """End `call` with an answer."""
        if self._finish(call):
            peer, handles = call.peer, answer.handles
            self._answer(call, answer.body, peer.send(handles, peer.may_reach) if handles else ())

    def _answer(self, call: IncomingCall, body: Buffer, entries: Sequence[HandleEntry]) -> None:
        try:
            call.peer.channel.respond(call.id, body, entries)
        except LocalProtocolError as exc:
            call.peer.take_back(entries)
            call.peer.channel.fail(call.id, self.marshaller.encode_error(exc))

    def fail(self, call: IncomingCall, error: BaseException) -> None:
        """End `call` with an error, which is charged to its worker: it takes longer to write than to cause."""
        if not self._finish(call):
            return
        channel, body = call.peer.channel, self.marshaller.encode_error(error)
        if channel.is_open:
            call.peer.charge(body)
        try:
            channel.fail(call.id, body)
        except LocalProtocolError:
            channel.fail(call.id, self.marshaller.encode_error(RuntimeError("the error was too large to be sent")))

    def serve(self, call: IncomingCall, work: Coroutine[Any, Any, Encoded]) -> None:
        """Answer `call` with what `work` returns or raises, as a task."""
        call.serve_by(self.tasks.start(self._serve(call, work)))

    async def _serve(self, call: IncomingCall, work: Coroutine[Any, Any, Encoded]) -> None:
        current.set(call)
        if call.credited is not None:
            call.goes_on(self.loop.time())
        elif call.cause is not None:  # the worker has not waited for an answer given in one step
            self.loop.call_soon(self._goes_on, call)
        try:
            answer = await work
            # The worker waits as long as the host took to read the answers of others, as if those had come later.
            if call.values_read and (seconds := call.peer.answers.owe(self.loop.time(), call.values_read)):
                await asyncio.sleep(seconds)
            self.respond(call, answer)
        except asyncio.CancelledError as exc:
            self.fail(call, exc)
            raise
        except Exception as exc:  # any error goes to the caller
            self.fail(call, exc)

    def respond_directly(self, call: IncomingCall, answer: Encoded) -> None:
        """Answer a call that no task serves, when its worker has waited for what the host read for it."""
        seconds = call.peer.answers.owe(self.loop.time(), call.take_values_read())
        if seconds:
            self.serve(call, _later(seconds, answer))
        else:
            self.respond(call, answer)

    def _goes_on(self, call: IncomingCall) -> None:
        if call.peer.incoming.get(call.id) is call:
            call.goes_on(self.loop.time())

    def _finish(self, call: IncomingCall) -> bool:
        if not call.peer.end(call.id, call.size, blocks=call.blocks):
            return False
        if call.cause is not None and not call.is_idle:
            call.ends(self.loop.time())
        call.serve_by(None)  # a circle would keep the bodies of both until the next collection of garbage
        return True

    def _on_cancel(self, peer: Peer, id: int) -> None:
        call = _request(peer, id)
        if call is None:
            return
        if call.task is not None:
            # Not before its first step, in which it takes on to answer.
            self.loop.call_soon(self._cancel, call)
        else:
            self._cancel(call)

    def _cancel(self, call: IncomingCall) -> None:
        if call.task is not None:
            call.task.cancel()
        elif call.served_by is not None:
            self.cancel_call(call.served_by)
            self.fail(call, asyncio.CancelledError())
        else:  # it was put off
            call.peer.admission.give_up(call)
            self.fail(call, asyncio.CancelledError())

    # -- calls from one worker to another --------------------------------------------------

    def _send(self, forward: Forward) -> None:
        call = forward.caller
        try:
            if forward.handle.is_ready:
                self.start_checked(forward)
            else:
                call.serve_by(self.tasks.start(self._start_later(forward)))
        except (LocalProtocolError, DeadlockError, AttributeError, OverLimitError) as exc:
            self.fail(call, exc)

    def start_checked(self, routed: RoutedCall) -> None:
        """Start a call unless the policy of its object rejects it; the policy's exception propagates."""
        self._admit(routed)
        try:
            self.start(routed)
        except BaseException:
            routed.let_go()
            raise

    async def start_when_ready(self, routed: RoutedCall) -> Encoded | None:
        """Start a call as `start_checked` does, once it can be; return a stand-in for the answer of a dead owner."""
        handle = routed.handle
        if not handle.owner.takes_calls:
            instead = await self.failure_policy.revive(handle, self.method_name(routed))
            if instead is not None:
                return instead
        self._admit(routed)
        try:
            if handle.policy.settle is not None:
                await handle.policy.settle()
            self.start(routed)
        except BaseException:
            routed.let_go()
            raise
        return None

    def _admit(self, routed: RoutedCall) -> None:
        admit = routed.handle.policy.admit
        number = 0 if admit is None else admit(self.method_name(routed), routed.message, routed.caller_peer)
        routed.note_admitted(number)

    def on_success(self, routed: RoutedCall, answer: Buffer) -> None:
        """Have the policy of an object note that a call of it ended well, with its answer.

        Raises:
            OverLimitError: it cannot keep that, and the caller must not go on.
        """
        on_success = routed.handle.policy.on_success
        if on_success is not None:
            on_success(self.method_name(routed), routed.message, routed.admission or 0, answer)

    def start(self, routed: RoutedCall, *, is_guarded: bool = True) -> None:
        """Send a call to its owner, or make it wait while its owner has enough to serve, or its gate holds it.

        Raises:
            DeadlockError: the owner is blocked until this very call ends.
            AttributeError: there is no such member.
            LocalProtocolError: the message is too large.
            OverLimitError: too many calls of the same caller wait already.
        """
        routed.address_owner()
        owner = routed.owner
        if owner.gate is not None and is_guarded and owner.gate(routed):
            self._queue.add(routed)
            return
        parent = own_request(routed.origin, owner)
        is_much = owner.waiting or owner.channel.connection.outgoing >= MAX_HANDED
        if (is_much or len(routed.message.body) > SMALL_CALL) and not parent and self._queue.is_for(routed):
            self._queue.add(routed)
            owner.channel.await_room(True)
        else:
            self._hand_over(routed, parent)

    def on_room(self, peer: Peer) -> None:
        """Hand over the calls that wait for a worker, as far as it has room."""
        for level in self._queue.levels(peer):
            while self._queue.has(peer, level) and peer.is_open and has_room(peer, level):
                routed = self._queue.take(peer, level)
                try:
                    self._hand_over(routed, own_request(routed.origin, peer))
                except (LocalProtocolError, DeadlockError, AttributeError) as exc:
                    routed.let_go()
                    routed.on_unmade(exc)
        peer.channel.await_room(peer.waiting > 0)

    def fail_waiting(self, peer: Peer, error: Exception) -> None:
        """End the calls that wait for a worker; none of them is made."""
        for routed in self._queue.drain(peer):
            routed.let_go()
            routed.on_unmade(error)

    def cancel_call(self, routed: RoutedCall) -> None:
        """Wait no more for a call, and do not end it."""
        if routed.is_waiting:
            self._queue.discard(routed)
            routed.on_over()
        elif not (routed.admission and routed.handle.policy.outlives_caller):
            routed.owner.channel.cancel(routed)

    def _hand_over(self, routed: RoutedCall, parent: int) -> None:
        """Send a call to its owner, in the service of its owner's own request `parent`."""
        handle, owner = routed.handle, routed.owner
        members = self._members(handle)
        if routed.method >= len(members):
            raise AttributeError(f"an object of `{owner.name}` has no member {routed.method}")
        flags = _FLAGS[members[routed.method].flavour]
        if owner.blocked and flags != _IN_PLACE:
            refuse_deadlock(routed, owner, self.method_name)
        now = self.loop.time()
        if owner.runtime_max != FOREVER:
            routed.limit_time(now, owner.runtime_max)
        if owner.call_max != FOREVER and routed.has_own_clock:
            routed.limit_all_time(now, owner.call_max)
        message = routed.message
        entries = owner.send(message.handles, routed.right_to) if message.handles else ()
        try:
            owner.channel.request(routed, handle.object_id, routed.method, message.body, entries, flags, parent)
            if routed.origin is not None:
                routed.let_time_run()
            if flags == _STREAM:
                routed.begin_stream(self.loop.time())
                if routed.early_credit:
                    self.pass_credit(routed, routed.early_credit)
        except LocalProtocolError:
            owner.take_back(entries)
            raise

    def on_forward_end(self, forward: Forward, frame: Frame | None) -> None:
        """Carry an answer back to where the request came from."""
        call = forward.caller
        if frame is None:
            if call.is_open:
                self._begin_after_loss(call, forward)
            return
        try:
            handles = forward.owner.receive(frame.handles, call.peer) if frame.handles else ()
        except OverLimitError as exc:
            self.fail(call, exc)
            return
        except RemoteProtocolError:
            self._begin_after_loss(call, forward)
            raise
        answer_max = forward.handle.policy.answer_max
        if answer_max is not None:
            instead = self._instead_of_too_much(forward, frame.body, answer_max())
            if instead is not None:
                self.respond(call, instead)
                return
        if frame.kind != _RESPONSE:
            if self._finish(call):
                call.peer.channel.fail(call.id, frame.body)
            return
        try:
            self.on_success(forward, frame.body)
        except OverLimitError as exc:  # it cannot be kept
            self.fail(call, exc)
            return
        if self._finish(call):
            self._answer(call, frame.body, _given(handles, forward.owner, call.peer) if handles else ())

    def _instead_of_too_much(self, forward: Forward, body: Buffer, most: int) -> Encoded | None:
        """Return the replacement for a body that takes more memory than `most`, None if it may pass."""
        if len(body) * _MOST_OF_A_BYTE <= most:
            return None
        try:
            weight = weight_of(body)
        except RemoteProtocolError:
            return None  # no value at all, which its reader reports
        return (
            self.failure_policy.instead_of(forward, self.method_name(forward), weight, most) if weight > most else None
        )

    def on_forward_item(self, forward: Forward, frame: Frame) -> None:
        """Carry one item of a stream back to where the request came from."""
        call, owner = forward.caller, forward.owner
        peer = call.peer
        try:
            handles = owner.receive(frame.handles, peer)
        except OverLimitError as exc:
            owner.channel.cancel(forward)
            self.fail(call, exc)
            return
        if not (peer.is_open and peer.channel.connection.credit(call.id)):
            return
        entries = _given(handles, owner, peer)
        try:
            peer.channel.write(peer.channel.connection.send_item(call.id, frame.body, entries))
        except LocalProtocolError as exc:
            peer.take_back(entries)
            owner.channel.cancel(forward)
            self.fail(call, exc)

    async def _start_later(self, forward: Forward) -> None:
        """Make a call that does not start at once."""
        call = forward.caller
        try:
            instead = await self.start_when_ready(forward)
            if instead is not None:
                self.respond(call, instead)
                return
            call.serve_by(forward)  # from here on a cancellation goes to the owner
        except asyncio.CancelledError as exc:
            self.fail(call, exc)
            raise
        except Exception as exc:  # any error goes to the caller
            self.fail(call, exc)

    def _begin_after_loss(self, call: IncomingCall, forward: Forward) -> None:
        call.goes_on(self.loop.time())
        work = self._answer_after_loss(forward)
        task = self.tasks.start(work)
        call.serve_by(task)
        task.add_done_callback(lambda task: work.close())  # the session may end before it has begun

    async def _answer_after_loss(self, forward: Forward) -> None:
        """Answer a call whose owner died during it: with a stand-in, or by calling its next life."""
        call = forward.caller
        current.set(call)
        try:
            instead = await self.failure_policy.answer_for(forward, self.method_name(forward), forward.tries)
            if instead is not None:
                self.respond(call, instead)
                return
            if forward.is_stream:
                raise ModuleGoneError(f"module `{forward.handle.owner.name}` ended in the middle of a stream")
        except asyncio.CancelledError as exc:
            self.fail(call, exc)
            raise
        except Exception as exc:  # any error goes to the caller
            self.fail(call, exc)
            return
        again = Forward(self, call, forward.handle, forward.method, forward.message, forward.tries + 1)
        call.serve_by(again)
        self._send(again)

    # -- small decisions -------------------------------------------------------------------

    def failure_instead(self, answer: Frame, error: Exception) -> Frame:
        """Return the frame of a failure, for an answer that is not taken."""
        return answer._replace(kind=int(Kind.FAILURE), body=self.marshaller.encode_error(error), handles=())

    def end_for(self, peer: Peer, error: RemoteProtocolError) -> None:
        """End a worker for a message of its, when its frame is not being handled any more."""
        if peer.is_open:
            self.failure_policy.on_violation(peer, error)
            peer.channel.close()

    def _members(self, handle: Handle) -> tuple[Member, ...]:
        """Return the members of a worker's object; a description that is none ends its owner, and never the caller."""
        try:
            return handle.description(self.marshaller.codec).members
        except RemoteProtocolError as exc:
            self.end_for(handle.owner, exc)
            return ()

    def method_name(self, routed: RoutedCall) -> str:
        """Return the name of the member that `routed` calls, for people and journals."""
        if routed.handle.object_id == 0:
            return WorkerMethod(routed.method).name.lower()
        members = self._members(routed.handle)
        return members[routed.method].name if routed.method < len(members) else f"member {routed.method}"

    def now(self) -> float:
        """Return the time, as deadlines and budgets have it."""
        return self.loop.time()

    def pass_credit(self, call: RoutedCall, items: int) -> None:
        owner = call.owner
        if owner.is_open:
            frame = owner.channel.connection.send_credit(call.id, items)
            if frame is not None:
                owner.channel.write(frame)
                call.allow(items, self.loop.time())

    def on_overdue(self, call: RoutedCall) -> None:
        """A call has run longer than it may."""
        self.failure_policy.on_overdue(call, self.method_name(call))


def _given(handles: Sequence[AnyHandle], giver: Peer, receiver: Peer) -> list[HandleEntry]:
    """Hand a worker another worker's answer."""
    return receiver.send(handles, lambda handle: giver.may_give(handle, receiver))


async def _later(seconds: float, answer: Encoded) -> Encoded:
    await asyncio.sleep(seconds)
    return answer


def _request(peer: Peer, id: int) -> IncomingCall | None:
    """Return the request of that number that the worker waits for."""
    return cast("IncomingCall | None", peer.incoming.get(id))
