"""Functions that modules want to have called: with no more rights than the module has, and within limits.

A module may register any function that it may call itself. A function that is not its own is checked again before each
call, because it may have been lent since and taken back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import anyio

from paddock.errors import CallRefusedError, Denial
from paddock.policy.authority import KEPT
from paddock.rpc.host_calls import HostCalls
from paddock.rpc.peer import AnyHandle, Handle, Peer
from paddock.session.module import HostedModule
from paddock.session.proxies.function import RegisteredFunction

_LATE_SECONDS: Final = 5.0  # for one function that is called at an end; the end must not hang on it

_log = logging.getLogger(__name__)


class ModuleFunctions:
    """Makes the functions of one session's modules, and refuses those that a module may not call."""

    def __init__(self, host_calls: HostCalls, module_of: Callable[[Peer], HostedModule]) -> None:
        self._host_calls = host_calls
        self._module_of = module_of
        self._nothing = host_calls.marshaller.encode([[], {}])
        self._latest = 0

    def number(self) -> int:
        """Return the number of a registration; a second registration of the same thing counts once more."""
        self._latest += 1
        return self._latest

    def of(self, module: HostedModule, handle: AnyHandle) -> RegisteredFunction:
        """Return the function that a module wants to have called: its own, or one that it may call now and later.

        Raises:
            CallRefusedError: it may not call it.
        """
        peer = module.peer
        if module.owns(handle):
            return RegisteredFunction(self._host_calls, handle, module.name)
        may_call = peer.holding(handle)
        if not may_call():
            raise self._refusal(peer, handle)

        def check() -> None:
            if not may_call():
                raise self.refuse(peer, handle)

        return RegisteredFunction(self._host_calls, handle, module.name, check)

    def refuse(self, peer: Peer, handle: AnyHandle) -> CallRefusedError:
        """Note that a worker may not call an object it was shown; return the error for its request."""
        refusal = self._refusal(peer, handle)
        self._module_of(peer).deny(refusal.denial)
        return refusal

    def _refusal(self, peer: Peer, handle: AnyHandle) -> CallRefusedError:
        if handle.mounted is not None and handle.mounted[0] == KEPT:
            reason = "it is for the application, hooks and the orchestrator"
            denial = Denial("call", f"the capability {handle.mounted[1]}", peer.name, reason=reason)
        elif handle.mounted is not None:
            point, name = handle.mounted
            reached = point if name is None else f"{point}:{name}"
            grant = self._module_of(peer).authority.line_for("call", reached if point in ("tools", "state") else point)
            denial = Denial("call", reached, peer.name, grant=grant)
        else:
            whose = f"module {handle.owner.name}" if isinstance(handle, Handle) else "the application"
            reason = "it was only shown, or lent for a call that has ended"
            denial = Denial("call", f"an object of {whose}", peer.name, reason=reason)
        return CallRefusedError(denial)

    async def run_if_alive(self, peer: Peer, function: RegisteredFunction, *, is_guarded: bool = True) -> None:
        """Run a function that `peer` registered, within its time, if that life is not over."""
        if peer.is_open and function.is_open and function.is_callable:
            with anyio.move_on_after(_LATE_SECONDS) as scope:
                await function.call_now(self._nothing, is_guarded=is_guarded)
            if scope.cancelled_caught:
                _log.warning("module `%s` did not finish one function within %g s", peer.name, _LATE_SECONDS)
