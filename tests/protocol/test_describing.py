"""Descriptions: honest about what an object can do, silent about secrets, and never failing over a module's code."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.describing import describe, flavour_of, member_of
from paddock_sdk.protocol.description import (
    MAX_MEMBERS,
    Description,
    Flavour,
    Member,
    decode_description,
    encode_description,
)
from paddock_sdk.protocol.frames import MAX_DESCRIPTION_BYTES, MAX_DESCRIPTION_VALUES
from support.rows import each_row

from .wire_inputs import thorough, values

ASYNC, SYNC, STREAM = Flavour.ASYNC, Flavour.SYNC, Flavour.STREAM
CODEC = Codec()


def members_of(value: object) -> dict[str, Flavour]:
    return {member.name: member.flavour for member in describe(value).members}


def data_of(value: object) -> dict[str, Any]:
    return dict(describe(value).attributes)


# -- flavours ----------------------------------------------------------------------------------


async def coroutine_function() -> None: ...


def plain_function() -> None: ...


async def generator_function() -> AsyncIterator[int]:
    yield 1


class AsyncCallable:
    async def __call__(self) -> None: ...


class PlainCallable:
    def __call__(self) -> None: ...


def traced(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class _EndlessWrapper:
    @property
    def __wrapped__(self) -> object:
        return _EndlessWrapper()

    def __call__(self) -> None: ...


@each_row(
    ("function", "flavour"),
    [
        (coroutine_function, ASYNC),
        (plain_function, SYNC),
        (generator_function, STREAM),
        (functools.partial(coroutine_function), ASYNC),
        (functools.partial(plain_function), SYNC),
        (AsyncCallable(), ASYNC),
        (PlainCallable(), SYNC),
        (AsyncCallable().__call__, ASYNC),
        (AsyncMock(), ASYNC),
        (lambda: None, SYNC),
        (len, SYNC),
        (traced(coroutine_function), ASYNC),
        (traced(plain_function), SYNC),
        (traced(traced(generator_function)), STREAM),
        (_EndlessWrapper(), SYNC),
    ],
)
def test_how_a_function_is_to_be_called_is_seen_through_what_wraps_it(function: object, flavour: Flavour) -> None:
    assert flavour_of(function) is flavour


# -- members and data --------------------------------------------------------------------------


class Base:
    inherited = "from the base"

    async def of_base(self) -> None: ...


class Thing(Base):
    kind = "thing"
    helper_class = dict
    _private = "unseen"

    def __init__(self) -> None:
        self.own = [1, {"a": None}]
        self.callback = coroutine_function
        self._hidden = 1
        self.live = object()

    @property
    def computed(self) -> str:
        return "computed"

    @property
    def failing(self) -> str:
        raise OSError("not today")

    @property
    def absent(self) -> str:
        raise AttributeError("absent")

    @staticmethod
    def static() -> None: ...

    @classmethod
    async def of_class(cls) -> None: ...

    def plain(self) -> None: ...

    async def stream(self) -> AsyncIterator[int]:
        yield 1

    async def _secret_member(self) -> None: ...


def test_every_public_member_is_there_with_its_flavour_and_nothing_else() -> None:
    assert members_of(Thing()) == {
        "of_base": ASYNC,
        "of_class": ASYNC,
        "plain": SYNC,
        "static": SYNC,
        "stream": STREAM,
        "callback": ASYNC,
    }


def test_plain_data_is_there_and_what_fails_or_is_no_data_is_not() -> None:
    assert data_of(Thing()) == {
        "inherited": "from the base",
        "kind": "thing",
        "own": [1, {"a": None}],
        "computed": "computed",
    }


def test_each_property_is_read_once() -> None:
    class Counting:
        reads = 0

        @property
        def counted(self) -> int:
            type(self).reads += 1
            return 1

    describe(Counting())
    assert Counting.reads == 1


def test_an_object_that_can_be_called_has_that_as_a_member() -> None:
    assert members_of(AsyncCallable()) == {"__call__": ASYNC}
    assert not describe(AsyncCallable()).is_function


@each_row(
    ("function", "name"),
    [
        (plain_function, "plain_function"),
        (lambda: None, "function"),
        (functools.partial(plain_function), "partial"),
        (Thing().plain, "plain"),
    ],
)
def test_a_function_has_one_member_and_a_name_that_can_be_one(function: object, name: str) -> None:
    description = describe(function)
    assert description.is_function
    assert description.type_name == name
    assert [member.name for member in description.members] == ["__call__"]


def test_names_that_no_receiver_would_take_are_replaced_or_left_out() -> None:
    odd = type("not an identifier", (), {"x" * 300: 1, "with space": 2, "fine": 3})()
    vars(odd)["also with space"] = 4
    assert describe(odd).type_name == "Object"
    assert data_of(odd) == {"fine": 3}

    def long() -> None: ...

    long.__name__ = "x" * 300
    assert describe(long).type_name == "function"
    for value in (odd, long):
        assert decode_description(encode_description(describe(value), CODEC), CODEC) == describe(value)


def test_members_without_end_are_cut_off() -> None:
    many = type("Many", (), {f"member_{number}": plain_function for number in range(MAX_MEMBERS + 50)})()
    assert len(describe(many).members) == MAX_MEMBERS


def test_data_that_holds_itself_or_nests_deep_is_left_out() -> None:
    class Odd:
        fine = 1

    circle: list[Any] = []
    circle.append(circle)
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    odd: Any = Odd()
    odd.circle, odd.deep = circle, deep
    odd.keys = {1: "a key that is no text"}
    odd.subclass = type("Text", (str,), {})("a subclass")
    assert data_of(odd) == {"fine": 1}


# -- classes, properties, and what Python calls by itself ---------------------------------------


def test_what_a_class_says_is_apart_from_what_its_object_says() -> None:
    class Native(Base):
        spec = {"sizes": (1, 2)}
        priority = 100
        default = None

        def __init__(self) -> None:
            self.priority = 5
            self.own = "own"

        @property
        def computed(self) -> str:
            return "computed"

        @functools.cached_property
        def kept(self) -> int:
            return 1

        @property
        def failing(self) -> str:
            raise OSError("not today")

    description = describe(Native())
    assert description.class_attributes == {
        "inherited": "from the base",
        "spec": {"sizes": (1, 2)},
        "priority": 100,
        "default": None,
    }
    assert description.attributes["priority"] == 5 and description.attributes["spec"] == {"sizes": (1, 2)}
    assert description.properties == {"computed", "kept"}


def test_what_is_called_on_the_class_is_marked_as_that() -> None:
    assert {member.name for member in describe(Thing()).members if member.is_of_class} == {"static", "of_class"}


class Scope:
    async def __aenter__(self) -> Scope:
        return self

    async def __aexit__(self, *error: object) -> None: ...

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        return iter(())


class Iterable:
    def __aiter__(self) -> AsyncIterator[int]:
        return generator_function()


class Iterator(Iterable):
    async def __anext__(self) -> int:
        raise StopAsyncIteration

    async def aclose(self) -> None: ...


@each_row(
    ("value", "members"),
    [
        (Scope(), {"__aenter__": ASYNC, "__aexit__": ASYNC}),
        (Iterable(), {"__aiter__": STREAM}),
        (Iterator(), {"__anext__": STREAM, "aclose": ASYNC}),
        (generator_function(), {"__anext__": STREAM, "aclose": ASYNC}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_of_what_python_calls_by_itself_only_what_can_be_awaited_is_there(
    value: object, members: dict[str, Flavour]
) -> None:
    assert members_of(value) == members
    assert decode_description(encode_description(describe(value), CODEC), CODEC) == describe(value)


async def test_the_members_that_python_calls_are_called_as_it_would() -> None:
    source = Iterator()
    assert member_of(source, "__anext__")() is source
    assert [number async for number in member_of(Iterable(), "__aiter__")()] == [1]
    left: list[tuple[object, ...]] = []

    class Leaving:
        async def __aexit__(self, *error: object) -> None:
            left.append(error)

    problem = LookupError("inside")
    await member_of(Leaving(), "__aexit__")(problem)
    await member_of(Leaving(), "__aexit__")(None)
    assert left == [(LookupError, problem, None), (None, None, None)]
    assert member_of(source, "aclose") == source.aclose


def test_data_is_all_that_crosses_as_what_it_is() -> None:
    odd: Any = type("Odd", (), {})()
    kept = {
        "path": Path("/a"),
        "cost": Decimal("1.10"),
        "when": datetime(2024, 2, 29),
        "pair": (1, {"a": 2}),
        "names": {"a", "b"},
        "raw": b"x",
    }
    vars(odd).update(kept, live={"a": object()}, lock=[Base()])
    assert data_of(odd) == kept
    assert decode_description(encode_description(describe(odd), CODEC), CODEC).attributes == kept


def test_a_class_that_says_too_much_leaves_what_fits_with_the_object() -> None:
    large: Any = type("Large", (), {"text": "x" * MAX_DESCRIPTION_BYTES, "small": 1})()
    back = decode_description(encode_description(describe(large), CODEC), CODEC)
    assert (dict(back.attributes), dict(back.class_attributes)) == ({"small": 1}, {})


def test_data_with_too_many_values_is_left_out_of_a_description() -> None:
    many: Any = type("Many", (), {})()
    many.small, many.messages, many.name = [1, 2], [[] for _ in range(MAX_DESCRIPTION_VALUES)], "many"
    back = decode_description(encode_description(describe(many), CODEC), CODEC)
    assert back.attributes == {"small": [1, 2], "name": "many"}
    many.messages = many.messages[: MAX_DESCRIPTION_VALUES // 2]
    assert "messages" in decode_description(encode_description(describe(many), CODEC), CODEC).attributes


@each_row("place", [3, 4])
def test_a_description_of_too_many_values_is_none(place: int) -> None:
    content: list[Any] = ["Thing", False, [], {}, {}, []]
    content[place] = {"data": [[] for _ in range(MAX_DESCRIPTION_VALUES // 2)]}
    assert decode_description(CODEC.encode(content)[0], CODEC).attributes
    content[place]["data"] *= 2
    with pytest.raises(RemoteProtocolError, match="4096 values"):
        decode_description(CODEC.encode(content)[0], CODEC)


# -- secrets -----------------------------------------------------------------------------------


@each_row(
    "name",
    [
        *("api_key", "API_KEY", "openai_apikey", "client_secret", "password", "db_password", "auth_token", "token"),
        *("credentials", "private_key", "authorization"),
    ],
)
def test_data_under_the_name_of_a_secret_stays_home(name: str) -> None:
    secretive: Any = type("Secretive", (), {})()
    setattr(secretive, name, "hunter2")
    secretive.config = {name: "hunter2", "nested": [{name: "hunter2", "model": "m"}], "plain": 1}
    assert data_of(secretive) == {
        "config": {name: "[REDACTED]", "nested": [{name: "[REDACTED]", "model": "m"}], "plain": 1}
    }


@each_row("name", ["max_tokens", "max_output_tokens", "token_count", "token_budget", "tokens"])
def test_counts_of_tokens_are_no_secrets(name: str) -> None:
    counting: Any = type("Counting", (), {})()
    setattr(counting, name, 100)
    assert data_of(counting) == {name: 100}


def test_the_schema_of_a_parameter_that_is_a_secret_is_no_secret() -> None:
    class Login:
        input_schema = {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password"]}

    assert data_of(Login()) == {"input_schema": Login.input_schema}


# -- the wire form -----------------------------------------------------------------------------


def test_a_description_comes_back_as_it_was() -> None:
    for value in (Thing(), plain_function, AsyncCallable(), object()):
        description = describe(value)
        assert decode_description(encode_description(description, CODEC), CODEC) == description
    assert describe(Thing()).number_of("of_base") is not None
    assert describe(Thing()).number_of("absent") is None


def test_a_description_over_its_cap_loses_the_largest_data_first() -> None:
    attributes = {"large": "x" * MAX_DESCRIPTION_BYTES, "many": [0] * 300_000, "number": 10**2000, "small": "y" * 1000}
    description = Description("Thing", (Member("look", SYNC),), attributes)
    encoded = encode_description(description, CODEC)
    assert len(encoded) <= MAX_DESCRIPTION_BYTES
    assert decode_description(encoded, CODEC) == Description("Thing", (Member("look", SYNC),), {"small": "y" * 1000})


@thorough
@given(st.dictionaries(st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.integers(0, 100_000), max_size=30))
def test_as_much_data_is_kept_as_fits(sizes: dict[str, int]) -> None:
    description = Description("Thing", (), {name: "x" * size for name, size in sizes.items()})
    encoded = encode_description(description, CODEC)
    kept = decode_description(encoded, CODEC).attributes
    assert len(encoded) <= MAX_DESCRIPTION_BYTES
    assert kept.items() <= description.attributes.items()
    taken = {name: len(CODEC.encode({name: value})[0]) for name, value in description.attributes.items()}
    left_out = [size for name, size in taken.items() if name not in kept]
    if left_out:
        assert max((taken[name] for name in kept), default=0) <= min(left_out)
        assert len(encoded) + min(left_out) > MAX_DESCRIPTION_BYTES - 10, "there was no room for another"


_GOOD: list[Any] = ["Thing", False, [["look", 1]], {"name": "thing"}, {"kind": "thing"}, ["name"]]


def _with(place: int, value: object) -> list[Any]:
    return [*_GOOD[:place], value, *_GOOD[place + 1 :]]


@each_row(
    "content",
    [
        pytest.param(None, id="nothing"),
        pytest.param(_GOOD[:5], id="too short"),
        pytest.param([*_GOOD, 1], id="too long"),
        pytest.param(_with(0, "not an identifier"), id="a type name with spaces"),
        pytest.param(_with(0, "x" * 201), id="a type name without end"),
        pytest.param(_with(0, 1), id="a number for a type name"),
        pytest.param(_with(1, 0), id="a number for a truth"),
        pytest.param(_with(2, {"look": 1}), id="members by name"),
        pytest.param(_with(2, [["look", 3]]), id="a flavour that there is not"),
        pytest.param(_with(2, [["look", 8]]), id="a flavour with a bit that there is not"),
        pytest.param(_with(2, [["look", True]]), id="a truth for a flavour"),
        pytest.param(_with(2, [["look"]]), id="a member without a flavour"),
        pytest.param(_with(2, [["lo ok", 1]]), id="a member with a space"),
        pytest.param(_with(2, [["member", 1]] * (MAX_MEMBERS + 1)), id="too many members"),
        pytest.param(_with(3, {"a b": 1}), id="data with a space"),
        pytest.param(_with(3, {1: 1}), id="data under a number"),
        pytest.param(_with(3, [1]), id="data without names"),
        pytest.param(_with(4, {"__init__": 1}), id="class data under a name of Python's"),
        pytest.param(_with(4, [1]), id="class data without names"),
        pytest.param(_with(5, ["_x"]), id="a private property"),
        pytest.param(_with(5, [1]), id="a number for a property"),
        pytest.param(_with(5, {"name": 1}), id="properties with values"),
        *(
            pytest.param(_with(2, [[name, 1]]), id=f"a member named {name}")
            for name in ("__init__", "__getattribute__", "__del__", "__eq__", "__class__", "_paddock_caller", "_x")
        ),
        *(
            pytest.param(_with(3, {name: 1}), id=f"data named {name}")
            for name in ("_paddock_id", "_paddock_caller", "__class__", "__dict__", "__call__", "_x")
        ),
    ],
)
def test_a_description_that_is_none_is_refused(content: object) -> None:
    """In particular no name may mean anything to Python or to a stand-in: it could make it call something else."""
    assert decode_description(CODEC.encode(_GOOD)[0], CODEC).type_name == "Thing"
    with pytest.raises(RemoteProtocolError):
        decode_description(CODEC.encode(content)[0], CODEC)


@thorough
@given(st.binary(max_size=200) | values.map(lambda value: CODEC.encode(value)[0]))
def test_any_bytes_are_a_description_or_a_protocol_error(data: bytes) -> None:
    try:
        description = decode_description(data, CODEC)
    except RemoteProtocolError:
        return
    assert isinstance(description, Description)
