"""Write `sdk/protocol-vectors.json`: what the transcript of `wire_transcript.py` and the page say, as bytes.

`PYTHONPATH=tests python -m protocol.wire_vectors` writes it. Bytes are hexadecimal.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack

from blackbox.commands import REPOSITORY
from blackbox.wire_transcript import Wire, transcript
from paddock_sdk.contract.models import ToolResult
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import FrameDecoder, HandleEntry, HandleSide
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.caps import Ext

VECTORS = REPOSITORY / "sdk" / "protocol-vectors.json"
_CODEC = Codec(ContractVocabulary())
_FIELDS = ("kind", "flags", "method", "id", "target", "parent", "deadline")
_CALL = b"\x92\x90\x80"

# Each value with its form in JSON, where it has one.
_VALUES: dict[str, tuple[object, object]] = {
    "nil": (None, None),
    "a boolean": (True, True),
    "the largest integer that a double holds, and one more": ([2**53, 2**53 + 1], None),
    "the ends of 64 bits": ([2**64 - 1, -(2**63)], None),
    "an integer past 64 bits": (2**64, None),
    "a fraction": (0.5, 0.5),
    "no number": (float("nan"), None),
    "text": ("Zürich 😀", "Zürich 😀"),
    "text with a lone surrogate": ("\ud800", None),
    "binary": (b"\x00\xff", None),
    "an array in an array": ([[1], []], [[1], []]),
    "a map with names that mean something to JavaScript": (
        {"__proto__": 1, "constructor": 2},
        {"__proto__": 1, "constructor": 2},
    ),
    "a map with keys that are no text": ({1: "integer", "1": "text", None: "nil", b"1": "binary"}, None),
    "a tuple": ((1, "a"), None),
    "a set": ({1}, None),
    "a path": (Path("/srv"), None),
    "a decimal": (Decimal("0.10"), None),
    "a time": (dt.datetime(2024, 2, 29, 23, 59, 59, 1, dt.UTC), None),
    "a model": (ToolResult(output="12:00"), None),
    "an error": (ValueError("bad"), None),
}


def _frame(kind: int, body: bytes = b"\xc0", **fields: int) -> str:
    header = {"flags": 0, "method": 0, "id": 0, "target": 0, "parent": 0, "deadline": 0, **fields}
    sizes = zip(header.values(), (1, 2, 4, 4, 4, 4), strict=True)
    rest = bytes((kind,)) + b"".join(value.to_bytes(size, "big") for value, size in sizes) + b"\0\0" + body
    return (len(rest).to_bytes(4, "big") + rest).hex()


def _model(content: object) -> bytes:
    packed: bytes = msgpack.packb(msgpack.ExtType(Ext.MODEL, msgpack.packb(content)))
    return packed


# What a reader refuses: frames and bodies that break the protocol, and bodies that fail their call.
_REFUSED_FRAMES = {
    "a length that is less than a header's": "00000015" + "00" * 21,
    "an unknown kind": _frame(99),
    "a length over the cap": "ffffffff",
    "a handle table past the end of its frame": "00000016" + "03" + "00" * 19 + "0001",
}
_BROKEN_BODIES = {
    "no value": b"\xc1",
    "nothing": b"",
    "two values where one is due": b"\xc0\xc0",
    "a value that is cut off": b"\x92\x01",
    "the same key twice": b"\x82\xa1a\x01\xa1a\x02",
    "the same key twice, as a number and a boolean": b"\x82\x01\x01\xc3\x02",
    "an extension that is not in the list": b"\xd4\x63\x00",
    "the timestamp of msgpack": b"\xd6\xff\x00\x00\x00\x00",
    "a handle to no row": b"\xd6\x01\x00\x00\x00\x00",
    "text that is no UTF-8": b"\xa2\xff\xff",
    "65 arrays in each other": b"\x91" * 65 + b"\xc0",
    "more values than there may be": b"\xdd\x00\x04\x00\x01",
}
_MEANINGLESS_BODIES = {
    "a model of no known name": _model(["NoSuchModel", {}]),
    "a field that its model does not accept": _model(["ToolResult", {"success": False, "error": "text"}]),
    "a scalar that is none": msgpack.packb(msgpack.ExtType(Ext.SCALAR, msgpack.packb(["date", "2024-02-30"]))),
}


def vectors() -> dict[str, Any]:
    """Return the contents of the file."""
    return {
        "frames": [_of_frame(line) for line in transcript()],
        "values": [_of_value(name, *value) for name, value in _VALUES.items()],
        "refusals": {
            "frames that break the protocol": _REFUSED_FRAMES,
            "bodies that break the protocol": {name: body.hex() for name, body in _BROKEN_BODIES.items()},
            "bodies that fail their call": {name: body.hex() for name, body in _MEANINGLESS_BODIES.items()},
        },
        "session of a tool": [_of_frame(line) for line in _session()],
    }


def _of_frame(line: str) -> dict[str, Any]:
    sender, data = line.partition(" -> ")[0].split(": ")
    (frame,) = FrameDecoder().receive_data(bytes.fromhex(data))
    handles = [{"side": row.side, "id": row.id, "description": row.description.hex()} for row in frame.handles]
    fields = dict(zip(_FIELDS, map(int, frame[:7]), strict=True))
    return {"from": sender, "bytes": data, **fields, "handles": handles, "body": bytes(frame.body).hex()}


def _of_value(name: str, value: object, in_json: object) -> dict[str, Any]:
    body = _CODEC.encode(value)[0].hex()
    return {"value": name, "bytes": body} | ({"json": in_json} if in_json is not None or value is None else {})


def _session() -> list[str]:
    """Return one session of a tool: it is mounted, called twice, cancelled once, and sent home."""
    wire = Wire()
    host, worker = wire.host, wire.worker

    def body(value: object) -> bytes:
        return _CODEC.encode(value)[0]

    schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
    about = {"name": "clock", "description": "Says what time it is.", "input_schema": schema}
    clock = HandleEntry(HandleSide.SENDER, 1, body(["Clock", False, [["execute", 0]], about, {}, []]))
    wire.sent(worker, worker.send_hello(body({"protocol": 1, "module": "tool-clock", "pid": 7})))
    wire.sent(host, host.send_welcome(body({"protocol": 1, "frame_max": 4 << 20})))
    session = HandleEntry(HandleSide.SENDER, 1, body(["AmplifierSession", False, [], {}, {}, []]))
    stands_for_row_0 = msgpack.ExtType(Ext.HANDLE, bytes(4))
    state = {"session_id": "s", "parent_id": None, "config": {}, "is_resumed": False, "session": stands_for_row_0}
    wire.sent(host, host.send_mirror(1, msgpack.packb(state), [session]))
    place = {"import_root": "/m", "libraries": [], "package": "clock", "attribute": "mount", "config": {"zone": "UTC"}}
    wire.sent(host, host.send_request(0, 1, body(place))[1])
    mounting = msgpack.packb(["tools", "clock", stands_for_row_0])
    wire.sent(worker, worker.send_request(0, 8, mounting, [clock], parent=1)[1])
    wire.sent(host, host.send_response(1, b"\xc0"))
    wire.sent(worker, worker.send_response(1, body({"mounted": True, "on_session_ready": False})))
    wire.sent(host, host.send_request(1, 0, body([[{"zone": "UTC"}], {}]))[1])
    wire.sent(worker, worker.send_response(2, body(ToolResult(output="12:00"))))
    wire.sent(host, host.send_request(1, 0, body([[], {"input": {"zone": "Mars"}}]))[1])
    refused = ToolResult(success=False, error={"message": "there is no zone Mars"})
    wire.sent(worker, worker.send_response(3, body(refused)))
    wire.sent(host, host.send_request(1, 0, body([[{}], {}]))[1])
    wire.sent(host, host.send_cancel(4))
    wire.sent(worker, worker.send_failure(4, msgpack.packb(_error("CancelledError"))))
    wire.sent(host, host.send_request(1, 9, _CALL)[1])
    wire.sent(worker, worker.send_failure(5, msgpack.packb(_error("AttributeError"))))
    wire.sent(host, host.send_release(1, 1))
    wire.sent(worker, worker.send_release(1, 0))
    wire.sent(host, host.send_goodbye())
    return wire.lines


def _error(name: str) -> msgpack.ExtType:
    return msgpack.ExtType(Ext.ERROR, msgpack.packb([[name], "", [], {}, ""]))


def text() -> str:
    """Return the file's text."""
    return json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
