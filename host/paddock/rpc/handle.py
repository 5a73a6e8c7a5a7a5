"""What the host knows of an object that some process handed out.

A handle is owned by one peer, or by the host itself. It lives as long as the host or any worker
holds it; when the last holder lets go, its owner is told. Descriptions are read once, on use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.description import Description, decode_description

if TYPE_CHECKING:
    from paddock.rpc.peer import Peer


Place = tuple[str, str | None]
"""The point and name at which the session has something mounted: reaching it there takes a right of its own."""


class Count:
    """How often a worker handed out one object, which is what it is told when the host lets go."""

    __slots__ = ("described", "holders", "times")

    def __init__(self, described: bytes) -> None:
        self.described = described
        self.holders = 0  # handles that stand for the object; two while one is rebound
        self.times = 0


class Handle:
    """An object of a worker, by its owner and the number the owner gave it."""

    __slots__ = (
        "__weakref__",
        "_parsed",
        "admit",
        "answer_max",
        "described",
        "mounted",
        "object_id",
        "on_success",
        "owner",
        "proxy",
        "received",
        "release",
    )

    def __init__(self, owner: Peer, object_id: int, described: bytes) -> None:
        self.owner = owner
        self.object_id = object_id
        self.described = described
        self.received = Count(described)
        self.mounted: Place | None = None
        self.proxy: Callable[[], object | None] | None = None  # the host's stand-in for it, weakly
        self.admit: Callable[[str, Encoded, Peer | None], None] | None = None  # asked before a call, by whom
        self.answer_max: Callable[[], int] | None = None  # what memory an answer to another module may take
        self.on_success: Callable[[str, Encoded], None] | None = None  # told of each call that ended well
        self.release: Callable[[Encoded], object] | None = None  # told of each call that was admitted and is over
        self._parsed: Description | None = None

    def description(self, codec: Codec) -> Description:
        """Return the description, read on first use.

        Raises:
            RemoteProtocolError: the owner sent something else.
        """
        if self._parsed is None:
            self._parsed = decode_description(self.described, codec)
        return self._parsed

    def redescribe(self, described: bytes) -> None:
        """Take a newer description from the owner."""
        self.described = self.received.described = described
        self._parsed = None

    def rebind(self, successor: Handle) -> None:
        """Let this handle stand for an object of the owner's next life."""
        self.owner, self.object_id, self.received = successor.owner, successor.object_id, successor.received
        self.redescribe(successor.described)
        self.owner.adopt(self)


class HostObject:
    """An object of the host or its application that workers may hold."""

    __slots__ = ("__weakref__", "described", "description", "mounted", "value")

    def __init__(self, value: object, description: Description, described: bytes) -> None:
        self.value = value
        self.description = description
        self.described = described
        self.mounted: Place | None = None


AnyHandle = Handle | HostObject


class Encoded(NamedTuple):
    """A body with the handles it refers to: a message bound for no worker in particular.

    A tuple, because two are made for every call and a frozen dataclass takes twice the time.
    """

    body: bytes | bytearray | memoryview
    handles: tuple[AnyHandle, ...] = ()
