"""Make the host's own calls of workers' objects, and read the answers for the request that each call serves.

Each call ends exactly once: with the answer, with the callee's exception, or with the `FailurePolicy`'s decision about
its owner's death. `call` and `call_value` start an owner again and repeat the call; the others call one life of it
only. When a call is cancelled or a stream is left early, the owner is asked to end it, unless the policy of its object
lets such calls outlive their callers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final, Self, TypeVar

from anyio import CancelScope

from paddock.rpc.calls import (
    CallEvents,
    IncomingCall,
    RoutedCall,
    current,
)
from paddock.rpc.open_calls import FOREVER
from paddock.rpc.peer import AnyHandle, Encoded, Handle, Peer
from paddock.rpc.router import Router
from paddock_sdk.contract.boundary_errors import ModuleGoneError, OverLimitError
from paddock_sdk.protocol import Frame, Kind, RemoteProtocolError
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.frames import Buffer

_STREAM_WINDOW: Final = 32  # items a stream may run ahead of the host
_LAST_TRY: Final = 1 << 16  # of a call that is not to be made again, for any kind of owner
_RESPONSE: Final = int(Kind.RESPONSE)
_T = TypeVar("_T")


class HostCall(RoutedCall):
    """A call that the host itself makes; it reads the answer for the request that the call serves."""

    __slots__ = ("context", "events", "future")

    def __init__(
        self, events: CallEvents, origin: IncomingCall | None, handle: Handle, method: int, message: Encoded
    ) -> None:
        super().__init__(origin, handle, method, message)
        self.events = events
        self.context: Context | None = None if origin is not None else copy_context()  # of the application's own call
        self.future: asyncio.Future[Encoded | Frame | None] = events.loop.create_future()

    def on_end(self, frame: Frame | None) -> None:
        self.time_stands()
        outcome: Encoded | Frame | None = None
        try:
            outcome = self._outcome_of(frame)
            if frame is not None:
                self.count(frame.body)
        finally:  # an answer that names an unknown object of its owner is invalid
            if isinstance(outcome, Encoded) and self.admission is not None:
                with contextlib.suppress(OverLimitError):  # the next call is not admitted
                    self.events.on_success(self, outcome.body)
            self.let_go()
            self.conclude(outcome)

    def conclude(self, outcome: Encoded | Frame | None) -> None:
        """Give the answer to the task that waits for it."""
        if not self.future.done():
            self.future.set_result(outcome)

    def count(self, body: Buffer) -> None:
        """Charge what the host reads of an answer to the worker that it is read for, never to the one that answered.

        Raises:
            RemoteProtocolError: it is over a cap.
        """
        if self.origin is not None:
            self.origin.count(body)

    def on_unmade(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def _outcome_of(self, frame: Frame | None) -> Encoded | Frame | None:
        """Return an answer with the objects it refers to, which its owner may release next; a failure as it is.

        Raises:
            RemoteProtocolError: it refers to what its owner was never handed.
        """
        if frame is None or frame.kind != Kind.RESPONSE:
            return frame
        try:
            return Encoded(frame.body, self._received(frame))
        except OverLimitError as exc:
            return self.events.failure_instead(frame, exc)

    def _received(self, frame: Frame) -> tuple[AnyHandle, ...]:
        return self.owner.receive(frame.handles, self.caller_peer) if frame.handles else ()

    def on_overdue(self) -> None:
        self.events.on_overdue(self)


class ScopedCall(HostCall):
    """A call that has to end within a scope, whose time stands still while the worker waits for others.

    The deadline of anyio's scope is moved by writing it; there is no other way.
    """

    __slots__ = ("_left", "_scope")

    def within(self, scope: CancelScope) -> Self:
        """Set the scope, once; return the call."""
        self._scope, self._left = scope, 0.0
        return self

    def nested_begins(self, now: float) -> None:
        super().nested_begins(now)
        if self._nested == 1 and not self._scope.cancel_called:
            self._left = self._scope.deadline - now
            self._scope.deadline = FOREVER

    def nested_ends(self, now: float) -> None:
        super().nested_ends(now)
        if self._nested == 0 and not self._scope.cancel_called:
            self._scope.deadline = now + self._left


class DirectCall(HostCall):
    """A call whose answer the host acts on while it reads it, with no task that waits for it.

    `on_ended` is called once with the call itself, unless it was given up. It must not raise. A task that continues
    from there gets the call as `awaited`.
    """

    __slots__ = ("_on_ended", "error", "outcome")

    def __init__(
        self,
        events: CallEvents,
        origin: IncomingCall | None,
        handle: Handle,
        method: int,
        message: Encoded,
        on_ended: Callable[[DirectCall], None],
    ) -> None:
        RoutedCall.__init__(self, origin, handle, method, message)  # without a future, which few of them need
        self.events = events
        self._on_ended = on_ended
        self.outcome: Encoded | Frame | None = None
        self.error: Exception | None = None

    def conclude(self, outcome: Encoded | Frame | None) -> None:
        self.outcome = outcome
        self._on_ended(self)

    def on_unmade(self, error: Exception) -> None:
        self.error = error
        self._on_ended(self)

    def awaited(self) -> HostCall:
        """Return the call, which has ended, as one that a task may wait for."""
        self.future = self.events.loop.create_future()
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.outcome)
        return self


class HostStream(HostCall):
    """A stream that the host itself reads: its items, then its end.

    The objects that an item refers to are held from its arrival, so that those of unread items are released.
    """

    __slots__ = ("items",)

    def __init__(
        self, events: CallEvents, origin: IncomingCall | None, handle: Handle, method: int, message: Encoded
    ) -> None:
        super().__init__(events, origin, handle, method, message)
        self.items: asyncio.Queue[Encoded | Frame | Exception | None] = asyncio.Queue()

    @property
    def early_credit(self) -> int:
        return _STREAM_WINDOW

    def on_unmade(self, error: Exception) -> None:
        self.items.put_nowait(error)

    def on_item(self, frame: Frame) -> None:
        self.item_came()
        try:
            self.items.put_nowait(Encoded(frame.body, self._received(frame)))
        except OverLimitError as exc:
            self.items.put_nowait(exc)
        self.count(frame.body)

    def on_end(self, frame: Frame | None) -> None:
        self.on_over()
        self.items.put_nowait(frame)
        if frame is not None:
            self.count(frame.body)


class HostCalls:
    """The calls that the host makes on its own; the router sends them."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.marshaller = router.marshaller

    def call(
        self, handle: Handle, method: int, message: Encoded, begun: HostCall | None = None
    ) -> Coroutine[Any, Any, Encoded]:
        """Call a worker's object, and return the answer undecoded; a call that was `begun` before is waited for.

        Raises:
            Exception: the callee's, or the one for its death, which depends on its kind.
        """
        return self._exchange(current.get(), handle, method, message, begun=begun)

    def check_brought(self, handle: Handle) -> None:
        """Refuse the application's call, on behalf of a module, of an object that the module passed without a right to
        it.

        Raises:
            CallRefusedError: the module may not call it, so nothing calls it for the module.
        """
        origin = current.get()
        if origin is None or origin.brought.get(handle, True) or origin.peer.may_call_mounted(handle):
            return
        raise self.router.host_methods.refuse(origin.peer, handle)

    def begin(self, handle: Handle, method: int, message: Encoded) -> HostCall | None:
        """Send a call of a worker's object at once; return None if it has to wait for anything first.

        Raises:
            DeadlockError: the owner is blocked until this very call ends.
            AttributeError: there is no such member.
            LocalProtocolError: the message is too large.
            OverLimitError: the target's quota rejects it.
        """
        if not handle.is_ready:
            return None
        routed = HostCall(self.router, current.get(), handle, method, message)
        self.router.start_checked(routed)
        return routed

    def begin_directly(
        self,
        origin: IncomingCall,
        handle: Handle,
        method: int,
        message: Encoded,
        on_ended: Callable[[DirectCall], None],
    ) -> DirectCall | None:
        """Do what `begin` does on behalf of a worker's request; the answer is acted on at once."""
        if not handle.is_ready:
            return None
        routed = DirectCall(self.router, origin, handle, method, message, on_ended)
        self.router.start_checked(routed)
        return routed

    async def call_value(
        self,
        handle: Handle,
        method: int,
        message: Encoded,
        begun: HostCall | None = None,
    ) -> Any:
        """Call a worker's object, and return the answer's value; an answer that is no value ends the worker.

        A call that was `begun` before is waited for.

        Raises:
            UnfitValueError: no class accepts the answer.
            Exception: as `call`.
        """
        answer = await self._exchange(current.get(), handle, method, message, begun=begun)
        try:
            return self.marshaller.decode(answer)
        except UnfitValueError as exc:
            unfit = UnfitValueError(f"module `{handle.owner.name}` answered with {exc}")
            unfit.__dict__["remote_type"] = ValueError.__name__  # the module's own error, as if it had raised it
            raise unfit from exc
        except RemoteProtocolError as exc:
            self.router.end_for(handle.owner, exc)
            broken = RoutedCall(current.get(), handle, method, message)
            instead = await self.router.failure_policy.answer_for(broken, self.router.method_name(broken), _LAST_TRY)
            return self.marshaller.decode(instead) if instead is not None else None

    async def _exchange(
        self,
        origin: IncomingCall | None,
        handle: Handle,
        method: int,
        message: Encoded,
        begun: HostCall | None = None,
    ) -> Encoded:
        tries = 0
        while True:
            routed = begun or HostCall(self.router, origin, handle, method, message)
            if begun is None:
                if handle.is_ready:
                    self.router.start_checked(routed)
                elif (instead := await self.router.start_when_ready(routed)) is not None:
                    return instead
            begun = None
            answer = await self._end_of(routed)
            if answer is not None:
                return answer
            if not routed.id:
                continue  # its owner went before it was asked
            tries += 1
            instead = await self.router.failure_policy.answer_for(routed, self.router.method_name(routed), tries)
            if instead is not None:
                return instead

    async def call_now(self, handle: Handle, method: int, message: Encoded, *, is_guarded: bool = True) -> Encoded:
        """Call as `call` does, but in this life of the owner only, and unobserved; its gate holds it if `is_guarded`.

        Raises:
            ModuleGoneError: the owner is gone, or went before it answered.
        """
        owner = handle.owner
        if not owner.is_open:
            raise ModuleGoneError(f"module `{owner.name}` is gone")
        routed = HostCall(self.router, current.get(), handle, method, message)
        self.router.start(routed, is_guarded=is_guarded)
        answer = await self._end_of(routed)
        if answer is None:
            raise ModuleGoneError(f"module `{owner.name}` ended before it answered")
        return answer

    async def stream(self, handle: Handle, method: int, message: Encoded) -> AsyncGenerator[Encoded, None]:
        """Call a worker's generator and yield its items undecoded; leaving early cancels it.

        Raises:
            ModuleGoneError: the owner is gone, or went before the end.
            Exception: what the generator raised.
        """
        owner = handle.owner
        if not owner.is_open:
            raise ModuleGoneError(f"module `{owner.name}` is gone")
        routed = HostStream(self.router, current.get(), handle, method, message)
        self.router.start(routed)
        taken = 0
        try:
            while True:
                item = await routed.items.get()
                if item is None:
                    raise ModuleGoneError(f"module `{owner.name}` ended in the middle of a stream")
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, Frame):
                    if item.kind != _RESPONSE:
                        raise self.marshaller.decode_error(item.body)
                    return
                taken += 1
                if taken == _STREAM_WINDOW // 2:
                    self.router.pass_credit(routed, taken)
                    taken = 0
                yield item
        finally:
            self.router.cancel_call(routed)

    async def _end_of(self, routed: HostCall) -> Encoded | None:
        """Wait for the answer, None when the worker went before it; raise the callee's exception."""
        try:
            outcome = await routed.future
        except asyncio.CancelledError:
            self.router.cancel_call(routed)
            raise
        if isinstance(outcome, Frame):
            raise self.marshaller.decode_error(outcome.body)
        return outcome

    async def ask(
        self,
        peer: Peer,
        method: int,
        message: Encoded,
        within: CancelScope | None = None,
    ) -> Encoded:
        """Call one of the worker runtime's own methods; the time of `within` stands while the worker waits for others.

        Raises:
            ModuleGoneError: the worker is gone.
        """
        endpoint = Handle(peer, 0, b"")
        origin = current.get()
        if within is None:
            routed = HostCall(self.router, origin, endpoint, method, message)
        else:
            routed = ScopedCall(self.router, origin, endpoint, method, message).within(within)
        peer.channel.request(routed, 0, method, message.body, peer.send(message.handles))
        answer = await self._end_of(routed)
        if answer is None:
            raise ModuleGoneError(f"module `{peer.name}` ended before it answered")
        return answer


