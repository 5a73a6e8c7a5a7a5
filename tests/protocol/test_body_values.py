"""Every value that may cross comes back as itself, and every other is refused by its sender."""

from __future__ import annotations

import datetime as dt
import enum
import types
import uuid
from collections import OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sdk.protocol import MAX_DEPTH, MAX_HANDLES, RemoteProtocolError
from paddock_sdk.protocol.body import Codec, EncodeError, unpack_prefix
from paddock_sdk.protocol.caps import Ext
from paddock_sdk.protocol.errors import UnfitValueError
from support.rows import each_row

from .wire_inputs import same, thorough, values


class Colour(enum.Enum):
    RED = "red"
    BIG = 2**70
    HALF = 0.5
    NOTHING = None
    PAIR = (1, 2)
    ODD = object()


class Level(enum.IntEnum):
    HIGH = 3


class Word(str):
    pass


class Number(int):
    pass


class Length(float):
    pass


class Items(list[Any]):
    pass


class Seen(set[Any]):
    pass


class Sealed(frozenset[Any]):
    pass


Point = namedtuple("Point", "x y")


class Shapes:
    """A vocabulary of one model, `complex`, and one exception, `KeyError`."""

    def to_wire(self, value: object) -> tuple[int, object] | None:
        if isinstance(value, complex):
            return Ext.MODEL, ["complex", [value.real, value.imag]]
        if isinstance(value, KeyError):
            return Ext.ERROR, list(value.args)
        return None

    def from_wire(self, extension: int, content: Any) -> object:
        if extension == Ext.ERROR:
            return KeyError(*content)
        name, (real, imaginary) = content
        assert name == "complex"
        return complex(real, imaginary)


def _round_trip(value: object, codec: Codec | None = None) -> Any:
    codec = codec or Codec()
    body, objects = codec.encode(value)
    return codec.decode(body, objects)


# -- what crosses as itself ----------------------------------------------------------------


@thorough
@given(value=values)
def test_any_supported_value_comes_back_as_itself(value: Any) -> None:
    body, objects = Codec().encode(value, live_objects=False)
    assert objects == []
    assert same(Codec().decode(body), value)


@thorough
@given(value=values)
def test_a_body_may_be_read_from_any_kind_of_buffer(value: Any) -> None:
    codec = Codec()
    body, _ = codec.encode(value)
    assert same(codec.decode(bytearray(body)), value)
    assert same(codec.decode(memoryview(b"xx" + body)[2:]), value)


@thorough
@given(first=values, second=values)
def test_a_codec_keeps_nothing_of_what_it_encoded_before(first: Any, second: Any) -> None:
    used = Codec()
    used.encode(first)
    with pytest.raises(EncodeError):
        used.encode([first, object()], live_objects=False)
    assert used.encode(second) == Codec().encode(second)


def _shown(value: object) -> str:
    """Name a case alike in every process, where the order of a set or the address of an object is not."""
    return type(value).__name__


@each_row(
    "value",
    [
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        10**1023,
        -(10**1022),
        "\ud800",
        "a\udfffb",
        "\x00\u2028\U0001f600",
        {"\ud800": "\udc80"},
        {(1, (2, "\ud801")): {frozenset({("\ud802", 2**65)})}},
        {1: "a", 2.5: "b", None: "c", b"d": "d", ("e", 1): "e", dt.date(2020, 1, 2): "f"},
        {True: 1, False: 0},
        (),
        ((), ((),)),
        [[], {}, (), set(), frozenset()],
        {frozenset({1, 2}), (3, 4)},
        b"\x00\xff",
        b"x" * 70_000,
        "é" * 70_000,
        list(range(20_000)),
        {str(number): number for number in range(20_000)},
        {str(number) for number in range(5000)},
        {bytes([number % 256, number // 256]): number for number in range(5000)},
        float("inf"),
        float("-inf"),
        -0.0,
        Decimal("1.10"),
        Decimal("-Infinity"),
        Decimal("NaN"),
        Decimal("9.99E+6144"),
        Decimal("1E-6144"),
        dt.timedelta.max,
        dt.timedelta.min,
        dt.timedelta(microseconds=-1),
        dt.datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=45, seconds=7))),
        dt.datetime.max,
        dt.time(1, 2, 3, 4, tzinfo=dt.UTC),
        Path("/a b/\udce9"),
        Path(),
        uuid.UUID(int=2**128 - 1),
    ],
    ids=_shown,
)
def test_values_at_the_edges_come_back_as_themselves(value: Any) -> None:
    assert same(_round_trip(value), value)


