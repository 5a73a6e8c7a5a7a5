"""The protocol's messages: JSON-RPC, one message a line; pure, without input or output.

Bytes go through `Lines`, and each line through `read`, which returns a message for any bytes at all: a line that breaks
a rule is a `Malformed` that says which. Bounds are judged before a line is kept or what it says is built. `request`,
`notification`, `answer` and `failure` write the bytes of a message.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

MODERN: Final = "2026-07-28"  # no handshake: each request says its version, and no request comes from a server
HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSIONS: Final = (MODERN, *HANDSHAKE_VERSIONS)

# Keys of `_meta`, in requests of the modern era; the last two stand in results and notifications.
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024  # as a frame between host and worker, which has to carry it on
MAX_DEPTH: Final = 48  # a frame between host and worker has 64, and some of them around this
MAX_VALUES: Final = 1 << 18  # 16 MiB of empty lists would else become half a GiB
MAX_NAME_CHARACTERS: Final = 256  # of an id and a method
MAX_INTEGER_ID: Final = (1 << 53) - 1  # what every implementation of JSON reads exactly
_SHOWN_BYTES: Final = 200

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_JSONRPC: Final = rb'\s*"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST_ID: Final = re.compile(rb'\s*\{(?:%s,)?\s*"id"\s*:\s*(\d{1,15})\s*,' % _JSONRPC)
_LAST_ID: Final = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,%s)?\}\s*$' % _JSONRPC)

_TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"

Id = int | str
Json = Mapping[str, Any]


class Code(IntEnum):
    """The codes of failures that the protocol names."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    UNSUPPORTED_VERSION = -32022


@dataclass(frozen=True, slots=True)
class Request:
    """A request, which wants an answer or a failure with its id."""

    id: Id
    method: str
    params: Json


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that wants no answer."""

    method: str
    params: Json


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the request with that id."""

    id: Id
    result: Json


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that a request ended with; without an id, the other side could not read which one it was."""

    id: Id | None
    code: int
    message: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is no message.

    `code` is what to answer a client with, `problem` ends a sentence that begins with the sender ("is not JSON: …"),
    `shown` are the first 200 bytes at most, escaped, and `id` that of the message, where it could be read. `is_text`
    says that the line does not even begin as a message does: something that a program printed.
    """

    code: Code
    problem: str
    shown: str
    id: Id | None = None
    is_text: bool = False


Message = Request | Notification | Answer | Failure | Malformed


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line beyond the limit: its ends, 200 bytes each, and how many bytes it had."""

    ends: bytes
    length: int


class Lines:
    """Cuts a stream of bytes into lines; of one longer than `limit` bytes only the ends are kept."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._length = 0

    def feed(self, data: bytes) -> Iterator[bytes | bytearray | LongLine]:
        """Take bytes as they came, and give each line that ends in them, without its line break."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield end if not self._length and len(end) <= self._limit else self._whole(end)
        self._keep(rest)

    def end(self) -> bytes | bytearray | LongLine:
        """Return what came after the last line break."""
        return self._whole(b"")

    def _keep(self, data: bytes) -> None:
        self._kept += data
        self._length += len(data)
        if self._length > self._limit:
            del self._kept[_SHOWN_BYTES:-_SHOWN_BYTES]

    def _whole(self, end: bytes) -> bytearray | LongLine:
        self._keep(end)
        kept, length = self._kept, self._length
        self._kept, self._length = bytearray(), 0
        return kept if length <= self._limit else LongLine(bytes(kept), length)


def read(line: bytes | bytearray | LongLine) -> Message | None:
    """Return the message of a line, or None for an empty one; nothing is raised, for bytes from anywhere."""
    if isinstance(line, LongLine):
        problem = f"has {line.length} bytes, and {MAX_MESSAGE_BYTES} are allowed"
        return Malformed(Code.INVALID_REQUEST, problem, _shown(line.ends), _id_at_ends(line.ends))
    if not line or line.isspace():
        return None
    said = None
    try:
        said = _parsed(line)
        return _message(said)
    except _NotAMessageError as error:
        code, problem = Code.INVALID_REQUEST, str(error)
    except ValueError as error:
        code, problem = Code.PARSE_ERROR, f"is not JSON: {error}"
    id = said.get("id") if isinstance(said, dict) else _id_at_ends(line)
    is_text = not line.lstrip().startswith((b"{", b"["))
    return Malformed(code, problem, _shown(line), id if _is_id(id) else None, is_text)


def request(id: Id, method: str, params: Json) -> bytes:
    """Return the line of a request."""
    return _line({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def notification(method: str, params: Json) -> bytes:
    """Return the line of a notification."""
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def answer(id: Id, result: Json) -> bytes:
    """Return the line that answers a request."""
    return _line({"jsonrpc": "2.0", "id": id, "result": result})


def failure(id: Id | None, code: int, message: str, data: Any = None) -> bytes:
    """Return the line that says why a request failed."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return _line({"jsonrpc": "2.0", "id": id, "error": error})