class StandInCaller:
    """The way from a stand-in in the host to its object, from any thread of the application.

    Each call is made on the session's loop, also for another thread.
    """

    __slots__ = ("_handle", "_host_calls")

    def __init__(self, host_calls: HostCalls, handle: Handle) -> None:
        self._host_calls = host_calls
        self._handle = handle

    async def call(self, target: int, method: int, value: object, *, in_place: bool = False) -> Any:
        calls = self._host_calls
        if not calls.router.in_loop_thread:
            return await asyncio.wrap_future(self._from_thread(method, value))
        calls.check_brought(self._handle)
        message = calls.marshaller.encode(value, share=True)  # the application's own call, arguments included
        return await calls.call_value(self._handle, method, message)

    def call_sync(self, target: int, method: int, value: object, *, in_place: bool = True) -> Any:
        """Call a plain function; return its result on another thread, or an awaitable on the session's loop.

        The host never blocks. The call is sent at once all the same, before anything that is asked for later.
        """
        calls = self._host_calls
        if not calls.router.in_loop_thread:
            return self._from_thread(method, value).result()
        calls.check_brought(self._handle)
        message = calls.marshaller.encode(value, share=True)
        begun = calls.begin(self._handle, method, message)
        return asyncio.ensure_future(calls.call_value(self._handle, method, message, begun))

    def stream(self, target: int, method: int, value: object) -> AsyncGenerator[Any, None]:
        """Call a generator, and return its items; another thread gets each from the session's loop."""
        items = self._items(method, value)
        return items if self._host_calls.router.in_loop_thread else self._handed_over(items)

    async def _items(self, method: int, value: object) -> AsyncGenerator[Any, None]:
        calls = self._host_calls
        calls.check_brought(self._handle)
        items = calls.stream(self._handle, method, calls.marshaller.encode(value, share=True))
        async with contextlib.aclosing(items):
            async for item in items:
                yield calls.marshaller.decode(item)

    async def _handed_over(self, items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yield what a generator of the session's loop yields there; leaving early closes it there."""
        in_turn = asyncio.Lock()  # of that loop: a cancelled step may end after the closing has begun
        try:
            while True:
                more = await asyncio.wrap_future(self._on_loop(_take(items, in_turn)))
                if not more:
                    return
                yield more[0]
        finally:
            await asyncio.wrap_future(self._on_loop(_close(items, in_turn)))

    def _from_thread(self, method: int, value: object) -> concurrent.futures.Future[Any]:
        return self._on_loop(self.call(0, method, value))

    def _on_loop(self, work: Coroutine[Any, Any, _T]) -> concurrent.futures.Future[_T]:
        return asyncio.run_coroutine_threadsafe(work, self._host_calls.router.loop)

    def circumstances(self) -> tuple[()]:
        """Return nothing: the host runs no orchestrator, so its calls carry no circumstances."""
        return ()


async def _take(items: AsyncGenerator[Any, None], in_turn: asyncio.Lock) -> tuple[Any, ...]:
    """Return the next item; nothing after the last."""
    async with in_turn:
        async for item in items:
            return (item,)
    return ()


async def _close(items: AsyncGenerator[Any, None], in_turn: asyncio.Lock) -> None:
    async with in_turn:
        await items.aclose()
