"""Calls on their way through the host: what a worker asked for, and what is asked of a worker for it.

A call knows in whose service it is made, so that the chain of calls that wait for each other can
be followed. What becomes of it when it ends is the switch's to decide.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Protocol

from paddock.rpc.channel import OpenCall
from paddock.rpc.handle import Encoded, Handle
from paddock.rpc.peer import Peer
from paddock_sdk.protocol import Frame


class Switch(Protocol):
    """What calls report to."""

    loop: asyncio.AbstractEventLoop

    def on_forward_end(self, forward: Forward, frame: Frame | None) -> None: ...

    def on_forward_item(self, forward: Forward, frame: Frame) -> None: ...

    def on_overdue(self, call: RoutedCall) -> None: ...

    def item_came(self, call: RoutedCall) -> None: ...

    def time_stands_again(self, call: RoutedCall) -> None: ...


class IncomingCall:
    """A worker's request that has not been answered."""

    __slots__ = ("blocks", "cause", "credited", "depth", "id", "peer", "served_by", "task")

    def __init__(self, peer: Peer, id: int, cause: RoutedCall | None, blocks: bool) -> None:
        self.peer = peer
        self.id = id
        self.cause = cause  # the call in whose service the worker makes this one
        self.blocks = blocks  # the worker's loop stands still until the answer
        self.depth: int = cause.origin.depth + 1 if cause is not None and cause.origin is not None else 0
        self.served_by: Forward | None = None
        self.credited: asyncio.Event | None = None  # set when a stream that the host itself serves may go on
        self.task: asyncio.Task[None] | None = None


current: contextvars.ContextVar[IncomingCall | None] = contextvars.ContextVar("paddock_incoming", default=None)
"""The worker's request that the host's current code serves."""


class RoutedCall(OpenCall):
    """A call of a worker's object, with the request it is made for, if any."""

    __slots__ = ("__weakref__", "credit", "handle", "message", "method", "origin", "owner", "runs_on")

    def __init__(self, origin: IncomingCall | None, handle: Handle, method: int, message: Encoded) -> None:
        super().__init__()
        self.origin = origin
        self.handle = handle
        self.owner = handle.owner  # whom the call was made of; the handle may come to stand for a later life's object
        self.credit = 0  # items its stream may still send
        self.runs_on: RoutedCall | None = None  # the owner's own call that waits for this one: its time runs on
        self.method = method
        self.message = message


class Forward(RoutedCall):
    """One worker's call of another worker's object."""

    __slots__ = ("early_credit", "switch")

    def __init__(self, switch: Switch, origin: IncomingCall, handle: Handle, method: int, message: Encoded) -> None:
        super().__init__(origin, handle, method, message)
        self.switch = switch
        self.early_credit = 0  # given before the call could be made

    def on_end(self, frame: Frame | None) -> None:
        self.switch.time_stands_again(self)
        self.switch.on_forward_end(self, frame)

    def on_item(self, frame: Frame) -> None:
        self.switch.item_came(self)
        self.switch.on_forward_item(self, frame)

    def on_overdue(self) -> None:
        self.switch.on_overdue(self)


class HostCall(RoutedCall):
    """A call that the host itself makes."""

    __slots__ = ("future", "switch")

    def __init__(
        self, switch: Switch, origin: IncomingCall | None, handle: Handle, method: int, message: Encoded
    ) -> None:
        super().__init__(origin, handle, method, message)
        self.switch = switch
        self.future: asyncio.Future[Frame | None] = switch.loop.create_future()

    def on_end(self, frame: Frame | None) -> None:
        self.switch.time_stands_again(self)
        if not self.future.done():
            self.future.set_result(frame)

    def on_overdue(self) -> None:
        self.switch.on_overdue(self)


class HostStream(HostCall):
    """A stream that the host itself reads: its items, then its end.

    What an item refers to is held from when it comes, so that what is never read is let go.
    """

    __slots__ = ("said",)

    def __init__(
        self, switch: Switch, origin: IncomingCall | None, handle: Handle, method: int, message: Encoded
    ) -> None:
        super().__init__(switch, origin, handle, method, message)
        self.said: asyncio.Queue[Encoded | Frame | None] = asyncio.Queue()

    def on_item(self, frame: Frame) -> None:
        self.switch.item_came(self)
        self.said.put_nowait(Encoded(frame.body, self.owner.receive(frame.handles) if frame.handles else ()))

    def on_end(self, frame: Frame | None) -> None:
        self.said.put_nowait(frame)
