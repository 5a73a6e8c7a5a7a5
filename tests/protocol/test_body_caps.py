"""The scan that guards a body counts exactly what a body holds, however it was packed."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sdk.contract.models import HookResult, ToolResult
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import MAX_DEPTH, RemoteProtocolError
from paddock_sdk.protocol import caps as caps_module
from paddock_sdk.protocol.body import Codec, EncodeError, unpack_prefix
from paddock_sdk.protocol.caps import check_caps, end_of_value, kept_count, weight_of
from support.rows import each_row

from .wire_inputs import thorough


@dataclass(frozen=True)
class Packed:
    """Some msgpack, with what it holds counted as it was put together."""

    data: bytes
    values: int = 1
    depth: int = 0


def _head(draw: st.DrawFn, size: int, fixed: int | None, wide: list[int]) -> bytes:
    """Return a head that announces `size`, not always the shortest; `fixed` takes a size below 16 into itself."""
    choices = [(head, width) for head, width in zip(wide, (4, 2, 1), strict=False) if size < 1 << 8 * width]
    if fixed is not None and size < 16:
        choices.append((fixed, 0))
    head, width = draw(st.sampled_from(choices))
    return bytes([head | size]) if width == 0 else bytes([head]) + size.to_bytes(width, "big")


@st.composite
def leaves(draw: st.DrawFn) -> Packed:
    """A value that holds no others."""
    match draw(st.sampled_from(["fixed", "number", "text", "binary", "opaque extension", "sized extension"])):
        case "fixed":
            return Packed(bytes([draw(st.sampled_from([*range(0x80), 0xC0, 0xC2, 0xC3, *range(0xE0, 0x100)]))]))
        case "number":
            head = draw(st.sampled_from(range(0xCA, 0xD4)))
            size = {0xCA: 4, 0xCB: 8}.get(head, 1 << (head - 0xCC) % 4)
            return Packed(bytes([head]) + draw(st.binary(min_size=size, max_size=size)))
        case "text":
            text = draw(st.binary(max_size=40))
            return Packed(_head(draw, len(text), 0xA0, [0xDB, 0xDA, 0xD9]) + text)
        case "binary":
            data = draw(st.binary(max_size=40))
            return Packed(_head(draw, len(data), None, [0xC6, 0xC5, 0xC4]) + data)
        case "opaque extension":
            data = draw(st.binary(max_size=40))
            code = draw(st.sampled_from([0, 1, 7, 9, 10, 77, 0xFE]))
            return Packed(_head(draw, len(data), None, [0xC9, 0xC8, 0xC7]) + bytes([code]) + data)
        case _:
            power = draw(st.integers(0, 4))
            data = draw(st.binary(min_size=1 << power, max_size=1 << power))
            return Packed(bytes([0xD4 + power, draw(st.sampled_from([1, 9, 10]))]) + data)


@st.composite
def containers(draw: st.DrawFn, inner: st.SearchStrategy[Packed]) -> Packed:
    """A value around others: an array, a map, or an extension whose content counts."""
    kind = draw(st.sampled_from(["array", "map", "extension"]))
    if kind == "extension":
        content = draw(inner)
        code = bytes([draw(st.sampled_from([2, 3, 4, 5, 6, 8]))])
        size = len(content.data)
        if size in (1, 2, 4, 8, 16) and draw(st.booleans()):
            head = bytes([0xD4 + size.bit_length() - 1])
        else:
            head = _head(draw, size, None, [0xC9, 0xC8, 0xC7])
        return Packed(head + code + content.data, 1 + content.values, 1 + content.depth)
    parts = draw(st.lists(inner, max_size=4))
    if kind == "map":
        parts += [draw(inner) for _ in parts]
        head = _head(draw, len(parts) // 2, 0x80, [0xDF, 0xDE])
    else:
        head = _head(draw, len(parts), 0x90, [0xDD, 0xDC])
    data = head + b"".join(part.data for part in parts)
    return Packed(data, 1 + sum(part.values for part in parts), max((1 + part.depth for part in parts), default=0))


packed = st.recursive(leaves(), lambda inner: containers(inner), max_leaves=30)


def _passes(data: bytes, depth: int, values: int) -> bool:
    with mock.patch.object(caps_module, "MAX_DEPTH", depth):
        try:
            weight_of(data, max_values=values)
        except RemoteProtocolError:
            return False
        return True


@thorough
@given(whole=packed)
def test_the_scan_counts_every_value_and_every_level_and_no_more(whole: Packed) -> None:
    assert _passes(whole.data, whole.depth, whole.values)
    if whole.depth:
        assert not _passes(whole.data, whole.depth - 1, whole.values)
        assert not _passes(whole.data, whole.depth, whole.values - 1)


@thorough
@given(whole=packed, rest=st.binary(max_size=20))
def test_the_scan_ends_where_the_value_ends(whole: Packed, rest: bytes) -> None:
    assert end_of_value(whole.data + rest) == len(whole.data)
    assert end_of_value(memoryview(whole.data)) == len(whole.data)


@thorough
@given(whole=packed, keep=st.integers(0, 10_000))
def test_a_body_cut_short_is_never_counted_past_its_end(whole: Packed, keep: int) -> None:
    kept = whole.data[: keep % len(whole.data)]
    assert end_of_value(kept) == len(kept)
    with pytest.raises(RemoteProtocolError):
        unpack_prefix(kept)


@thorough
@given(whole=packed, small=st.integers(1, 24), run=st.integers(0, 24), keep=st.integers(0, 10_000))
def test_passing_over_whole_values_misses_no_level(whole: Packed, small: int, run: int, keep: int) -> None:
    with (
        mock.patch.object(caps_module, "_TRANSLATE_BELOW_BYTES", small),
        mock.patch.object(caps_module, "_RUN_BYTES", run),
    ):
        with mock.patch.object(caps_module, "MAX_DEPTH", whole.depth):
            check_caps(whole.data)
            check_caps(whole.data[: keep % len(whole.data)])  # what is missing is for msgpack to say
        if whole.depth:
            with mock.patch.object(caps_module, "MAX_DEPTH", whole.depth - 1), pytest.raises(RemoteProtocolError):
                check_caps(whole.data)


@thorough
@given(whole=packed, least=st.integers(1, 4), inside=st.integers(0, 3), short=st.integers(0, 20))
def test_a_list_counts_alike_whether_its_elements_were_met_or_not(
    whole: Packed, least: int, inside: int, short: int
) -> None:
    kept_count.cache_clear()
    with (
        mock.patch.object(caps_module, "_LIST_MIN", least),
        mock.patch.object(caps_module, "_ELEMENT_LEVELS", inside),
        mock.patch.object(caps_module, "_ELEMENT_BYTES", short),
    ):
        for _ in range(2):
            assert _counts(whole.data, whole.depth, whole.values)
            if whole.depth:
                assert not _counts(whole.data, whole.depth - 1, whole.values)
                assert not _counts(whole.data, whole.depth, whole.values - 1)
            with pytest.raises(RemoteProtocolError):
                unpack_prefix(whole.data[:-1])


def _counts(data: bytes, depth: int, values: int) -> bool:
    with mock.patch.object(caps_module, "MAX_DEPTH", depth), mock.patch.object(caps_module, "MAX_ELEMENTS", values):
        try:
            return end_of_value(data) == len(data)
        except RemoteProtocolError:
            return False


@pytest.mark.parametrize(
    "bad",
    [b"\x91" * 70, b"\xd6\xff1234", b"\xc1", b"\x82\xa1k\x01\xa1k\x02"],
    ids=["deep", "timestamp", "no value", "a key twice"],
)
def test_what_is_wrong_among_known_messages_is_still_found(bad: bytes) -> None:
    message = msgpack.packb({"role": "user", "content": "x" * 1500})
    for end in (b"\x01", bad, b"\x02"):
        body = b"\xdc" + (301).to_bytes(2, "big") + message * 300 + end
        if end is bad:
            with pytest.raises(RemoteProtocolError):
                Codec().decode(body)
        else:
            assert Codec().decode(body)[-1] == end[0]


def test_counts_are_kept_of_short_elements_and_not_of_all() -> None:
    kept_count.cache_clear()
    for size in (1500, 3000):  # either body is longer than what is judged without a count
        check_caps(msgpack.packb([{"number": number, "text": "x" * size} for number in range(300)]))
    check_caps(msgpack.packb([{"number": number, "text": "x" * 200} for number in range(5000)]))
    kept = kept_count.cache_info().currsize
    assert 300 < kept <= 2048


@thorough
@given(whole=packed, levels=st.integers(50, 80), large=st.booleans())
def test_the_quick_look_and_the_scan_agree_with_the_count(whole: Packed, levels: int, large: bool) -> None:
    data, depth = b"\x91" * levels + whole.data, levels + whole.depth
    if large:
        data, depth = b"\x92\xc5\x20\x00" + bytes(0x2000) + data, depth + 1
    if depth <= MAX_DEPTH:
        check_caps(data)
    else:
        with pytest.raises(RemoteProtocolError, match="nested deeper"):
            check_caps(data)


_SMALL: list[Any] = [[], {}, {0: 0}, {"key": 1.5}, [1.5], (1.5,), "ab", set(), frozenset({1}), Path("a"), 1 << 70]
_WIDE = [letter + "x" * 300 for letter in ("\u00e9", "\u20ac", "\U0001f600", "\ud800")]
_LARGE: list[Any] = [b"x" * 300, "x" * 300, "\u00e9" * 300, *_WIDE]


@pytest.mark.costly
@pytest.mark.parametrize(
    "value",
    [*_SMALL, *_LARGE, HookResult(), ToolResult(), ValueError("x"), Exception()],
    ids=lambda value: f"{value!a:.20}",
)
def test_a_value_weighs_about_what_it_takes_in_memory(value: Any) -> None:
    many, codec = 500, Codec(ContractVocabulary())
    body, _ = codec.encode([value] * many, live_objects=False)
    codec.decode(body)  # whatever is made on first use
    gc.freeze()
    gc.collect()  # of all that it sees, which is nothing: only so is memory released that is kept for the next objects
    tracemalloc.start()
    decoded = codec.decode(body)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(decoded) == many
    assert taken / 1.5 <= weight_of(body)  # what an object takes differs a little between versions of Python
    assert weight_of(body) <= len(body) * 5 + 64 * 24 * many


def test_text_weighs_its_bytes_and_what_is_over_the_callers_cap_is_refused() -> None:
    codec = Codec()
    assert weight_of(codec.encode("x" * 1_000_000)[0]) < 1_001_000
    body, _ = codec.encode([[]] * 100)
    assert weight_of(body, max_values=101) == len(body) + 64 * 101
    with pytest.raises(RemoteProtocolError, match="more than 100 values"):
        weight_of(body, max_values=100)


@each_row("levels", [100, 600, 100_000])
def test_a_value_that_is_nested_too_deep_is_refused_in_words(levels: int) -> None:
    deep: list[object] = []
    for _ in range(levels):
        deep = [deep]
    for value in (deep, (deep,), {"lone": "\ud800", "deep": deep}):
        with pytest.raises(EncodeError, match="nested deeper than 64"):
            Codec().encode(value)


def test_a_value_that_holds_itself_is_refused_in_words() -> None:
    itself: list[object] = []
    itself.append(itself)
    for value in (itself, (itself,), {"lone": "\ud800", "itself": itself}):
        with pytest.raises(EncodeError, match="nested deeper than 64, or holds itself, cannot be sent"):
            Codec().encode(value)
