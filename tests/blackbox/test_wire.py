"""What goes over the wire is, byte for byte, what it was, and `sdk/PROTOCOL.md` gives the same numbers."""

from __future__ import annotations

import pytest

import paddock_sdk.protocol as protocol
from blackbox.frozen import assert_as_frozen, frozen
from blackbox.wire_transcript import tables, transcript
from support.rows import each_row


def test_a_conversation_is_the_same_bytes() -> None:
    assert_as_frozen("wire", {"conversation": transcript(), "tables": tables()})


def test_a_conversation_has_every_kind_of_the_page() -> None:
    kinds = {int(line.split(": ")[1][8:10], 16) for line in frozen("wire")["conversation"]}
    named = {int(row.split(" | ")[0]): row.split(" | ")[1] for row in frozen("wire")["tables"]["Kinds"]}
    assert kinds == {*named}
    assert named == {int(kind): kind.name.lower() for kind in protocol.Kind if int(kind) in named}


def test_limits_and_version_are_those_of_the_page() -> None:
    found = [protocol.PROTOCOL_VERSION, protocol.MAX_FRAME_BYTES, protocol.MAX_HANDLES, protocol.MAX_DEPTH]
    assert [*found, protocol.MAX_ELEMENTS] == [1, 16 << 20, 1024, 64, 262144]


@each_row("data", ["00000015" + "00" * 21, "00000016" + "63" + "00" * 21, "ffffffff"])
def test_what_breaks_the_protocol_ends_a_connection(data: str) -> None:
    with pytest.raises(protocol.RemoteProtocolError):
        protocol.Connection(protocol.Role.HOST).receive_data(bytes.fromhex(data))