@each_row(
    ("value", "becomes"),
    [
        (Word("w"), "w"),
        (Word("\ud800"), "\ud800"),
        (Number(5), 5),
        (Number(2**80), 2**80),
        (Length(0.5), 0.5),
        (Level.HIGH, 3),
        (Colour.RED, "red"),
        (Colour.BIG, 2**70),
        (Colour.HALF, 0.5),
        ([Colour.RED, {Colour.RED: Word("\udc80")}], ["red", {"red": "\udc80"}]),
        (OrderedDict(b=2**64, a="\ud800"), {"b": 2**64, "a": "\ud800"}),
        (defaultdict(Items, {"a": Items([Number(2**64)])}), {"a": [2**64]}),
        (Point(1, Point(2, "\ud800")), (1, (2, "\ud800"))),
        ({Point(1, 2): 3}, {(1, 2): 3}),
        (Seen({1, (2, 3)}), {1, (2, 3)}),
        (Sealed({1, (2, 3)}), frozenset({1, (2, 3)})),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (PurePosixPath("a/b"), Path("a/b")),
        (PureWindowsPath("c:/x"), Path("c:\\x")),
    ],
    ids=_shown,
)
def test_a_subclass_crosses_as_the_builtin_it_stands_for(value: Any, becomes: Any) -> None:
    assert same(_round_trip(value), becomes)


def test_lone_surrogates_at_every_level_at_most_double_the_work() -> None:
    looked_at = 0

    class Counted(Shapes):
        def to_wire(self, value: object) -> tuple[int, object] | None:
            nonlocal looked_at
            looked_at += isinstance(value, complex)
            return super().to_wire(value)

    value: Any = (1j, "\ud800")
    for _ in range(29):
        value = (value, 1j, "\ud800")
    assert _round_trip(value, Codec(Counted())) == value
    assert looked_at <= 60


# -- the vocabulary ------------------------------------------------------------------------


def test_models_and_exceptions_are_the_vocabularys_business() -> None:
    codec = Codec(Shapes())
    result = _round_trip({"z": (1 + 2j, [3j]), "e": KeyError("k", 1)}, codec)
    assert result["z"] == (1 + 2j, [3j])
    assert type(result["e"]) is KeyError
    assert result["e"].args == ("k", 1)


def test_what_the_vocabulary_will_not_rebuild_is_refused() -> None:
    body, _ = Codec(Shapes()).encode(1j)
    with pytest.raises(UnfitValueError, match="extension 2 where only plain values"):
        Codec().decode(body)
    for content in ("complex", ["rational", [1, 2]], ["complex", ["a", 1]], None):
        with pytest.raises(UnfitValueError, match="that no class accepts"):
            Codec(Shapes()).decode(msgpack.packb(msgpack.ExtType(Ext.MODEL, msgpack.packb(content))))


# -- live objects --------------------------------------------------------------------------


def test_live_objects_are_exported_in_the_order_of_their_positions() -> None:
    first, second = object(), lambda: None
    codec = Codec()
    body, objects = codec.encode({"a": first, "b": [second, (first, {"c": second})]})
    assert objects == [first, second, first, second]
    stand_ins = [f"object {row}" for row in range(4)]
    assert codec.decode(body, stand_ins) == {"a": "object 0", "b": ["object 1", ("object 2", {"c": "object 3"})]}


def test_an_object_is_exported_once_even_if_encoding_restarts() -> None:
    thing, other = object(), object()
    codec = Codec()
    body, objects = codec.encode([thing, (other, "fine"), (thing, "\ud800")])
    assert objects == [thing, other, thing]
    assert codec.decode(body, [10, 11, 12]) == [10, (11, "fine"), (12, "\ud800")]


def test_a_live_object_where_none_may_be_is_refused_by_name() -> None:
    with pytest.raises(EncodeError, match=r"test_body_values\.Shapes cannot be sent here"):
        Codec().encode([Shapes()], live_objects=False)


