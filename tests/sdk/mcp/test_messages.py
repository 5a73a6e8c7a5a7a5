"""Messages are read from any bytes: each is what it says, or names the rule that it breaks."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock_sdk.mcp import messages
from paddock_sdk.mcp.messages import Answer, Code, Failure, Lines, LongLine, Malformed, Notification, Request
from support.examples import examples
from support.rows import each_row


def _line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


@each_row(
    "line, message",
    [
        (_line(id=1, method="ping"), Request(1, "ping", {})),
        (_line(id="a", method="ping", params={"x": [1]}), Request("a", "ping", {"x": [1]})),
        (_line(id=0, method="ping", params=None), Request(0, "ping", {})),
        (_line(method="notifications/initialized"), Notification("notifications/initialized", {})),
        (_line(id=1, result={"x": 1.5}) + b"\r", Answer(1, {"x": 1.5})),
        (_line(id=1, error={"code": -32601, "message": "no"}), Failure(1, -32601, "no")),
        (_line(id=None, error={"code": 1, "message": "no", "data": [2]}), Failure(None, 1, "no", [2])),
        (_line(id=1, result={"x": "\ud800"}), Answer(1, {"x": "\ud800"})),
        (b"", None),
        (b" \r", None),
    ],
)
def test_what_a_line_says_is_read(line: bytes, message: object) -> None:
    assert messages.read(line) == message


def _nested(levels: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"result":' + b'{"a":' * (levels - 1) + b"{}" + b"}" * levels


def _many(values: int) -> bytes:
    """Return a message of so many values, five of which are around empty lists."""
    return b'{"result":{"a":[' + b"[]," * (values - 6) + b'[]]},"jsonrpc":"2.0","id":7}'


_PARSE, _INVALID = Code.PARSE_ERROR, Code.INVALID_REQUEST


@each_row(
    "line, code, problem, id, is_text",
    [
        (b"listening on stdio", _PARSE, "is not JSON: Expecting value", None, True),
        (b"42", _INVALID, "is no object", None, True),
        (b'"x"', _INVALID, "is no object", None, True),
        (b"\xff\xfe", _PARSE, "is not JSON: 'utf-8' codec", None, True),
        (b'{"id":7,', _PARSE, "is not JSON: Expecting property", 7, False),
        (b'{"jsonrpc":"2.0", "id": 7, "result": \xff}', _PARSE, "is not JSON: 'utf-8' codec", 7, False),
        (b"[" + _line(id=1, result={}) + b"]", _INVALID, "is a batch", None, False),
        (b'{"id":7,"result":{}}', _INVALID, 'does not say "jsonrpc": "2.0"', 7, False),
        (b'{"jsonrpc":2.0,"id":7,"result":{}}', _INVALID, 'does not say "jsonrpc": "2.0"', 7, False),
        (_line(id=7), _INVALID, 'has to have one of "method", "result" and "error"', 7, False),
        (_line(id=7, result={}, error={}), _INVALID, 'has to have one of "method"', 7, False),
        (_line(result={}), _INVALID, 'has an "id" that', None, False),
        (_line(id=None, result={}), _INVALID, 'has an "id" that', None, False),
        (_line(id=None, method="x"), _INVALID, 'has an "id" that', None, False),
        (_line(id=True, result={}), _INVALID, 'has an "id" that', None, False),
        (_line(id=1.5, result={}), _INVALID, 'has an "id" that', None, False),
        (_line(id=[7], result={}), _INVALID, 'has an "id" that', None, False),
        (_line(id=1 << 53, result={}), _INVALID, 'has an "id" that', None, False),
        (_line(id="x" * 257, result={}), _INVALID, 'has an "id" that', None, False),
        (_line(id=7, result=[]), _INVALID, 'has a "result" that is no object', 7, False),
        (_line(id=7, error="no"), _INVALID, 'has an "error" without', 7, False),
        (_line(id=7, error={"code": True, "message": ""}), _INVALID, 'has an "error" without', 7, False),
        (_line(id=7, error={"code": 1}), _INVALID, 'has an "error" without', 7, False),
        (_line(id=7, method=1), _INVALID, 'has a "method" that is no short text', 7, False),
        (_line(id=7, method="x" * 257), _INVALID, 'has a "method" that is no short text', 7, False),
        (_line(id=7, method="x", params=[1]), _INVALID, 'has "params" that are no object', 7, False),
        (_line(id=7, result={"x": float("nan")}), _INVALID, "has the number NaN", 7, False),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":1e999}}', _INVALID, "has the number 1e999", 7, False),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":%s}}' % (b"1" * 5000), _PARSE, "is not JSON: Exceeds", 7, False),
        (_nested(messages.MAX_DEPTH), _INVALID, "is nested deeper than 48 levels", 7, False),
        (_nested(100_000), _INVALID, "is nested deeper than 48 levels", 7, False),
        (_many(messages.MAX_VALUES + 1), _INVALID, "has more than 262144 values", 7, False),
        (
            LongLine(b'{"jsonrpc":"2.0","id":7,"result":' + b"x" * 400, 17 << 20),
            _INVALID,
            "has 17825792 bytes",
            7,
            False,
        ),
        (
            LongLine(b'{"result":{"x":"' + b"x" * 400 + b'"},"jsonrpc":"2.0","id":7}', 17 << 20),
            _INVALID,
            "has",
            7,
            False,
        ),
        (LongLine(b'{"result":{"x":"' + b"x" * 400 + b'","id":7}}', 17 << 20), _INVALID, "has", None, False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_line_names_the_rule_that_it_breaks(
    line: bytes | LongLine, code: Code, problem: str, id: int | None, is_text: bool
) -> None:
    found = messages.read(line)
    assert isinstance(found, Malformed)
    assert (found.code, found.id, found.is_text) == (code, id, is_text)
    assert found.problem.startswith(problem)


@each_row(
    "line", [_nested(messages.MAX_DEPTH - 1), _many(messages.MAX_VALUES), _line(id=1, result={"a": "[{," * 90_000})]
)
def test_a_line_at_a_bound_is_read(line: bytes) -> None:
    assert isinstance(messages.read(line), Answer)


def test_a_wrong_line_is_shown_in_200_bytes_and_escaped() -> None:
    found = messages.read(b"\x1b[31m\xe2\x80\xae" + b"x" * 500)
    assert isinstance(found, Malformed)
    assert found.shown == r"\x1b[31m\xe2\x80\xae" + "x" * 192 + "…"
    assert found.shown.isprintable()


@settings(max_examples=examples(300))
@given(st.binary() | st.binary().map(lambda data: b'{"jsonrpc":"2.0","id":1,' + data))
def test_bytes_from_anywhere_raise_nothing(data: bytes) -> None:
    messages.read(data)


_JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
_OBJECTS = st.dictionaries(st.text(), _JSON, max_size=3)
_IDS = st.integers(-messages.MAX_INTEGER_ID, messages.MAX_INTEGER_ID) | st.text(max_size=messages.MAX_NAME_CHARACTERS)


@settings(max_examples=examples(200))
@given(_IDS, st.text(max_size=50), _OBJECTS, _JSON, st.integers(min_value=1, max_value=50))
def test_what_is_written_is_read_in_any_pieces(id: int | str, text: str, values: Any, data: Any, size: int) -> None:
    written = messages.request(id, text, values) + messages.notification(text, values)
    written += messages.answer(id, values) + messages.failure(id, -1, text, data) + messages.failure(None, -1, text)
    assert written.isascii()
    lines = Lines()
    pieces = [written[at : at + size] for at in range(0, len(written), size)]
    found = [messages.read(line) for piece in pieces for line in lines.feed(piece)]
    assert found == [
        Request(id, text, values),
        Notification(text, values),
        Answer(id, values),
        Failure(id, -1, text, data),
        Failure(None, -1, text),
    ]


@settings(max_examples=examples(200))
@given(st.lists(st.integers(0, 1000)), st.integers(1, 600), st.integers(0, 600))
def test_lines_longer_than_the_limit_keep_their_ends(lengths: list[int], size: int, limit: int) -> None:
    whole = [bytes(at % 251 + 11 & 0xFF for at in range(length)).replace(b"\n", b" ") for length in lengths]
    stream = b"".join(line + b"\n" for line in whole) + b"rest"
    lines = Lines(limit)
    found = [line for at in range(0, len(stream), size) for line in lines.feed(stream[at : at + size])]
    found.append(lines.end())
    for line, expected in zip(found, [*whole, b"rest"], strict=True):
        if len(expected) <= limit:
            assert line == expected
        else:
            ends = expected if len(expected) <= 400 else expected[:200] + expected[-200:]
            assert line == LongLine(ends, len(expected))


def test_a_line_without_end_takes_no_more_memory_than_the_limit() -> None:
    lines = Lines(1 << 20)
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(200):
            assert not list(lines.feed(chunk))
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()
