"""Have modules compute anew what their objects say of themselves, where that may have changed.

A tool's description may be made of the session's configuration or state each time it is read. Who reads it elsewhere
reads what was said last, so before a turn and before a request to a provider is put together every module that computes
something, and was told of a change since, is asked to say it again. One that does not answer at once is read as it was.
"""

from __future__ import annotations

import asyncio
from typing import Final

import anyio

from paddock.rpc.host_calls import HostCalls
from paddock.session.state.mirrors import Mirrors
from paddock_sdk.protocol.methods import WorkerMethod

_SECONDS: Final = 1.0  # what one module can hold up a turn by


async def describe_anew(host_calls: HostCalls, mirrors: Mirrors) -> None:
    """Return when what is shown of mounted objects is as current as it can be had in a moment."""
    asked = [peer for peer in mirrors.take_stale() if peer.takes_calls]
    if not asked:
        return
    nothing = host_calls.marshaller.encode([])
    with anyio.move_on_after(_SECONDS):
        await asyncio.gather(
            *(host_calls.ask(peer, WorkerMethod.DESCRIBE_ANEW, nothing) for peer in asked),
            return_exceptions=True,
        )
