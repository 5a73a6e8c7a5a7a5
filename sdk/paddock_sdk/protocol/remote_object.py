"""Stand-ins in this process for objects that live in another.

A stand-in has exactly the members in its description: coroutine functions where the real ones are, plain functions
where those are, its data as ordinary attributes, and on its class the contents of the real class. So `hasattr`,
`inspect.iscoroutinefunction` and attribute errors answer as the real object would. An attribute set on a stand-in stays
on it, in this process.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Protocol

from paddock_sdk.protocol.description import Description, Flavour, Member

_KEPT_CLASSES: Final = 256
_MAX_KEPT_NAMES: Final = 64  # of one kept class; its parts come from others, and stay


class Caller(Protocol):
    """The way to the object's owner."""

    async def call(self, target: int, method: int, value: object, *, in_place: bool = False) -> Any: ...

    def call_sync(self, target: int, method: int, value: object, *, in_place: bool = True) -> Any: ...

    def stream(self, target: int, method: int, value: object) -> AsyncIterator[Any]: ...

    def circumstances(self) -> Sequence[Any]:
        """Return the data sent with an `execute` beside its arguments: one mapping, or nothing."""


class RemoteObject:
    """The base of every stand-in that has members of its own."""

    _paddock_caller: Caller
    _paddock_id: int
    _paddock_class_data: _ClassData

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in another process>"


class _Computed:
    """Stands on a class for a property; its value is on the object and takes precedence."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> _Computed:
        if instance is None:
            return self
        raise AttributeError(f"'{owner.__name__}' object has no attribute '{self._name}'")


class _ClassData(dict[str, Any]):
    """The class data of one stand-in, held by the stand-in: an unused class is not freed at once."""

    __slots__ = ("__weakref__",)


class _OfClass:
    """Stands on the class of one stand-in for a value of its data."""

    __slots__ = ("_data", "_name")

    def __init__(self, name: str, data: _ClassData) -> None:
        self._name = name
        self._data = weakref.ref(data)

    def __get__(self, instance: object, owner: type) -> Any:
        data = self._data()
        if data is None:
            raise AttributeError(f"type object '{owner.__name__}' has no attribute '{self._name}' any more")
        return data[self._name]


def stand_in(description: Description, object_id: int, caller: Caller) -> Any:
    """Return a new stand-in: a function for a function, else a `RemoteObject`."""
    if description.is_function and description.members:
        holder = _tie(RemoteObject(), object_id, caller)
        return _named(_method(0, description.members[0], holder), description.type_name)
    made_of = description.type_name, description.members, description.properties
    is_small = len(description.members) + len(description.properties) <= _MAX_KEPT_NAMES
    cls = _kept_class(*made_of) if is_small else _new_class(*made_of)
    data = _ClassData(description.class_attributes)
    if data or any(member.is_of_class for member in description.members):
        cls = _class_of_one(cls, description.members, data, object_id, caller)
    instance: RemoteObject = object.__new__(cls)
    if data:
        instance.__dict__["_paddock_class_data"] = data
    _tie(instance, object_id, caller)
    instance.__dict__.update(description.attributes)  # also the class's values, to write into
    return instance


def _tie(instance: RemoteObject, object_id: int, caller: Caller) -> RemoteObject:
    """Give a stand-in the path to its object, under names that its members cannot collide with."""
    instance.__dict__.update(_paddock_caller=caller, _paddock_id=object_id)
    return instance


def refresh(instance: object, description: Description, before: Description | None = None) -> None:
    """Bring the data of a stand-in up to date; with its earlier data, only the changed parts."""
    if not isinstance(instance, RemoteObject):
        return
    known = before.attributes if before is not None else {}
    for name, value in description.attributes.items():
        if name not in known or known[name] != value:
            instance.__dict__[name] = value
    for name in known:
        if name not in description.attributes:
            instance.__dict__.pop(name, None)


def _new_class(type_name: str, members: tuple[Member, ...], properties: frozenset[str]) -> type[RemoteObject]:
    names: dict[str, Any] = {name: _Computed(name) for name in properties}
    names.update((member.name, _method(number, member)) for number, member in enumerate(members))
    if "__anext__" in names:
        names.update(_iterator_methods(names["__anext__"], names.get("aclose")))
    return type(type_name, (RemoteObject,), names)


_kept_class = functools.lru_cache(maxsize=_KEPT_CLASSES)(_new_class)  # made of names alone: data is never kept


def _class_of_one(
    cls: type[RemoteObject], members: tuple[Member, ...], data: _ClassData, object_id: int, caller: Caller
) -> type[RemoteObject]:
    """Return a class for one stand-in only, which is freed with it.

    It has the data of the real class, and its class and static methods know their object, since no caller passes them
    one.
    """
    holder = _tie(RemoteObject(), object_id, caller)
    methods = {
        member.name: staticmethod(_method(number, member, holder))
        for number, member in enumerate(members)
        if member.is_of_class
    }
    return type(cls.__name__, (cls,), {name: _OfClass(name, data) for name in data if name not in vars(cls)} | methods)


def _method(number: int, member: Member, *holder: Any) -> Callable[..., Any]:
    """Return a function that calls a member of its first argument, or of `holder` if that is given."""
    function: Callable[..., Any]
    if member.flavour is Flavour.ASYNC and member.name == "execute":

        async def execute(*args: Any, **kwargs: Any) -> Any:
            one, *given = (*holder, *args)
            caller = one._paddock_caller
            return await caller.call(one._paddock_id, number, [given, kwargs, *caller.circumstances()])

        function = execute
    elif member.name == "__aexit__":

        async def aexit(self: RemoteObject, kind: object, error: BaseException | None, trace: object) -> Any:
            return await self._paddock_caller.call(self._paddock_id, number, [[error], {}])

        function = aexit
    elif member.flavour is Flavour.ASYNC:

        async def call(*args: Any, **kwargs: Any) -> Any:
            one, *given = (*holder, *args)
            return await one._paddock_caller.call(one._paddock_id, number, [given, kwargs])

        function = call
    elif member.flavour is Flavour.STREAM:

        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            one, *given = (*holder, *args)
            items: Any = one._paddock_caller.stream(one._paddock_id, number, [given, kwargs])
            async with contextlib.aclosing(items):
                async for item in items:
                    yield item

        function = stream
    else:

        def call_sync(*args: Any, **kwargs: Any) -> Any:
            one, *given = (*holder, *args)
            return one._paddock_caller.call_sync(one._paddock_id, number, [given, kwargs])

        function = call_sync
    return _named(function, member.name)


def _iterator_methods(stream: Callable[..., Any], close: Callable[..., Any] | None) -> dict[str, Any]:
    """Return the methods of an iterator: one stream of items, for all its readers."""

    def of(iterator: RemoteObject) -> Any:
        if "_paddock_stream" not in iterator.__dict__:
            iterator.__dict__["_paddock_stream"] = stream(iterator)
        return iterator.__dict__["_paddock_stream"]

    def aiter_(self: RemoteObject) -> RemoteObject:
        return self

    async def anext_(self: RemoteObject) -> Any:
        return await anext(of(self))

    methods: dict[str, Any] = {"__aiter__": aiter_, "__anext__": anext_}
    if close is not None:

        async def aclose(self: RemoteObject) -> None:
            if "_paddock_stream" in self.__dict__:
                await of(self).aclose()  # and the owner closes the iterated object
            else:
                await close(self)

        methods["aclose"] = aclose
    return methods


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    return function