@each_row(
    ("value", "arrives"),
    [
        (range(3), [0, 1, 2]),
        (deque(["a"]), ["a"]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        ({"a": 1}.items(), [("a", 1)]),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (Colour.NOTHING, None),
        (Colour.PAIR, (1, 2)),
        (Colour.ODD, "ODD"),
    ],
    ids=_shown,
)
def test_what_stands_for_data_crosses_as_that(value: object, arrives: object) -> None:
    body, objects = Codec().encode([value])
    assert not objects
    assert Codec().decode(body) == [arrives]


def test_a_range_without_end_is_refused_before_it_is_counted_out() -> None:
    with pytest.raises(EncodeError, match="range of 1000000000 values"):
        Codec().encode(range(10**9))


@each_row("value", [Colour, len, 1j, object(), iter([])], ids=_shown)
def test_whatever_is_no_data_is_a_live_object(value: object) -> None:
    _, objects = Codec().encode([value])
    assert objects == [value]


def test_as_many_live_objects_as_a_table_holds_may_cross() -> None:
    codec = Codec()
    body, objects = codec.encode([object() for _ in range(MAX_HANDLES)])
    assert codec.decode(body, objects) == objects
    with pytest.raises(EncodeError, match="more than 1024 live objects"):
        codec.encode([object() for _ in range(MAX_HANDLES + 1)])


@each_row(
    "body",
    [
        b"\xd6\x01\x00\x00\x00\x02",
        b"\xd6\x01\xff\xff\xff\xff",
        b"\xd4\x01\x00",
        b"\xc7\x00\x01",
        b"\xc7\x05\x01" + bytes(5),
    ],
    ids=bytes.hex,
)
def test_a_handle_outside_of_the_table_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="handle"):
        Codec().decode(body, ["row 0", "row 1"])


# -- what cannot be sent -------------------------------------------------------------------


def _nested(depth: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


class Failing(list[Any]):
    """A list that raises whatever it is told to when it is looked at."""

    def __init__(self, error: BaseException) -> None:
        super().__init__([1])
        self.error = error

    def __iter__(self) -> Any:
        raise self.error


@each_row(
    "value",
    [
        _nested(MAX_DEPTH + 1, lambda inner: [inner]),
        _nested(MAX_DEPTH + 1, lambda inner: {"a": inner}),
        _nested(33, lambda inner: (inner,)),
        _nested(20_000, lambda inner: [inner]),
        _nested(20_000, lambda inner: (inner,)),
        _nested(20_000, lambda inner: Items([inner, "\ud800"])),
        [0] * (1 << 18),
        {number: number for number in range(1025)},
        {(number,): number for number in range(1025)},
        [({number: number for number in range(70_000)},)],
        set(range(1025)),
        ({float(number) for number in range(1025)},),
        10**1024,
        -(10**1023),
        10**5000,
        Number(10**5000),
        Decimal("1" * 4097),
        Decimal("1E+6145"),
        Decimal("-1E-6145"),
        Decimal("0E+999999999"),
        Decimal("sNaN"),
        Path("a" * 4097),
        Failing(RuntimeError("no")),
        Failing(KeyError("no")),
        Failing(OverflowError("no")),
        Failing(UnicodeEncodeError("utf-8", "a", 0, 1, "no")),
        Failing(MemoryError()),
        msgpack.Timestamp(1, 2),
        memoryview(b"abcd")[::2],
        dt.datetime(2020, 1, 1, tzinfo=type("Odd", (dt.tzinfo,), {})()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_no_receiver_would_accept_is_refused_by_the_sender(value: Any) -> None:
    codec = Codec()
    with pytest.raises(EncodeError):
        codec.encode(value)
    assert codec.encode([1, "\ud800"]) == Codec().encode([1, "\ud800"])


@each_row(
    "value",
    [
        _nested(MAX_DEPTH, lambda inner: [inner]),
        _nested(MAX_DEPTH, lambda inner: {"a": inner}),
        _nested(32, lambda inner: (inner,)),
        [0] * ((1 << 18) - 1),
        {number: number for number in range(1024)},
        set(range(1024)),
        Decimal("1" * 4096),
        Path("a" * 4096),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_sender_lets_pass_every_receiver_accepts(value: Any) -> None:
    assert _round_trip(value) == value


def test_an_interruption_is_not_mistaken_for_a_value() -> None:
    codec = Codec()
    with pytest.raises(KeyboardInterrupt):
        codec.encode([1, Failing(KeyboardInterrupt())])
    assert codec.encode([1]) == (b"\x91\x01", [])


# -- prefixes ------------------------------------------------------------------------------

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=40) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@thorough
@given(head=plain_values, rest=st.binary(max_size=50))
def test_a_prefix_is_read_and_the_rest_is_left_as_it_is(head: Any, rest: bytes) -> None:
    body = Codec().encode(head)[0] + rest
    for buffer in (body, bytearray(body), memoryview(body)):
        read, left = unpack_prefix(buffer)
        assert same(read, head)
        assert left.tobytes() == rest


@each_row(
    "body",
    [
        b"",
        b"\xc1",
        b"\xa5ab",
        b"\x92\x01",
        b"\xd6\x01\0\0\0\0",
        b"\xd4\x04\x90",
        b"\x82\x01\x02\x01\x03",
        b"\x91" * 70 + b"\xc0",
    ],
    ids=bytes.hex,
)
def test_a_body_without_a_plain_value_at_its_start_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        unpack_prefix(body)
