"""Bytes from anywhere are a value of the closed list or a `RemoteProtocolError`, at a bounded cost."""

from __future__ import annotations

import datetime as dt
import sys
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import MAX_DEPTH, MAX_ELEMENTS, RemoteProtocolError
from paddock_sdk.protocol import body as body_module
from paddock_sdk.protocol import caps as caps_module
from paddock_sdk.protocol.body import NO_OBJECT, Codec, unpack_prefix
from paddock_sdk.protocol.caps import Ext, check_caps, end_of_value
from paddock_sdk.protocol.errors import UnfitValueError
from support.rows import each_row

from .wire_inputs import thorough, values

ALLOWED = (
    *(type(None), bool, int, float, str, bytes, list, tuple, dict, set, frozenset),
    *(Decimal, dt.datetime, dt.date, dt.time, dt.timedelta, type(Path()), UUID),
)


class Opaque:
    """What the careless vocabulary below makes of a model: it stands for anything."""


class Careless:
    """A vocabulary that fails in every way there is, depending on what it is given."""

    def to_wire(self, value: object) -> tuple[int, object] | None:
        return None

    def from_wire(self, extension: int, content: Any) -> object:
        failures: dict[Any, type[BaseException]] = {0: KeyError, 1: RecursionError, 2: AttributeError, 3: StopIteration}
        if type(content) is int and content in failures:
            raise failures[content]
        return Opaque()


def _measure(value: Any) -> tuple[int, int]:
    """Return how many values `value` consists of, and how many containers that are not empty nest in it."""
    if isinstance(value, dict):
        parts = [part for pair in value.items() for part in pair]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = list(value)
    else:
        assert type(value) in (*ALLOWED, Opaque)
        return 1, 0
    measures = [_measure(part) for part in parts]
    return 1 + sum(count for count, _ in measures), max((1 + depth for _, depth in measures), default=0)


def _decode(data: bytes) -> Any:
    try:
        return Codec(Careless()).decode(data, ["row 0", "row 1"])
    except RemoteProtocolError:
        return None


# Bytes that look like msgpack far more often than chance: heads of everything, small lengths, the extension codes.
heads = st.sampled_from([*range(0x80, 0xA4), *range(0xC0, 0xE0), 0xFF, *range(12)])
msgpack_like = st.lists(
    st.one_of(heads.map(lambda head: bytes([head])), st.binary(min_size=1, max_size=3)), max_size=40
).map(b"".join)


@st.composite
def mutated_bodies(draw: st.DrawFn) -> bytes:
    """Bodies of real values with some bytes changed, left out or put in."""
    data = bytearray(Codec().encode(draw(values))[0])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["change", "leave out", "put in"])):
            case "change" if data:
                data[at] = draw(heads)
            case "leave out":
                del data[at : at + draw(st.integers(1, 5))]
            case _:
                data[at:at] = draw(msgpack_like)[:10]
    return bytes(data)


@thorough
@given(data=st.one_of(st.binary(max_size=60), msgpack_like, mutated_bodies()))
def test_arbitrary_bytes_are_a_value_of_the_closed_list_or_refused(data: bytes) -> None:
    _measure(_decode(data))


@thorough
@given(data=st.one_of(st.binary(max_size=60), msgpack_like, mutated_bodies()))
def test_arbitrary_bytes_have_a_plain_prefix_or_are_refused(data: bytes) -> None:
    try:
        head, rest = unpack_prefix(data)
    except RemoteProtocolError:
        return
    _measure(head)
    assert data.endswith(bytes(rest))


@thorough
@given(data=st.one_of(msgpack_like, mutated_bodies()), depth=st.integers(0, 4), elements=st.integers(1, 12))
def test_no_bytes_whatever_get_a_value_past_the_caps(data: bytes, depth: int, elements: int) -> None:
    with (
        mock.patch.object(caps_module, "MAX_DEPTH", depth),
        mock.patch.object(caps_module, "MAX_ELEMENTS", elements),
        mock.patch.object(caps_module, "_TRANSLATE_BELOW_BYTES", 0),
    ):
        count, nesting = _measure(_decode(data))
    assert count <= elements
    assert nesting <= depth


@thorough
@given(data=st.one_of(msgpack_like, mutated_bodies()))
@example(data=b"\x82\xa1k\x01\xa1k\x02")
@example(data=b"\x82\x01\x01\xc3\x02")  # 1 and True are one key
@example(data=b"\x82\x01\x01\xcb\x3f\xf0\0\0\0\0\0\0\x02")
def test_a_long_body_is_read_as_a_short_one_is(data: bytes) -> None:
    def outcome() -> str:
        try:
            return repr(Codec(Careless()).decode(data, ["row 0", "row 1"]))
        except RemoteProtocolError as exc:
            return f"refused: {exc}"

    short = outcome()
    with mock.patch.object(body_module, "_LONG_BYTES", 0):
        assert outcome() == short


