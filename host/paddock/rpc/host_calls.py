"""Call workers' objects for the host itself, and read the answers in the service of the request that it serves.

Each call ends exactly once: with the answer, with what the callee raised, or with what the `FailurePolicy` makes of its
owner's death. `call` and `call_value` start an owner again and repeat the call; the others call one life of it only. A
call that is cancelled, and a stream that is left early, are given up: the owner is asked to end them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final

from anyio import CancelScope

from paddock.rpc.calls import (
    STREAM_WINDOW,
    DirectCall,
    HostCall,
    HostStream,
    IncomingCall,
    RoutedCall,
    ScopedCall,
    current,
)
from paddock.rpc.peer import Encoded, Handle, Peer
from paddock.rpc.router import Router
from paddock_sdk.contract.boundary_errors import ModuleGoneError
from paddock_sdk.protocol import Frame, Kind, RemoteProtocolError

_LAST_TRY: Final = 1 << 16  # of a call that is not to be made again, whatever its owner's kind
_RESPONSE: Final = int(Kind.RESPONSE)


class HostCalls:
    """The calls that the host makes on its own; the router puts them on their way."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.marshaller = router.marshaller

    def call(
        self, handle: Handle, method: int, message: Encoded, begun: HostCall | None = None
    ) -> Coroutine[Any, Any, Encoded]:
        """Call a worker's object, and return the answer undecoded; what was `begun` before is waited for.

        Raises:
            Exception: what the callee raised, or what its death amounts to for its kind.
        """
        return self._exchange(current.get(), handle, method, message, begun=begun)

    def check_brought(self, handle: Handle) -> None:
        """Refuse the application to call, in the service of a module, what that module brought without a right to it.

        Raises:
            CallRefusedError: the module may not call it, so nothing calls it for the module.
        """
        origin = current.get()
        if origin is None or origin.brought.get(handle, True) or origin.peer.may_call_mounted(handle):
            return
        raise self.router.host_methods.refuse(origin.peer, handle)

    def begin(self, handle: Handle, method: int, message: Encoded) -> HostCall | None:
        """Put a call of a worker's object on its wire at once; None if its owner does not take calls now.

        Raises:
            DeadlockError: the owner stands still waiting for this very call.
            AttributeError: there is no such member.
            LocalProtocolError: the message is too large.
            OverLimitError: what it tells is too much.
        """
        if not handle.owner.takes_calls:
            return None
        routed = HostCall(self.router, current.get(), handle, method, message)
        self.router.start_admitted(routed)
        return routed

    def begin_directly(
        self,
        origin: IncomingCall,
        handle: Handle,
        method: int,
        message: Encoded,
        on_ended: Callable[[DirectCall], None],
    ) -> DirectCall | None:
        """Do what `begin` does in the service of a worker's request, with an answer that is acted on at once."""
        if not handle.owner.takes_calls:
            return None
        routed = DirectCall(self.router, origin, handle, method, message, on_ended)
        self.router.start_admitted(routed)
        return routed

    async def call_value(self, handle: Handle, method: int, message: Encoded, begun: HostCall | None = None) -> Any:
        """Call a worker's object, and return the answer's value; an answer that has none ends the worker.

        What was `begun` before is waited for.

        Raises:
            Exception: as `call`.
        """
        answer = await self._exchange(current.get(), handle, method, message, begun=begun)
        try:
            return self.marshaller.decode(answer)
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
                if not handle.owner.takes_calls:
                    instead = await self.router.failure_policy.revive(handle, self.router.method_name(routed))
                    if instead is not None:
                        return instead
                self.router.start_admitted(routed)
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

    async def call_now(self, handle: Handle, method: int, message: Encoded) -> Encoded:
        """Call as `call` does, but of this life of the owner only, and unobserved.

        Raises:
            ModuleGoneError: the owner is gone, or went before it answered.
        """
        owner = handle.owner
        if not owner.is_open:
            raise ModuleGoneError(f"module `{owner.name}` is gone")
        routed = HostCall(self.router, current.get(), handle, method, message)
        self.router.start(routed)
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
                item = await routed.said.get()
                if item is None:
                    raise ModuleGoneError(f"module `{owner.name}` ended in the middle of a stream")
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, Frame):
                    if item.kind != _RESPONSE:
                        raise self.marshaller.decode_error(item.body)
                    return
                taken += 1
                if taken == STREAM_WINDOW // 2:
                    self.router.pass_credit(routed, taken)
                    taken = 0
                yield item
        finally:
            self.router.give_up(routed)

    async def _end_of(self, routed: HostCall) -> Encoded | None:
        """Wait for the answer, None when the worker went before it; raise what the callee raised."""
        try:
            said = await routed.future
        except asyncio.CancelledError:
            self.router.give_up(routed)
            raise
        if isinstance(said, Frame):
            raise self.marshaller.decode_error(said.body)
        return said

    async def ask(self, peer: Peer, method: int, message: Encoded, within: CancelScope | None = None) -> Encoded:
        """Call one of the worker runtime's own methods; the time of `within` stands while the worker waits for others.

        Raises:
            ModuleGoneError: the worker is gone.
        """
        endpoint = Handle(peer, 0, b"")
        origin = current.get()
        if within is None:
            routed = HostCall(self.router, origin, endpoint, method, message)
        else:
            routed = ScopedCall(self.router, origin, endpoint, method, message, within)
        peer.channel.request(routed, 0, method, message.body, peer.send(message.handles))
        answer = await self._end_of(routed)
        if answer is None:
            raise ModuleGoneError(f"module `{peer.name}` ended before it answered")
        return answer


class StandInCaller:
    """The way from a stand-in in the host to its object, from any thread of the application."""

    __slots__ = ("_handle", "_host_calls")

    def __init__(self, host_calls: HostCalls, handle: Handle) -> None:
        self._host_calls = host_calls
        self._handle = handle

    async def call(self, target: int, method: int, value: object, *, in_place: bool = False) -> Any:
        calls = self._host_calls
        if not calls.router.is_at_hand:
            return await asyncio.wrap_future(self._from_thread(method, value))
        calls.check_brought(self._handle)
        message = calls.marshaller.encode(value, share=True)  # the application's own call, with what it means to pass
        return await calls.call_value(self._handle, method, message)

    def call_sync(self, target: int, method: int, value: object, *, in_place: bool = True) -> Any:
        """Call a plain function: what it returns on another thread, something to await on the session's loop.

        The host never stands still. The call is on its way all the same, before anything that is asked for later.
        """
        calls = self._host_calls
        if not calls.router.is_at_hand:
            return self._from_thread(method, value).result()
        calls.check_brought(self._handle)
        message = calls.marshaller.encode(value, share=True)
        begun = calls.begin(self._handle, method, message)
        return asyncio.ensure_future(calls.call_value(self._handle, method, message, begun))

    def _from_thread(self, method: int, value: object) -> concurrent.futures.Future[Any]:
        return asyncio.run_coroutine_threadsafe(self.call(0, method, value), self._host_calls.router.loop)

    async def stream(self, target: int, method: int, value: object) -> AsyncGenerator[Any, None]:
        calls = self._host_calls
        calls.check_brought(self._handle)
        items = calls.stream(self._handle, method, calls.marshaller.encode(value, share=True))
        async with contextlib.aclosing(items):
            async for item in items:
                yield calls.marshaller.decode(item)

    def circumstances(self) -> tuple[()]:
        """The host runs no orchestrator: nothing goes along with its calls."""
        return ()
