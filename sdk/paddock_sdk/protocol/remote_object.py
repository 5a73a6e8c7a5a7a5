"""Stand-ins in this process for objects that live in another.

A stand-in has exactly the members its description names: coroutine functions where the real
ones are, plain functions where those are, its data as ordinary attributes. `hasattr`,
`inspect.iscoroutinefunction` and attribute errors therefore answer as the real object would.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from paddock_sdk.protocol.description import Description, Flavour, Member


class Caller(Protocol):
    """The way to the object's owner."""

    async def call(self, target: int, method: int, value: object, *, in_place: bool = False) -> Any: ...

    def call_sync(self, target: int, method: int, value: object, *, in_place: bool = True) -> Any: ...

    def stream(self, target: int, method: int, value: object) -> AsyncIterator[Any]: ...


class RemoteObject:
    """The base of every stand-in that has members of its own."""

    _paddock_caller: Caller
    _paddock_id: int

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in another process>"


def stand_in(description: Description, object_id: int, caller: Caller) -> Any:
    """Return a new stand-in: a function for a function, else a `RemoteObject`."""
    if description.is_function and description.members:
        return _function(description, object_id, caller)
    instance: RemoteObject = object.__new__(_class_for(description.type_name, description.members))
    instance._paddock_caller = caller
    instance._paddock_id = object_id
    instance.__dict__.update(description.attributes)
    return instance


def refresh(instance: object, description: Description) -> None:
    """Bring the data of a stand-in up to date."""
    if isinstance(instance, RemoteObject):
        instance.__dict__.update(description.attributes)


@functools.lru_cache(maxsize=512)
def _class_for(type_name: str, members: tuple[Member, ...]) -> type[RemoteObject]:
    names = {member.name: _method(number, member) for number, member in enumerate(members)}
    return type(type_name, (RemoteObject,), names)


def _method(number: int, member: Member) -> Callable[..., Any]:
    function: Callable[..., Any]
    if member.flavour is Flavour.ASYNC:

        async def call(self: RemoteObject, *args: Any, **kwargs: Any) -> Any:
            return await self._paddock_caller.call(self._paddock_id, number, [list(args), kwargs])

        function = call
    elif member.flavour is Flavour.STREAM:

        async def stream(self: RemoteObject, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for item in self._paddock_caller.stream(self._paddock_id, number, [list(args), kwargs]):
                yield item

        function = stream
    else:

        def call_sync(self: RemoteObject, *args: Any, **kwargs: Any) -> Any:
            return self._paddock_caller.call_sync(self._paddock_id, number, [list(args), kwargs])

        function = call_sync
    function.__name__ = function.__qualname__ = member.name
    return function


def _function(description: Description, object_id: int, caller: Caller) -> Callable[..., Any]:
    method = _method(0, description.members[0])
    holder = RemoteObject()
    holder._paddock_caller = caller
    holder._paddock_id = object_id
    function: Callable[..., Any]
    if description.members[0].flavour is Flavour.ASYNC:

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await method(holder, *args, **kwargs)

        function = call
    elif description.members[0].flavour is Flavour.STREAM:

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for item in method(holder, *args, **kwargs):
                yield item

        function = stream
    else:

        def call_sync(*args: Any, **kwargs: Any) -> Any:
            return method(holder, *args, **kwargs)

        function = call_sync
    function.__name__ = function.__qualname__ = description.type_name
    return function
