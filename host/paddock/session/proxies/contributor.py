"""A contributor that a module registered, as the session asks it for its contribution."""

from __future__ import annotations

import asyncio
from typing import Any

from paddock.rpc import fan_in
from paddock.rpc.peer import Handle
from paddock.rpc.router import Router
from paddock.session.proxies.function import RegisteredFunction


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
