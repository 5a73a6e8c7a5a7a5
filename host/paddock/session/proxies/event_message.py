"""The message of an event to handlers in workers, and the answer that none of them changed it: packed once for both.

A small message is put together around data that is packed already, and has the same bytes as if the whole were encoded.
A message that is larger, or might exceed a cap together with its frame, is encoded as a whole.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgpack

from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol.caps import Ext

_EVENTS: Final = 256  # names that are kept packed; modules may make up more
_LEVELS: Final = 3  # levels around the data in the answer; one less in the message
_MESSAGE: Final = b"\x92\x92"  # [[event, data], {}]: an array of two, the first of which is one of two
_HEAD: Final = 1024  # bytes of a message, in which every event's name has room
_NO_KEYWORDS: Final = b"\x80"
_MODEL: Final = bytes((Ext.MODEL,))
_UNCHANGED: Final = msgpack.packb(["HookResult", {"action": "continue", "data": None}])[:-1]  # as far as the data


def event_message(marshaller: Marshaller, event: str, payload: Payload) -> Encoded:
    """Return the arguments of every handler of an event."""
    message = payload.cache.get("message")
    if isinstance(message, Encoded):
        return message
    data = marshaller.codec.encode_shallow(payload.shared, _LEVELS)
    if data is not None and event.isascii():
        payload.cache["data"] = data
        message = Encoded(b"".join((_MESSAGE, _packed(event), data, _NO_KEYWORDS)))
    else:
        message = marshaller.encode([[event, payload.shared], {}])
    payload.cache["message"] = message
    return message


def event_of(message: Encoded) -> str | None:
    """Return the event of a message to a handler; None if it is another message: modules may call it as well."""
    head = bytes(message.body[:_HEAD])
    if not head.startswith(_MESSAGE):
        return None
    unpacker = msgpack.Unpacker()
    unpacker.feed(head[len(_MESSAGE) :])
    try:
        return str(unpacker.unpack())
    except (ValueError, msgpack.UnpackException):
        return None


def unchanged(marshaller: Marshaller, payload: Payload) -> Encoded:
    """Return the answer to an event whose handlers let it pass unchanged."""
    data = payload.cache.get("data")
    if not isinstance(data, bytes) or not payload.is_mapping:
        return marshaller.encode(HookResult(action="continue", data=payload.shared if payload.is_mapping else {}))
    size = len(_UNCHANGED) + len(data)
    head = bytes((0xC7, size)) if size <= 0xFF else b"\xc8" + size.to_bytes(2, "big")  # of an extension
    return Encoded(b"".join((head, _MODEL, _UNCHANGED, data)))


@lru_cache(maxsize=_EVENTS)
def _packed(event: str) -> bytes:
    packed: bytes = msgpack.packb(event)
    return packed
