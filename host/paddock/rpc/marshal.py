"""Host values to messages and back.

A message refers to objects by handles, independent of their owners; a value has stand-ins in their places. The same
handle always gives the same stand-in, and a stand-in turns back into its handle, so an object of a worker that passes
through the application arrives as itself. Decoding goes through the contract's own validation; anything else in a body
is a `RemoteProtocolError`.

Where the host only reads a value and does not call it, it decodes it with names in the places of objects. An object of
the application would show all of its contents when it is written down; modules see no more of it than its public
surface.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import weakref
from collections.abc import Callable, Sequence
from types import AsyncGeneratorType, CoroutineType, GeneratorType, ModuleType, SimpleNamespace
from typing import Any, Final

from paddock.rpc.peer import AnyHandle, Encoded, Handle, HostObject
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.kernel.live_values import FunctionName, live_kind
from paddock_sdk.protocol import LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.body import NO_OBJECT, Codec, EncodeError
from paddock_sdk.protocol.describing import describe, is_function
from paddock_sdk.protocol.description import Description, encode_description
from paddock_sdk.protocol.frames import Buffer
from paddock_sdk.protocol.remote_object import refresh, stand_in

# What the host runs on: a holder of one of these controls the host.
_HOST_MEANS = (
    asyncio.Future,
    asyncio.AbstractEventLoop,
    asyncio.Handle,
    CoroutineType,
    GeneratorType,
    ModuleType,
    type,
)
# A module or its author can change nothing about a failure in here.
_HOST: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ERROR_TEXT = 4000  # characters of an error that could not itself be encoded


class Marshaller:
    """Encode and decode for one session; on the session's loop only.

    Objects of the classes `never_shared` are the host's own: no module gets one, even if the application passes it on.
    """

    def __init__(self, never_shared: tuple[type, ...] = ()) -> None:
        self.codec = Codec(ContractVocabulary(hidden=(_HOST,)))
        self._never_shared = never_shared
        self._handles: weakref.WeakKeyDictionary[Any, AnyHandle] = weakref.WeakKeyDictionary()
        # Each holds its value, so that the id stays its own; its receivers hold it.
        self._host_objects: weakref.WeakValueDictionary[int, HostObject] = weakref.WeakValueDictionary()

    def encode(self, value: object, *, share: bool = False) -> Encoded:
        """Return the message for `value`.

        An object of the host goes along only if it was shared before, or is shared now with `share`. Any holder may
        call all of its public members, so sharing has to be meant.

        Raises:
            EncodeError: something in it has no form on the wire, or was never meant to be shared.
        """
        body, objects = self.codec.encode(value, live_objects=True if share else self._goes_live)
        return Encoded(body, tuple(self._handle_of(item, share) for item in objects) if objects else ())

    def _goes_live(self, value: object) -> bool:
        """Whether an object crosses as itself; data of the application's own does not, unless it was shared."""
        is_data = dataclasses.is_dataclass(value) or type(value) is SimpleNamespace
        return not is_data or id(value) in self._host_objects

    def show(self, value: object, type_name: str) -> HostObject:
        """Let workers hold an object of the host and pass it back, without access to its members.

        The caller keeps the returned value as long as they may.
        """
        description = Description(type_name, (), {})
        held = HostObject(value, description, encode_description(description, self.codec))
        return self._host_objects.setdefault(id(value), held)

    def decode(self, message: Encoded) -> Any:
        """Return the value of a message.

        Raises:
            RemoteProtocolError: it has none.
        """
        return self._decode(message.body, [self.object_of(handle) for handle in message.handles])

    def decode_handles(self, message: Encoded) -> Any:
        """Return the value of a message with handles in the places of objects.

        Raises:
            RemoteProtocolError: it has none.
        """
        return self._decode(message.body, message.handles)

    def _decode(self, body: Buffer, objects: Sequence[object]) -> Any:
        try:
            return self.codec.decode(body, objects)
        except RemoteProtocolError as exc:
            if not objects or exc.__cause__ is None:
                raise
            # The error of a model or a class about a refused value may quote an object of the application.
            refused, kind = type(exc), type(exc.__cause__).__name__
        raise refused(f"a value that is refused: {kind}, over what may be an object of the host")

    def decode_named(self, message: Encoded, keeps: Callable[[Handle], bool] | None = None) -> Any:
        """Return the value of a message with the name of its type in the place of each object.

        Workers' objects that it `keeps` stay; an object of the host never does.

        Raises:
            RemoteProtocolError: it has none.
        """
        objects = [
            self.object_of(handle)
            if keeps is not None and isinstance(handle, Handle) and keeps(handle)
            else self._name_of(handle)
            for handle in message.handles
        ]
        return self._decode(message.body, objects)

    def named(self, value: object) -> Any:
        """Return a copy of a decoded value with names in the places of objects.

        Raises:
            EncodeError: something in it has no form on the wire.
        """
        return self.decode_named(self.encode(value))

    def _name_of(self, handle: AnyHandle) -> str:
        description = handle.description if isinstance(handle, HostObject) else handle.description(self.codec)
        name = f"<{description.type_name}>"
        return FunctionName(name) if description.is_function else name

    def encode_error(self, error: BaseException) -> bytes:
        """Return the body of a failure."""
        try:
            return self.codec.encode(error, live_objects=False)[0]
        except LocalProtocolError:
            return self.codec.encode(RuntimeError(repr(error)[:_ERROR_TEXT]), live_objects=False)[0]

    def decode_error(self, body: Buffer) -> BaseException:
        """Return the exception in the body of a failure; an invalid body is an exception as well."""
        try:
            error = self.codec.decode(body)
        except RemoteProtocolError as exc:
            return exc
        if isinstance(error, asyncio.CancelledError):
            # Cancelled there, or raised by hand: here it would look like the cancellation of the awaiting task.
            failure = RuntimeError("the call was cancelled where it ran")
            failure.__dict__.update(vars(error))
            return failure
        return error if isinstance(error, BaseException) else RuntimeError("a failure of no known form")

    def handle_of(self, value: object) -> AnyHandle:
        """Return the handle that stands for `value`, an object that is meant to be shared."""
        return self._handle_of(value, share=True)

    def _handle_of(self, value: object, share: bool) -> AnyHandle:
        try:
            known = self._handles.get(value)
        except TypeError:
            known = None
        if known is not None:
            return known
        held = self._host_objects.get(id(value))
        if held is None:
            if not share or isinstance(value, (*_HOST_MEANS, *self._never_shared)) or _is_tied(value):
                raise EncodeError(f"{_called(value)} of the host is not shared")
            description = describe(value)
            held = HostObject(value, description, encode_description(description, self.codec))
            self._host_objects[id(value)] = held
        return held

    def object_of(self, handle: AnyHandle) -> object:
        """Return the host's stand-in for a worker's object, or its own object itself."""
        if isinstance(handle, HostObject):
            return handle.value
        known = handle.proxy() if handle.proxy is not None else None
        if known is not None:
            return known
        description = handle.description(self.codec)
        instance = stand_in(description, 0, handle.owner.caller_of(handle))
        self.bind(instance, handle)
        return instance

    def redescribe(self, handle: Handle, described: bytes) -> Description:
        """Take a newer description of a worker's object, show its data in the host's stand-in, and return the older.

        Raises:
            RemoteProtocolError: it is no description.
        """
        before = handle.description(self.codec)
        handle.redescribe(described)
        description = handle.description(self.codec)
        known = handle.proxy() if handle.proxy is not None else None
        if known is not None:
            refresh(known, description, before)
        return before

    def bind(self, instance: object, handle: Handle) -> None:
        """Let `instance` be the host's stand-in for `handle`."""
        handle.note_stand_in(instance)
        self._handles[instance] = handle

    def stand_for(self, instance: object, handle: AnyHandle) -> None:
        """Send `instance` to workers as `handle`, which itself has another stand-in here."""
        self._handles[instance] = handle


def data_of(message: Encoded, codec: Codec) -> Any:
    """Return the value of a message of data alone.

    Raises:
        RemoteProtocolError: it has none.
        UnfitValueError: it refers to an object.
    """
    return codec.decode(message.body, (NO_OBJECT,) * len(message.handles))


def _is_tied(value: object) -> bool:
    """Whether a value only works in this process, like an open file or a lock."""
    return live_kind(value) is not None and not is_function(value) and not isinstance(value, AsyncGeneratorType)


def _called(value: object) -> str:
    """Return a value's name for people, with the name of its class."""
    kind = live_kind(value)
    name = type(value).__qualname__
    return f"an object ({name})" if kind is None else f"{kind.name} ({name})"
