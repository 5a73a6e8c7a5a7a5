"""A function that a module has registered, as the host calls it: with no more right than the module has itself.

The host may call anything, so whoever registers another's function must not be able to have called what it could not
call itself. What is the module's own is simply called; for all else a `check` is asked before each call, and what the
host reads of the answers is charged to whoever registered it: who answers has not asked for that.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from paddock.rpc.calls import Bill
from paddock.rpc.handle import AnyHandle, Encoded, Handle
from paddock.rpc.peer import Peer
from paddock.rpc.router import Router
from paddock_sdk.kernel.settle import settled
from paddock_sdk.protocol import OverBudgetError
from paddock_sdk.protocol.frames import Buffer

Check = Callable[[], None]
"""Raises if whoever registered the function may not call it now."""

Given = Callable[[], Buffer | None]
"""Tells what of a large answer was only given to who answers, and is not to be charged for."""


class Registrant(Protocol):
    """The module that registered a function, through all its lives."""

    @property
    def name(self) -> str: ...

    @property
    def peer(self) -> Peer: ...


class RegisteredFunction:
    """One function, of a worker or of the application; with `check`, it is not the own one of who registered it."""

    def __init__(self, router: Router, handle: AnyHandle, registrant: Registrant, check: Check | None = None) -> None:
        described = handle.description(router.values.codec) if isinstance(handle, Handle) else handle.description
        self.handle = handle
        self.is_own = check is None
        self._method = described.number_of("__call__")
        self._router = router
        self._registrant = registrant
        self._check = check

    @property
    def registered_by(self) -> str:
        """Return the name of the module that registered it."""
        return self._registrant.name

    @property
    def is_callable(self) -> bool:
        return self._method is not None

    @property
    def is_open(self) -> bool:
        """Whether its owner lives."""
        return not isinstance(self.handle, Handle) or self.handle.owner.is_open

    def call(self, message: Encoded, given: Given | None = None) -> Coroutine[Any, Any, Encoded]:
        """Call it, and return the answer undecoded; a dead owner is brought back for that.

        Raises:
            TypeError: it cannot be called.
            CallRefusedError: whoever registered it may not call it any more.
            Exception: what it raised, or what its owner's death amounts to.
        """
        handle, method = self.handle, self._allowed()
        if isinstance(handle, Handle):
            return self._router.call(handle, method, message, self._bill(given))
        return self._host_call(message)

    def call_now(self, message: Encoded) -> Coroutine[Any, Any, Encoded]:
        """Do what `call` does, but of this life of its owner only."""
        handle, method = self.handle, self._allowed()
        if isinstance(handle, Handle):
            return self._router.call_now(handle, method, message, self._bill(None))
        return self._host_call(message)

    def _allowed(self) -> int:
        if self._method is None:
            raise TypeError("what was registered cannot be called")
        if self._check is not None:
            self._check()
        return self._method

    def _bill(self, given: Given | None) -> Bill | None:
        return None if self.is_own and given is None else partial(self._charge, given)

    def _charge(self, given: Given | None, owner: Peer | None, answer: Buffer) -> None:
        payer = owner if self.is_own and owner is not None else self._registrant.peer
        try:
            payer.charge(answer, given)
        except OverBudgetError as exc:
            if payer is owner:
                raise
            self._router.end_for(payer, exc)

    async def _host_call(self, message: Encoded) -> Encoded:
        """Call what the application shared, with the answer that the module would get."""
        assert not isinstance(self.handle, Handle)  # there is no third sort
        function: Any = self.handle.value
        args, kwargs = self._router.values.decode(message)
        answer = self._router.values.encode(await settled(function(*args, **kwargs)))
        self._charge(None, None, answer.body)
        return answer