def _line(message: Json) -> bytes:
    """Write a message; ASCII, so that half a surrogate pair, which JavaScript cuts off, is a message as well.

    Raises:
        ValueError, TypeError: JSON cannot say a value in it.
    """
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class _NotAMessageError(Exception):
    """JSON that breaks a rule of messages; the text says which."""


def _parsed(line: bytes | bytearray) -> Any:
    """Return what a line says.

    Raises:
        _NotAMessageError: it is nested too deep, has too many values, or a number that JSON has not.
        ValueError: it is not JSON.
    """
    # Commas in text count as well, so what has too many values that way is counted again without its strings.
    opened = line.count(b"[") + line.count(b"{")
    if opened + line.count(b",") >= MAX_VALUES and _values(_STRING.sub(b"", line)) > MAX_VALUES:
        raise _NotAMessageError(f"has more than {MAX_VALUES} values")
    try:
        said = _DECODER.decode(line.decode())
    except RecursionError:
        raise _NotAMessageError(_TOO_DEEP) from None
    if opened > MAX_DEPTH and _is_deep(said):
        raise _NotAMessageError(_TOO_DEEP)
    return said


def _values(line: bytes) -> int:
    """Return how many values a line without strings has; an empty container with a space in it counts as two."""
    opened = line.count(b"[") + line.count(b"{") - line.count(b"[]") - line.count(b"{}")
    return 1 + opened + line.count(b",")


def _is_deep(said: Any) -> bool:
    level = [said]
    for _ in range(MAX_DEPTH):
        inside = [value.values() if isinstance(value, dict) else value for value in level]
        level = [value for values in inside for value in values if isinstance(value, (dict, list))]
    return bool(level)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NotAMessageError(f"has the number {text[:_SHOWN_BYTES]}")
    return number


_DECODER: Final = json.JSONDecoder(parse_float=_number, parse_constant=_number)


def _message(said: Any) -> Message:
    """Return the message that a value of JSON is.

    Raises:
        _NotAMessageError: it is none.
    """
    if not isinstance(said, dict):
        raise _NotAMessageError("is a batch, which is not taken" if isinstance(said, list) else "is no object")
    if said.get("jsonrpc") != "2.0":
        raise _NotAMessageError('does not say "jsonrpc": "2.0"')
    kinds = [kind for kind in ("method", "result", "error") if kind in said]
    if len(kinds) != 1:
        raise _NotAMessageError('has to have one of "method", "result" and "error"')
    kind = kinds[0]
    id: Any = said.get("id")
    value = said[kind]
    needs_id = kind == "result" or (kind == "method" and "id" in said)
    if not (_is_id(id) if needs_id else id is None or _is_id(id)):
        raise _NotAMessageError('has an "id" that is neither a whole number nor a short text')
    if kind == "result":
        if not isinstance(value, dict):
            raise _NotAMessageError('has a "result" that is no object')
        return Answer(id, value)
    if kind == "error":
        match value:
            case {"code": int(code), "message": str(message)} if type(code) is int:
                return Failure(id, code, message, value.get("data"))
        raise _NotAMessageError('has an "error" without a whole "code" and a "message"')
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARACTERS:
        raise _NotAMessageError('has a "method" that is no short text')
    params = said.get("params")
    if not isinstance(params, dict | None):
        raise _NotAMessageError('has "params" that are no object')
    return Request(id, value, params or {}) if needs_id else Notification(value, params or {})


def _is_id(id: Any) -> bool:
    if isinstance(id, str):
        return len(id) <= MAX_NAME_CHARACTERS
    return type(id) is int and abs(id) <= MAX_INTEGER_ID


def _id_at_ends(line: bytes | bytearray) -> int | None:
    """Return the id in a line that cannot be read; some write it first, others last."""
    found = _FIRST_ID.match(line) or _LAST_ID.search(line, max(0, len(line) - _SHOWN_BYTES))
    return int(found[1]) if found else None


def _shown(line: bytes | bytearray) -> str:
    return repr(bytes(line[:_SHOWN_BYTES]))[2:-1] + ("…" if len(line) > _SHOWN_BYTES else "")
