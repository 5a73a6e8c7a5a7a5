"""Stand-ins: what code can find out about them is what it would find out about the real thing."""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from paddock_sdk.protocol.description import Description, Flavour, Member
from paddock_sdk.protocol.remote_object import RemoteObject, refresh, stand_in
from support.rows import each_row

ASYNC, SYNC, STREAM = Flavour.ASYNC, Flavour.SYNC, Flavour.STREAM


class Recorder:
    """Keeps the calls that stand-ins make."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int, Any]] = []
        self.told: list[Any] = []

    async def call(self, target: int, method: int, value: object, *, in_place: bool = False) -> Any:
        self.calls.append(("call", target, method, value))
        return len(self.calls)

    def call_sync(self, target: int, method: int, value: object, *, in_place: bool = True) -> Any:
        self.calls.append(("call_sync", target, method, value))
        return len(self.calls)

    async def stream(self, target: int, method: int, value: object) -> AsyncIterator[Any]:
        self.calls.append(("stream", target, method, value))
        for number in range(3):
            yield number

    def circumstances(self) -> list[Any]:
        return self.told


def thing(caller: Recorder, id: int = 7, _type_name: str = "Thing", **attributes: Any) -> Any:
    members = (Member("work", ASYNC), Member("look", SYNC), Member("items", STREAM))
    return stand_in(Description(_type_name, members, attributes), id, caller)


def function(caller: Recorder, flavour: Flavour) -> Any:
    return stand_in(Description("named", (Member("__call__", flavour),), {}, is_function=True), 8, caller)


def test_members_are_functions_of_their_flavour_under_their_names() -> None:
    stands = thing(Recorder())
    assert inspect.iscoroutinefunction(stands.work) and asyncio.iscoroutinefunction(stands.work)
    assert inspect.isasyncgenfunction(stands.items)
    assert not inspect.iscoroutinefunction(stands.look) and callable(stands.look)
    assert [stands.work.__name__, stands.look.__name__, stands.items.__name__] == ["work", "look", "items"]


def test_what_is_not_described_is_not_there() -> None:
    stands = thing(Recorder(), name="thing")
    assert stands.name == "thing"
    assert not hasattr(stands, "absent") and not hasattr(stands, "execute")
    with pytest.raises(AttributeError, match="'Thing' object has no attribute 'absent'"):
        _ = stands.absent
    assert getattr(stands, "absent", "default") == "default"
    assert not callable(stands)


async def test_calls_name_the_object_and_the_members_number() -> None:
    recorder = Recorder()
    stands = thing(recorder)
    assert await stands.work(1, key=2) == 1
    assert stands.look() == 2
    assert [item async for item in stands.items("x")] == [0, 1, 2]
    assert recorder.calls == [
        ("call", 7, 0, [[1], {"key": 2}]),
        ("call_sync", 7, 1, [[], {}]),
        ("stream", 7, 2, [["x"], {}]),
    ]


async def test_a_function_stands_in_as_a_function_of_its_flavour_and_name() -> None:
    recorder = Recorder()
    asynchronous, plain, stream = (function(recorder, flavour) for flavour in (ASYNC, SYNC, STREAM))
    assert inspect.iscoroutinefunction(asynchronous)
    assert not inspect.iscoroutinefunction(plain)
    assert inspect.isasyncgenfunction(stream)
    assert asynchronous.__name__ == "named"
    assert await asynchronous(1) == 1
    assert plain(2) == 2
    assert [item async for item in stream(3)] == [0, 1, 2]
    assert [(how, target, method) for how, target, method, _ in recorder.calls] == [
        ("call", 8, 0),
        ("call_sync", 8, 0),
        ("stream", 8, 0),
    ]


async def test_an_object_that_can_be_called_is_called_like_one() -> None:
    recorder = Recorder()
    description = Description("Handler", (Member("__call__", ASYNC), Member("close", SYNC)), {"name": "handler"})
    handler = stand_in(description, 9, recorder)
    assert await handler("event") == 1
    assert handler.name == "handler"
    assert recorder.calls == [("call", 9, 0, [["event"], {}])]


def test_stand_ins_of_one_kind_share_a_class_and_different_kinds_do_not() -> None:
    first, second = thing(Recorder(), 1), thing(Recorder(), 2)
    assert type(first) is type(second)
    assert type(first) is not type(thing(Recorder(), _type_name="Other"))
    assert first != second and len({first, second}) == 2


def test_new_data_shows_and_what_module_code_set_itself_stays() -> None:
    stands = thing(Recorder(), description="old", name="thing")
    stands.note = "of the reader's own"
    refresh(stands, Description("Thing", (), {"description": "new"}))
    assert (stands.description, stands.name, stands.note) == ("new", "thing", "of the reader's own")
    refresh(function(Recorder(), SYNC), Description("named", (), {"description": "new"}))


def test_a_stand_ins_attribute_stays_until_its_owner_changes_it() -> None:
    before = Description("Thing", (), {"priority": 100, "description": "old", "gone": 1})
    stands = stand_in(before, 7, Recorder())
    stands.priority = 5
    after = Description("Thing", (), {"priority": 100, "description": "new"})
    refresh(stands, after, before)
    assert (stands.priority, stands.description, hasattr(stands, "gone")) == (5, "new", False)
    refresh(stands, Description("Thing", (), {"priority": 50, "description": "new"}), after)
    assert stands.priority == 50


async def test_a_class_shows_what_the_real_ones_class_does() -> None:
    recorder = Recorder()
    members = (
        Member("work", ASYNC),
        Member("made_of", SYNC, is_of_class=True),
        Member("check", ASYNC, is_of_class=True),
    )
    attributes = {"spec": {"a": 1}, "priority": 5, "said": "now", "own": 1}
    description = Description(
        "Thing",
        members,
        attributes,
        class_attributes={"spec": {"a": 1}, "priority": 100},
        properties=frozenset({"said"}),
    )
    stands = stand_in(description, 7, recorder)
    kind: Any = type(stands)
    assert (kind.spec, kind.priority, stands.priority, stands.said) == ({"a": 1}, 100, 5, "now")
    assert kind.said is not None and not isinstance(kind.said, str)
    assert not hasattr(kind, "own")
    assert kind.made_of("x") == 1 and stands.made_of("y") == 2
    assert inspect.iscoroutinefunction(kind.check) and await kind.check() == 3
    assert [call[1:] for call in recorder.calls] == [(7, 1, [["x"], {}]), (7, 1, [["y"], {}]), (7, 2, [[], {}])]
    refresh(stands, Description("Thing", members, {}), description)
    with pytest.raises(AttributeError, match="'Thing' object has no attribute 'said'"):
        _ = stands.said


def test_what_is_written_into_the_data_of_one_stand_in_shows_in_no_other() -> None:
    def made() -> Any:
        spec = {"properties": {}}  # as each description brings its own
        return stand_in(Description("Thing", (), {"spec": spec}, class_attributes={"spec": spec}), 7, Recorder())

    first, second = made(), made()
    first.spec["properties"]["added"] = 1
    assert second.spec == type(second).spec == made().spec == {"properties": {}}


def test_a_classs_data_goes_with_its_stand_in() -> None:
    class Large(list[int]):
        """A value that can be looked for once nobody has it any more."""

    gc.disable()  # which would also find what only a collection gets rid of
    try:
        value = Large()
        reference = weakref.ref(value)
        stands = stand_in(Description("Thing", (), {"spec": value}, class_attributes={"spec": value}), 7, Recorder())
        kind: Any = type(stands)
        assert kind.spec is stands.spec is value
        del stands, value
        assert reference() is None
        assert not hasattr(kind, "spec")
    finally:
        gc.enable()


async def test_what_is_told_besides_goes_with_the_call_of_execute_alone() -> None:
    recorder = Recorder()
    recorder.told = [{"dispatch_context": {"id": 1}}]
    stands = stand_in(Description("Tool", (Member("execute", ASYNC), Member("work", ASYNC)), {}), 7, recorder)
    await stands.execute({"a": 1})
    await stands.work()
    assert [value for *_, value in recorder.calls] == [[[{"a": 1}], {}, recorder.told[0]], [[], {}]]


async def test_a_scope_is_left_with_the_exception_alone() -> None:
    recorder = Recorder()
    stands = stand_in(Description("Scope", (Member("__aenter__", ASYNC), Member("__aexit__", ASYNC)), {}), 7, recorder)
    async with stands:
        pass
    problem = LookupError("inside")
    async with stands:  # what the owner answers is true, which swallows it
        raise problem
    assert [value for *_, value in recorder.calls] == [[[], {}], [[None], {}], [[], {}], [[problem], {}]]


async def test_an_iterator_is_one_stream_however_it_is_read() -> None:
    recorder = Recorder()
    description = Description("Iterator", (Member("__anext__", STREAM), Member("aclose", ASYNC)), {})
    iterator = stand_in(description, 7, recorder)
    assert aiter(iterator) is iterator and await anext(iterator) == 0
    assert [item async for item in iterator] == [1, 2]
    assert [item async for item in iterator] == []
    await iterator.aclose()
    assert [how for how, *_ in recorder.calls] == ["stream"]
    unread = stand_in(description, 8, recorder)
    await unread.aclose()
    assert recorder.calls[1:] == [("call", 8, 1, [[], {}])]


async def test_what_can_be_iterated_is_iterated_anew_each_time() -> None:
    recorder = Recorder()
    source = stand_in(Description("Iterable", (Member("__aiter__", STREAM),), {}), 7, recorder)
    assert [item async for item in source] == [item async for item in source] == [0, 1, 2]
    assert not hasattr(source, "aclose") and not hasattr(source, "__anext__")
    assert len(recorder.calls) == 2


def test_looking_at_a_stand_in_calls_nothing() -> None:
    recorder = Recorder()
    stands = thing(recorder, name="thing")
    repr(stands), str(stands), hash(stands), bool(stands), dir(stands), stands == object()
    assert isinstance(stands, RemoteObject)
    assert recorder.calls == []


@each_row("make", [lambda caller: thing(caller), lambda caller: function(caller, ASYNC)])
def test_a_stand_in_takes_weak_references_and_goes_when_unused(make: Any) -> None:
    stands = make(Recorder())
    reference = weakref.ref(stands)
    assert {stands: 1}[stands] == 1
    del stands
    gc.collect()
    assert reference() is None
