"""A function that a module has registered, as the host calls it: with no more rights than the module has itself.

The host may call anything. So a module that registers another module's function must not get it called where it could
not call it itself. The module's own functions are simply called; for any other, a `check` is made before each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from paddock.rpc import fan_in
from paddock.rpc.calls import IncomingCall, current
from paddock.rpc.host_calls import DirectCall, HostCall, HostCalls
from paddock.rpc.peer import AnyHandle, Encoded, Handle
from paddock.rpc.router import Router
from paddock_sdk.kernel.settle import settled

Check = Callable[[], None]
"""Raises if the module that registered the function may not call it now."""


class RegisteredFunction:
    """One function, of a worker or of the application, that the module `registered_by` registered.

    With `check`, it is not that module's own.
    """

    def __init__(
        self, host_calls: HostCalls, handle: AnyHandle, registered_by: str, check: Check | None = None
    ) -> None:
        codec = host_calls.marshaller.codec
        described = handle.description(codec) if isinstance(handle, Handle) else handle.description
        self.handle = handle
        self.registered_by = registered_by
        self._method = described.number_of("__call__")
        self._host_calls = host_calls
        self._check = check

    @property
    def is_callable(self) -> bool:
        return self._method is not None

    @property
    def is_open(self) -> bool:
        """Whether its owner lives."""
        return not isinstance(self.handle, Handle) or self.handle.owner.is_open

    def begin(
        self, origin: IncomingCall, message: Encoded, on_ended: Callable[[DirectCall], None]
    ) -> DirectCall | None:
        """Send a call to its owner; None where that takes a check, or waiting for its owner.

        Raises:
            Exception: as `HostCalls.begin`.
        """
        handle, method = self.handle, self._method
        if method is None or self._check is not None or not isinstance(handle, Handle):
            return None
        return self._host_calls.begin_directly(origin, handle, method, message, on_ended)

    def call(self, message: Encoded, begun: HostCall | None = None) -> Coroutine[Any, Any, Encoded]:
        """Call it, and return the answer undecoded; a dead owner is started again for that.

        A call that was `begun` before is waited for.

        Raises:
            TypeError: it cannot be called.
            CallRefusedError: the module that registered it may not call it any more.
            Exception: its own, or the one for its owner's death.
        """
        handle, method = self.handle, self._allowed()
        if isinstance(handle, Handle):
            return self._host_calls.call(handle, method, message, begun)
        return self._host_call(message)

    def call_now(self, message: Encoded, *, is_guarded: bool = True) -> Coroutine[Any, Any, Encoded]:
        """Do what `call` does, but in this life of its owner only; the gate of another module always holds the call."""
        handle, method = self.handle, self._allowed()
        if isinstance(handle, Handle):
            return self._host_calls.call_now(handle, method, message, is_guarded=is_guarded or self._check is not None)
        return self._host_call(message)

    def _allowed(self) -> int:
        if self._method is None:
            raise TypeError("what was registered cannot be called")
        if self._check is not None:
            self._check()
        return self._method

    async def _host_call(self, message: Encoded) -> Encoded:
        """Call an object that the application shared, with the answer that the module would get."""
        assert not isinstance(self.handle, Handle)  # there is no third sort
        function: Any = self.handle.value
        args, kwargs = self._host_calls.marshaller.decode(message)
        answer = self._host_calls.marshaller.encode(await settled(function(*args, **kwargs)))
        if (call := current.get()) is not None:
            call.count(answer.body)
        return answer


class Contributor:
    """Asks a module's function; objects that are not the module's to give are replaced by their names."""

    def __init__(self, router: Router, function: RegisteredFunction) -> None:
        self._router = router
        self._function = function
        router.marshaller.stand_for(self, function.handle)

    def __call__(self) -> Any:
        """Return an awaitable, or on another thread than the session's the contribution itself."""
        asking = self._contribution()
        if self._router.in_loop_thread:
            return asking
        return asyncio.run_coroutine_threadsafe(asking, self._router.loop).result()

    async def _contribution(self) -> Any:
        marshaller = self._router.marshaller
        gathered, name = fan_in.current.get(), self._function.registered_by
        if gathered is not None and not gathered.has_room_for(name):
            return None
        answer = await self._function.call(marshaller.encode([[], {}]))
        if gathered is not None and not gathered.admits(name, answer.body):
            return None
        return marshaller.decode_named(answer, self._is_given)

    def _is_given(self, contributed: Handle) -> bool:
        """Whether a worker's object is there for the requester: a mounted one is, which takes a right of their own."""
        function = self._function.handle
        if not isinstance(function, Handle):
            return False
        giver = function.owner
        if contributed.owner is giver or contributed.mounted is not None:
            return True
        return giver.may_give(contributed, giver)
