"""A conversation of a host and a worker in every kind of frame, as bytes, and the tables of `sdk/PROTOCOL.md`.

Bodies are written by hand, as msgpack has them, so that a transcript depends on nothing but the frames.
"""

from __future__ import annotations

import re
from typing import Any

from blackbox.commands import REPOSITORY
from paddock_sdk.protocol import Connection, Flag, HandleEntry, HandleSide, Role

_NIL = b"\xc0"
_CALL = b"\x92\x90\x80"  # [[], {}]
_HELLO = b"\x83\xa8protocol\x01\xa6module\xa4tool\xa3pid\x02"
_WELCOME = b"\x82\xa8protocol\x01\xa9frame_max\xce\x00@\x00\x00"
_EMIT = b"\x92\xa8my:event\x80"  # ["my:event", {}]
_STATE = b"\x91\x92\x91\xa4todo\x91\x01"  # [[["todo"], [1]]]
_FAILURE = b"\xc7\x11\x03\x95\x91\xaaValueError\xa0\x90\x80\xa0"


class Wire:
    """Both ends of a conversation, and its frames."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.host, self.worker = Connection(Role.HOST), Connection(Role.WORKER)

    def sent(self, sender: Connection, frame: Any) -> None:
        """Note a frame as it is on the wire, and what the other end makes of it."""
        data = frame if isinstance(frame, bytes) else frame.head + bytes(frame.body)
        receiver = self.worker if sender is self.host else self.host
        events = [f"{type(one).__name__} {[*one[:7]]} {one.handles}" for one in receiver.receive_data(data)]
        who = "host" if sender is self.host else "worker"
        self.lines.append(f"{who}: {data.hex()} -> {', '.join(events)}")


def transcript() -> list[str]:
    """Return the frames, each with who sent it and what its receiver made of it."""
    wire = Wire()
    host, worker = wire.host, wire.worker
    handed = [HandleEntry(HandleSide.SENDER, 7, b"\x96\xa1X\xc2\x90\x80\x80\x90")]
    back = [HandleEntry(HandleSide.RECEIVER, 7)]
    wire.sent(worker, worker.send_hello(_HELLO))
    wire.sent(host, host.send_welcome(_WELCOME))
    wire.sent(host, host.send_mirror(8, _STATE, target=0))
    wire.sent(host, host.send_request(0, 1, b"\x80", deadline_ms=60000)[1])  # MOUNT
    wire.sent(worker, worker.send_request(0, 8, _NIL, handed, parent=1, flags=Flag.BLOCKED)[1])
    wire.sent(host, host.send_response(1, _NIL))
    wire.sent(worker, worker.send_response(1, _NIL))
    wire.sent(worker, worker.send_request(0, 5, _EMIT)[1])
    wire.sent(host, host.send_response(2, _NIL, back))
    wire.sent(host, host.send_request(7, 0, _CALL)[1])
    wire.sent(worker, worker.send_failure(2, _FAILURE))
    wire.sent(host, host.send_request(7, 1, _CALL, flags=Flag.STREAM)[1])
    wire.sent(host, host.send_credit(3, 2))
    wire.sent(worker, worker.send_item(3, b"\x01"))
    wire.sent(worker, worker.send_item(3, b"\x02"))
    wire.sent(host, host.send_cancel(3))
    wire.sent(worker, worker.send_response(3, _NIL))
    wire.sent(worker, worker.send_notify(0, 13, _STATE))
    wire.sent(host, host.send_release(7, 1))
    wire.sent(worker, worker.send_release(7, 0))
    wire.sent(host, host.send_goodbye())
    wire.sent(worker, worker.send_goodbye())
    return wire.lines


def tables() -> dict[str, list[str]]:
    """Return the numbered rows of the page's tables, and its rows of caps, by heading; prose aside."""
    page = (REPOSITORY / "sdk/PROTOCOL.md").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for section in re.split(r"^#+ ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\|.*\|$", text, re.M)]
        kept = rows if heading == "Caps" else [row[:2] for row in rows if re.fullmatch(r"\d+|`__\w+__`", row[0])]
        if kept:
            found[heading] = [" | ".join(row) for row in kept]
    return found
