"""Answer workers' calls of objects that live in the host: the application's, and those that the host shares itself.

Arguments are decoded here; the host's stand-ins take the places of objects that live in workers. A generator is read as
fast as its reader wants its items, and closed in any case. The caller's right was checked before.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from paddock.rpc.calls import IncomingCall
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded, HostObject
from paddock_sdk.protocol import LocalProtocolError
from paddock_sdk.protocol.describing import member_of
from paddock_sdk.protocol.description import Flavour
from paddock_sdk.protocol.errors import UnfitValueError


class HostObjects:
    """The host's own objects, as workers call them."""

    def __init__(self, marshaller: Marshaller) -> None:
        self._marshaller = marshaller

    def answer(
        self, call: IncomingCall, handle: HostObject, method: int, message: Encoded
    ) -> Coroutine[Any, Any, Encoded]:
        """Return the answer to a call; the items of a stream are sent on the way.

        Raises:
            UnfitValueError: the object has no such member, or its arguments are none.
        """
        members = handle.description.members
        if method >= len(members):
            raise UnfitValueError(f"no member {method}")
        member = members[method]
        match self._marshaller.decode(message):
            case [list() as args, dict() as named, *_]:  # the other circumstances are for tools in workers
                run = functools.partial(_run, handle, member.name, args, named)
            case _:
                raise UnfitValueError(f"the arguments of `{member.name}` are an array and a mapping, in an array")
        if member.flavour is Flavour.STREAM:
            call.begin_stream()
            return self._stream(call, run)
        return self._call(run)

    async def _call(self, run: Callable[[], Any]) -> Encoded:
        result = run()
        if asyncio.iscoroutine(result) or asyncio.isfuture(result):
            result = await result
        return self._marshaller.encode(result, share=isinstance(result, AsyncIterator))

    async def _stream(self, call: IncomingCall, run: Callable[[], Any]) -> Encoded:
        source = run()
        try:
            async for item in source:
                await _send_item(call, self._marshaller.encode(item))
        finally:
            if hasattr(source, "aclose"):
                await source.aclose()
        return self._marshaller.encode(None)


def _run(handle: HostObject, member: str, args: list[Any], named: dict[str, Any]) -> Any:
    function: Any = handle.value if handle.description.is_function else member_of(handle.value, member)
    return function(*args, **named)


async def _send_item(call: IncomingCall, item: Encoded) -> None:
    channel = call.peer.channel
    assert call.credited is not None  # the credit of a stream at its beginning
    if not channel.connection.credit(call.id):
        loop = asyncio.get_running_loop()
        call.idles(loop.time())
        while not channel.connection.credit(call.id):
            call.credited.clear()
            await call.credited.wait()
        call.goes_on(loop.time())
    entries = call.peer.send(item.handles, call.peer.may_reach)
    try:
        channel.write(channel.connection.send_item(call.id, item.body, entries))
    except LocalProtocolError:
        call.peer.take_back(entries)
        raise
