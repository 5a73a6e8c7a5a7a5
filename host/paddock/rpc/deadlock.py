"""Who waits for whom: the chain of calls in whose service one is made."""

from __future__ import annotations

from collections.abc import Callable

from paddock.rpc.calls import IncomingCall, RoutedCall
from paddock.rpc.peer import Peer
from paddock_sdk.contract.boundary_errors import DeadlockError


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
            error = DeadlockError(
                f"`{name}` of module `{owner.name}` was called while that module stands still in a synchronous "
                f"call that waits, in the end, for this one: {' → '.join(chain)}; make what `{owner.name}` calls "
                f"in `{chain[1]}` a coroutine function and await it, or make `{name}` a plain one"
            )
            error.chain = chain
            raise error
        call = call.cause.origin if call.cause is not None else None