@thorough
@given(data=st.one_of(msgpack_like, mutated_bodies()), quick_below=st.sampled_from([1, 4096]))
@example(data=b"\xc9\x04\x00\x80\x80\x02", quick_below=4096)
def test_the_quick_looks_let_nothing_pass_that_the_scan_refuses(data: bytes, quick_below: int) -> None:
    def refusal(judge: Callable[[bytes], object]) -> str:
        try:
            judge(data)
        except RemoteProtocolError as exc:
            return str(exc)
        return ""

    with (
        mock.patch.object(caps_module, "MAX_DEPTH", 3),
        mock.patch.object(caps_module, "_TRANSLATE_BELOW_BYTES", quick_below),
    ):
        quick, exact = refusal(check_caps), refusal(end_of_value)
        if exact and not quick:
            # Announced, not there: left to msgpack, which reserves no more than the body's size.
            assert refusal(Codec().decode)
        else:
            assert quick == exact


# -- depth ---------------------------------------------------------------------------------


def _ext(code: int, content: bytes) -> bytes:
    return b"\xc9" + len(content).to_bytes(4, "big") + bytes([code]) + content


WRAPPERS: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "array": (lambda inner: b"\x91" + inner, 1),
    "array 16": (lambda inner: b"\xdc\0\x01" + inner, 1),
    "array 32": (lambda inner: b"\xdd\0\0\0\x01" + inner, 1),
    "value of a map": (lambda inner: b"\x81\xa1k" + inner, 1),
    "value of a map 32": (lambda inner: b"\xdf\0\0\0\x01\xa1k" + inner, 1),
    "tuple": (lambda inner: _ext(Ext.TUPLE, b"\x91" + inner), 2),
    "key of a map": (lambda inner: b"\x81" + _ext(Ext.TUPLE, b"\x91" + inner) + b"\xc0", 3),
    "frozenset": (lambda inner: _ext(Ext.FROZENSET, b"\x91" + inner), 2),
    "model": (lambda inner: _ext(Ext.MODEL, inner), 1),
    "error in a list": (lambda inner: b"\x91" + _ext(Ext.ERROR, inner), 2),
}


@each_row("padding", [0, 5000], ids=["small", "large"])
@each_row("wrapper", WRAPPERS)
def test_nesting_is_allowed_as_deep_as_the_cap_and_no_deeper(wrapper: str, padding: int) -> None:
    wrap, levels = WRAPPERS[wrapper]
    allowed = MAX_DEPTH // levels
    data = b"\xc5" + padding.to_bytes(2, "big") + bytes(padding)
    for _ in range(allowed):
        data = wrap(data)
    check_caps(data)
    if wrapper != "key of a map":  # a mapping may be part of a key for the scan, but not for Python
        Codec(Careless()).decode(data)
    with pytest.raises(RemoteProtocolError, match="nested deeper than 64"):
        Codec(Careless()).decode(wrap(data))


@each_row("wrapper", WRAPPERS)
def test_a_depth_bomb_is_refused_before_anything_is_built(wrapper: str) -> None:
    wrap, _ = WRAPPERS[wrapper]
    shell = wrap(b"\xc0")
    data = shell[: shell.rindex(b"\xc0")] * 100_000
    with mock.patch.object(body_module, "msgpack") as library:
        with pytest.raises(RemoteProtocolError, match="nested deeper"):
            Codec(Careless()).decode(data)
        with pytest.raises(RemoteProtocolError, match="nested deeper"):
            unpack_prefix(data)
    assert library.mock_calls == []


