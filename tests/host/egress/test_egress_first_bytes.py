"""Telling what a client speaks from its first bytes, byte by byte."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.egress.first_bytes import MAX_LINE_BYTES, ClientProtocol, client_protocol_of
from support.examples import examples
from support.rows import each_row

OPENINGS = [
    (b"\x16\x03\x01", ClientProtocol.TLS),
    (b"\x16\x03\x03\x00\x05", ClientProtocol.TLS),
    (b"\x15\x03\x01\x00\x02\x01\x5a\x16\x03\x01", ClientProtocol.TLS),  # a warning, which some servers read past
    (b"\x14\x03\x01", ClientProtocol.TLS),
    (b"\x16\x01\x01\x00\x05", ClientProtocol.TLS),  # no version of TLS, and some servers take it
    (b"\x16\x0f", ClientProtocol.TLS),
    (b"\x16\x10", ClientProtocol.OTHER),
    (b"\x15\x00", ClientProtocol.TLS),
    (b"\x15\x10", ClientProtocol.OTHER),
    (b"\x80\x2e\x01\x03\x01", ClientProtocol.OTHER),  # the hello of SSL 2
    (b"GET / HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"GET ", ClientProtocol.HTTP),
    (b"GET\t/", ClientProtocol.HTTP),
    (b"GET /\r\n", ClientProtocol.HTTP),
    (b"CONNECT x:443 HTTP/1.1", ClientProtocol.HTTP),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ClientProtocol.HTTP),
    (b"PROPFIND /dav HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"M-SEARCH * HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"get / http/1.1\r\n", ClientProtocol.HTTP),
    (b"Get / HTTP/1.1\n", ClientProtocol.HTTP),
    (b"\r\n\r\nGET / HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"\n \t\r\nFROB   /  HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"FROB / HTTP/9.9 and more\r\n", ClientProtocol.HTTP),
    (b"FROB / HTTP/1.1\x00\r\n", ClientProtocol.HTTP),
    (b"FROB / HTTP/\x00", ClientProtocol.HTTP),
    (b"FROB /\x00 HTTP/1.1\r\n", ClientProtocol.OTHER),
    (b"FROB /" + b"a" * MAX_LINE_BYTES, ClientProtocol.HTTP),
    (b"A" * MAX_LINE_BYTES, ClientProtocol.HTTP),
    (b"\r\n" * (MAX_LINE_BYTES // 2), ClientProtocol.HTTP),
    (b"\x0bGET / HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"\x85\xa0FROB / HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"GET\x1c/ HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"GET\xa0/ HTTP/1.1\r\n", ClientProtocol.HTTP),
    (b"SSH-2.0-OpenSSH_9.2\r\n", ClientProtocol.OTHER),
    (b"SSH-2.0-client a comment\r\n", ClientProtocol.OTHER),
    (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", ClientProtocol.OTHER),  # PostgreSQL
    (b"*1\r\n$4\r\nPING\r\n", ClientProtocol.OTHER),  # Redis
    (b"get key\r\n", ClientProtocol.OTHER),  # memcached
    (b"EHLO me.test\r\n", ClientProtocol.OTHER),
    (b"\xff\xfe", ClientProtocol.OTHER),
    (b"{}", ClientProtocol.OTHER),
]

UNDECIDED = [
    b"",
    b"\x16",
    b"\x15",
    b"G",
    b"GET",
    b"\r\n\r\n",
    b"FROB",
    b"FROB ",
    b"FROB / HTT",
    b"get key",
    b"A" * (MAX_LINE_BYTES - 1),
]


@each_row(("data", "opening"), OPENINGS)
def test_the_first_bytes_tell_what_is_spoken(data: bytes, opening: ClientProtocol) -> None:
    assert client_protocol_of(data) is opening
    assert client_protocol_of(bytearray(data)) is opening


@each_row(("data", "opening"), [row for row in OPENINGS if len(row[0]) < 100])
def test_what_was_told_once_stays_so_however_the_bytes_arrive(data: bytes, opening: ClientProtocol) -> None:
    told = [client_protocol_of(data[:size]) for size in range(len(data) + 1)]
    decided = [one for one in told if one is not None]
    assert set(decided) == {opening}
    assert told[-len(decided) :] == decided


@each_row("data", UNDECIDED)
def test_too_few_bytes_tell_nothing_yet(data: bytes) -> None:
    assert client_protocol_of(data) is None


@settings(max_examples=examples(500), deadline=None, database=None)
@given(st.binary(max_size=200) | st.text("GETHP/1. \t\r\n", max_size=60).map(str.encode), st.binary(max_size=50))
def test_any_bytes_are_told_or_wait_for_more_and_more_never_changes_it(data: bytes, more: bytes) -> None:
    opening = client_protocol_of(data)
    assert opening is None or client_protocol_of(data + more) is opening


@settings(max_examples=examples(100), deadline=None, database=None)
@given(st.integers(0, 255), st.integers(MAX_LINE_BYTES, MAX_LINE_BYTES + 100))
def test_so_many_bytes_always_decide(byte: int, size: int) -> None:
    assert client_protocol_of(bytes([byte]) * size) is not None
