"""Have modules compute their objects' descriptions again, where these may have changed.

A tool may compute its description from the session's configuration or state each time it is read. Other processes read
the latest description that they got. So the host asks modules for new ones before a turn and before a request to a
provider is put together. It asks every module that computes something and was sent a change since. If a module does not
answer at once, its earlier description is used.
"""

from __future__ import annotations

import asyncio
from typing import Final

import anyio

from paddock.rpc.host_calls import HostCalls
from paddock.session.state.mirrors import Mirrors
from paddock_sdk.protocol.methods import WorkerMethod

_SECONDS: Final = 1.0  # the longest delay of a turn by one module


async def describe_anew(host_calls: HostCalls, mirrors: Mirrors) -> None:
    """Return when the descriptions of mounted objects are as current as can be reached in a moment."""
    asked = [peer for peer in mirrors.take_stale() if peer.takes_calls]
    if not asked:
        return
    nothing = host_calls.marshaller.encode([])
    with anyio.move_on_after(_SECONDS):
        await asyncio.gather(
            *(host_calls.ask(peer, WorkerMethod.DESCRIBE_ANEW, nothing) for peer in asked),
            return_exceptions=True,
        )