# -- the number of values ------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    "data",
    [
        b"\xdd" + MAX_ELEMENTS.to_bytes(4, "big") + b"\xc0" * MAX_ELEMENTS,
        b"\xdf" + (MAX_ELEMENTS // 2).to_bytes(4, "big") + b"\x80" * MAX_ELEMENTS,
        _ext(Ext.TUPLE, b"\xdd" + MAX_ELEMENTS.to_bytes(4, "big") + b"\x90" * MAX_ELEMENTS),
        b"\xdc\xff\xff" + (b"\x94" + b"\xc0" * 4) * 0xFFFF,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\x92" + b"\xdd\0\x04\0\0" + b"\xc0",
        (b"\xdd" + (MAX_ELEMENTS // 60).to_bytes(4, "big")) * 63 + bytes(MAX_ELEMENTS),
    ],
    ids=[
        "array",
        "map",
        "tuple",
        "many arrays",
        "announced array",
        "announced map",
        "announced later",
        "announced nested",
    ],
)
def test_an_element_bomb_is_refused_before_anything_is_built(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=f"more than {MAX_ELEMENTS} values|exceeds max_array_len"):
            Codec().decode(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_as_many_values_as_the_cap_arrive() -> None:
    data = b"\xdd" + (MAX_ELEMENTS - 1).to_bytes(4, "big") + b"\xc0" * (MAX_ELEMENTS - 1)
    assert len(Codec().decode(data)) == MAX_ELEMENTS - 1


def test_nested_extensions_cause_no_copy_at_every_level() -> None:
    size = 15 * 1024 * 1024
    data = b"\xc6" + size.to_bytes(4, "big") + bytes(size)
    for _ in range(4):
        data = _ext(Ext.TUPLE, b"\x91" + data)
    check_caps(data)
    with pytest.raises(RemoteProtocolError, match="extensions of more than"):
        check_caps(_ext(Ext.TUPLE, b"\x91" + data))


# -- keys ----------------------------------------------------------------------------------


@each_row(
    "data",
    [
        b"\x82\xa1a\x01\xa1a\x02",
        b"\x82\x01\x01\x01\x02",
        b"\x82\x01\x01\xc3\x02",  # 1 and True are one key
        b"\x82\x01\x01\xcb\x3f\xf0\0\0\0\0\0\0\x02",  # and so are 1 and 1.0
        b"\x91\x81\xa1x\x82\xa0\x01\xa0\x02",
        _ext(Ext.TUPLE, b"\x91\x82\xa1a\x01\xa1a\x02"),
        b"\x82" + _ext(Ext.TUPLE, b"\x91\x01") + b"\xc0" + b"\xd5\x04\x91\x01" + b"\xc0",
        b"\x82\xd4\x09a\x01\xa1a\x02",
    ],
    ids=bytes.hex,
)
def test_a_mapping_with_the_same_key_twice_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="the same key twice"):
        Codec().decode(data)


@each_row("data", [b"\x81\x90\x01", b"\x81\x80\x01", _ext(Ext.SET, b"\x91\x90"), _ext(Ext.SET, b"\x91\x80")])
def test_what_cannot_be_a_key_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="unhashable"):
        Codec().decode(data)


def _colliding(count: int) -> list[bytes]:
    """Integers of the wire that all hash alike."""
    modulus = sys.hash_info.modulus
    return [
        msgpack.packb(msgpack.ExtType(Ext.INTEGER, str(number * modulus).encode())) for number in range(1, count + 1)
    ]


def test_keys_made_to_collide_are_refused_before_they_are_hashed() -> None:
    keys = _colliding(3000)
    with pytest.raises(RemoteProtocolError, match="more than 1024 keys that are not text"):
        Codec().decode(b"\xdf" + len(keys).to_bytes(4, "big") + b"".join(key + b"\xc0" for key in keys))
    with pytest.raises(RemoteProtocolError, match="more than 1024 values that are not text"):
        Codec().decode(_ext(Ext.SET, b"\xdd" + len(keys).to_bytes(4, "big") + b"".join(keys)))
    few = b"".join(key + b"\xc0" for key in keys[:1024])
    assert len(Codec().decode(b"\xde" + (1024).to_bytes(2, "big") + few)) == 1024


# -- extensions ----------------------------------------------------------------------------


@each_row("code", [0, 7, 11, 42, 127, 128, 200, 254])
def test_an_extension_outside_of_the_list_is_refused(code: int) -> None:
    for data in (bytes([0xD4, code, 0]), _ext(code, b"abc"), b"\x91" + _ext(code, b"")):
        with pytest.raises(RemoteProtocolError, match="not part of the protocol"):
            Codec(Careless()).decode(data)


@each_row("padding", [b"", bytes(5000)], ids=["small", "large"])
@each_row("stamp", [b"\xd6\xff" + bytes(4), b"\xd7\xff" + bytes(8), b"\xc7\x0c\xff" + bytes(12)], ids=bytes.hex)
def test_a_timestamp_of_msgpacks_own_is_no_value_here(stamp: bytes, padding: bytes) -> None:
    body = b"\x92\xc5" + len(padding).to_bytes(2, "big") + padding
    for data in (stamp, body + stamp, body + _ext(Ext.TUPLE, b"\x91" + stamp)):
        with pytest.raises(RemoteProtocolError, match="timestamp"):
            Codec().decode(data)


@each_row("code", [Ext.TUPLE, Ext.SET, Ext.FROZENSET])
@each_row("content", [b"\xc0", b"\x80", b"\xa1a", b"\x05"])
def test_a_collection_extension_without_a_list_is_refused(code: Ext, content: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="without a list"):
        Codec(Careless()).decode(_ext(code, content))


@each_row(
    "data",
    [
        *(
            _ext(Ext.SCALAR, msgpack.packb(content))
            for content in (None, [], ["path"], ["path", 1], ["eval", "1"], {"path": "x"})
        ),
        *(
            _ext(Ext.SCALAR, msgpack.packb([name, text]))
            for name in ("decimal", "datetime", "date", "time", "timedelta", "uuid")
            for text in ("", "nonsense", "9" * 4096, "1e5", "\x00")
            if (name, text) not in {("decimal", "9" * 4096), ("decimal", "1e5")}
        ),
        *(
            _ext(Ext.SCALAR, msgpack.packb(["decimal", text]))
            for text in (
                "1e999999999",
                "-1e-999999999",
                "0e999999999",
                "1e6145",
                "9" * 4000 + "e3000",
                "sNaN",
                "-sNaN1",
            )
        ),
        _ext(Ext.SCALAR, msgpack.packb(["timedelta", "9" * 4096])),
        _ext(Ext.SCALAR, msgpack.packb(["path", "x" * 4097])),
        _ext(Ext.INTEGER, b""),
        _ext(Ext.INTEGER, b"1e5"),
        _ext(Ext.INTEGER, b"1" * 1025),
        _ext(Ext.TEXT, b"\xff"),
        _ext(Ext.TUPLE, b""),
        _ext(Ext.TUPLE, b"\x91"),
        _ext(Ext.TUPLE, b"\x90\x90"),
        b"\xc7\x05\x04\x90",
        b"",
        b"\xc1",
        b"\x90\x90",
        b"\xa2\xff\xff",
        b"\xa1",
        b"\xdd",
    ],
    ids=lambda data: data[:24].hex(),
)
def test_a_body_that_says_nothing_sensible_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Codec(Careless()).decode(data)


@each_row("content", [0, 1, 2, 3])
def test_however_a_vocabulary_fails_the_bytes_are_not_to_blame(content: int) -> None:
    with pytest.raises(UnfitValueError, match="that no class accepts"):
        Codec(Careless()).decode(_ext(Ext.MODEL, bytes([content])))


@each_row(
    ("scalar", "is_unfit"),
    [
        (["date", "2024-02-30"], True),
        (["uuid", "x"], True),
        (["decimal", "x"], True),
        (["colour", "red"], True),
        (["path", 5], True),
        (["decimal", "1e9999"], False),
        (["path", "x" * 5000], False),
    ],
)
def test_a_scalar_that_is_none_is_unfit_and_one_over_its_cap_is_not(scalar: list[Any], is_unfit: bool) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        Codec().decode(_ext(Ext.SCALAR, msgpack.packb(scalar)))
    assert isinstance(caught.value, UnfitValueError) is is_unfit


def test_an_object_is_unfit_where_data_stands_and_broken_without_row() -> None:
    with pytest.raises(UnfitValueError, match="only data"):
        Codec().decode(_ext(Ext.HANDLE, bytes(4)), [NO_OBJECT])
    with pytest.raises(RemoteProtocolError, match="row 1 of a table of 1"):
        Codec().decode(_ext(Ext.HANDLE, b"\0\0\0\1"), [NO_OBJECT])


def test_what_is_said_of_a_refused_model_names_the_field_and_not_the_value() -> None:
    fields = msgpack.packb(["ToolResult", {"success": True, "error": "secret"}])
    with pytest.raises(UnfitValueError, match=r"ToolResult\.error: Input should be") as caught:
        Codec(ContractVocabulary()).decode(_ext(Ext.MODEL, fields))
    assert "secret" not in str(caught.value)


def test_bytes_behind_an_extensions_value_escape_no_cap() -> None:
    # The junk looks like the head of a long string over all that follows; the list behind it is far too deep.
    hidden = b"\x91" * 500 + b"\xc0"
    junk = b"\xdb" + (len(hidden) + 100).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError):
        Codec().decode(b"\x92" + _ext(Ext.TUPLE, b"\x90" + junk) + hidden)
