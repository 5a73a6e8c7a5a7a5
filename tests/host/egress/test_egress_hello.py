"""Reading which server a TLS client names: of real clients, in any pieces, and of hostile ones."""

from __future__ import annotations

import ssl
from functools import cache
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.egress.first_bytes import MAX_HELLO_BYTES, ClientHello, ClientHelloError, read_client_hello
from paddock.plan.host_name import parse_host
from support.examples import examples
from support.rows import each_row

SERVER_NAME, ALPN, ENCRYPTED_CLIENT_HELLO = 0, 16, 0xFE0D


@cache
def real_hello(name: str | None = "granted.test", **settings: object) -> bytes:
    """Return what OpenSSL sends first to a server of that name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    context.set_alpn_protocols(["h2", "http/1.1"])
    for key, value in settings.items():
        setattr(context, key, value)
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def sized(data: bytes, length_bytes: int) -> bytes:
    return len(data).to_bytes(length_bytes, "big") + data


def extension(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2, "big") + sized(data, 2)


def server_names(*names: bytes, kind: int = 0, after: bytes = b"") -> bytes:
    return extension(SERVER_NAME, sized(b"".join(bytes([kind]) + sized(name, 2) for name in names), 2) + after)


def message(
    extensions: bytes | None,
    *,
    version: bytes = b"\x03\x03",
    session: bytes = b"s" * 32,
    ciphers: bytes = b"\x13\x01\x13\x02",
    compression: bytes = b"\0",
    after: bytes = b"",
    kind: int = 1,
) -> bytes:
    body = version + b"r" * 32 + sized(session, 1) + sized(ciphers, 2) + sized(compression, 1)
    body += (b"" if extensions is None else sized(extensions, 2)) + after
    return bytes([kind]) + sized(body, 3)


def records(data: bytes, piece: int = 1 << 14, kind: int = 22) -> bytes:
    return b"".join(bytes([kind]) + b"\x03\x01" + sized(data[at : at + piece], 2) for at in range(0, len(data), piece))


def hello(*extensions: bytes) -> bytes:
    return records(message(b"".join(extensions)))


@each_row(
    "settings",
    [
        {},
        {"minimum_version": ssl.TLSVersion.TLSv1_3},
        {"maximum_version": ssl.TLSVersion.TLSv1_2},
    ],
)
def test_a_real_hello_names_its_server_once_its_last_byte_is_there(settings: dict[str, object]) -> None:
    data = real_hello(**settings)
    for size in range(len(data)):
        assert read_client_hello(data[:size]) is None
    assert read_client_hello(data) == ClientHello("granted.test", has_encrypted_hello=False)
    assert read_client_hello(bytearray(data)) == read_client_hello(memoryview(data)) == read_client_hello(data)


@each_row(
    ("asked", "named"),
    [
        ("EXAMPLE.org", "example.org"),
        ("localhost", IPv4Address("127.0.0.1")),
        ("bücher.example", "xn--bcher-kva.example"),
        ("127.0.0.1", None),
        ("::1", None),
        (None, None),
    ],
)
def test_the_server_is_named_as_grants_spell_it(asked: str | None, named: object) -> None:
    read = read_client_hello(real_hello(asked))
    assert read == ClientHello(named, has_encrypted_hello=False)  # type: ignore[arg-type]


@each_row("piece", [4, 5, 9, 40, 100, 516])
def test_a_hello_in_several_records_is_put_together(piece: int) -> None:
    whole = message(server_names(b"granted.test"))
    data = records(whole, piece=max(piece, len(whole) // 63 + 1))
    for size in range(len(data)):
        assert read_client_hello(data[:size]) is None
    assert read_client_hello(data) == ClientHello("granted.test", has_encrypted_hello=False)


def test_what_follows_the_record_of_the_hello_is_not_looked_at() -> None:
    data = real_hello()
    assert read_client_hello(data + b"\x17\x03\x03early data") == read_client_hello(data)
    assert read_client_hello(data + b"\x15" * 100_000) == read_client_hello(data)


@each_row("session", [b"", b"s" * 32])
def test_a_hello_without_extensions_names_no_host(session: bytes) -> None:
    assert read_client_hello(records(message(None, session=session))) == ClientHello(None, has_encrypted_hello=False)
    assert read_client_hello(hello()) == ClientHello(None, has_encrypted_hello=False)


def test_a_second_encrypted_hello_is_told_of() -> None:
    both = hello(server_names(b"granted.test"), extension(ENCRYPTED_CLIENT_HELLO, b"whatever"))
    assert read_client_hello(both) == ClientHello("granted.test", has_encrypted_hello=True)
    alone = hello(extension(ENCRYPTED_CLIENT_HELLO, b""), extension(ALPN, b""))
    assert read_client_hello(alone) == ClientHello(None, has_encrypted_hello=True)


@each_row(
    ("name", "host"),
    [
        (b"granted.test.", "granted.test"),
        (
            b"10.0.0.1",
            IPv4Address("10.0.0.1"),
        ),  # forbidden, and sent by some; compared with the destination like a name
        (b"::ffff:10.0.0.1", IPv4Address("10.0.0.1")),
        (b"[::1]", IPv6Address("::1")),
    ],
)
def test_a_name_that_is_an_address_is_that_address(name: bytes, host: object) -> None:
    read = read_client_hello(hello(server_names(name)))
    assert read is not None
    assert read.server_name == host


GOOD = server_names(b"granted.test")


@each_row(
    ("data", "why"),
    [
        # Not a hello at all.
        (b"GET / HTTP/1.1\r\n", "not a TLS handshake"),
        (b"\x80\x2e\x01\x03\x01", "not a TLS handshake"),
        (b"\x15\x03\x01\x00\x02\x01\x00", "not a TLS handshake"),
        (b"\x17", "not a TLS handshake"),
        (b"\x16\x02", "not a version"),
        (b"\x16\xfe\xfd", "not a version"),
        (b"\x16\x03\x01\x00\x00", "record of 0 bytes"),
        (b"\x16\x03\x01\x40\x01", "record of 16385 bytes"),
        (b"\x16\x03\x01\xff\xff", "record of 65535 bytes"),
        (records(message(GOOD, kind=2)), "type 2"),
        (records(b"\x02")[:6], "type 2"),
        # Too much of it.
        (b"\x16\x03\x01\x01\x00\x01\x00\x40\x00", "longer than"),
        (b"\x16\x03\x01\x01\x00\x01\xff\xff\xff", "longer than"),
        (hello(GOOD, extension(ALPN, b"x" * MAX_HELLO_BYTES)), "longer than"),
        (records(message(GOOD), piece=1), "more than 64 records"),
        # Between and behind its records.
        (records(message(GOOD) + b"\x01\0\0\0"), "goes on after it"),
        (records(message(GOOD)[:40]) + records(message(GOOD)[40:], kind=23), "not a TLS handshake"),
        (records(message(GOOD)[:40]) + b"\x16\x03\x01\x00\x00" + records(message(GOOD)[40:]), "record of 0 bytes"),
        # Lengths that do not add up.
        (records(message(None, after=b"\0")), "cut short"),
        (records(message(GOOD, after=b"\0")), "goes on after its extensions"),
        (records(message(None, after=b"\0\x05\0")), "cut short"),
        (records(message(GOOD[:-1])), "cut short"),
        (records(message(GOOD + b"\0")), "cut short"),
        (records(message(GOOD, session=b"s" * 33)), "session id"),
        (records(message(GOOD, ciphers=b"")), "ciphers"),
        (records(message(GOOD, ciphers=b"\x13")), "ciphers"),
        (records(message(GOOD, compression=b"")), "compression"),
        (records(message(GOOD, version=b"\x02\0")), "not a version"),
        (records(b"\x01\0\0\0"), "cut short"),
        (records(b"\x01\0\0\x05\x03\x03abc"), "cut short"),
        # Two names, or what two readers would read two names from.
        (hello(GOOD, server_names(b"evil.test")), "extension 0 is there twice"),
        (hello(extension(ALPN, b""), GOOD, extension(ALPN, b"")), "extension 16 is there twice"),
        (hello(server_names(b"granted.test", b"evil.test")), "several names"),
        (hello(server_names(b"granted.test", after=b"\0\0\x09evil.test")), "followed by something else"),
        (hello(server_names(b"granted.test", kind=1)), "unknown kind"),
        (hello(server_names()), "cut short"),
        (hello(extension(SERVER_NAME, b"")), "cut short"),
        (hello(extension(SERVER_NAME, b"\0\x05\0\0\x09gr")), "cut short"),
        (hello(server_names(b"")), "of 0 bytes"),
        (hello(server_names(b"a" * 256)), "of 256 bytes"),
        # Names that are none.
        (hello(server_names(b"granted.test\0.evil.test")), "unprintable"),
        (hello(server_names(b"granted.test\r\n")), "unprintable"),
        (hello(server_names(b"granted.test:443")), "no IPv6 address"),
        (hello(server_names(b"user@granted.test")), "`@`"),
        (hello(server_names(b"*.granted.test")), "no name of a host"),
        (hello(server_names(b"127.1")), "ends in a number"),
        (hello(server_names("bücher.test".encode())), "not ASCII"),
        (hello(server_names(b"\xff")), "not ASCII"),
    ],
)
def test_a_malformed_or_ambiguous_hello_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(ClientHelloError) as caught:
        read_client_hello(data)
    assert why in str(caught.value)


def test_a_hello_that_never_ends_is_refused_at_the_limit() -> None:
    unfinished = records(message(GOOD + extension(ALPN, b"x" * 16_200)), piece=300)
    assert read_client_hello(unfinished[: MAX_HELLO_BYTES - 1]) is None
    with pytest.raises(ClientHelloError, match="longer than"):
        read_client_hello(unfinished[:MAX_HELLO_BYTES])


@settings(max_examples=examples(500), deadline=None, database=None)
@given(
    st.binary(max_size=300)
    | st.binary(max_size=300).map(lambda data: b"\x16\x03\x01" + sized(data, 2))
    | st.binary(max_size=300).map(lambda data: records(b"\x01" + sized(data, 3)))
    | st.binary(max_size=200).map(lambda data: hello(GOOD, data))
    | st.binary(max_size=100).map(lambda data: hello(extension(SERVER_NAME, data)))
)
def test_any_bytes_are_a_hello_or_the_beginning_of_one_or_refused(data: bytes) -> None:
    try:
        read = read_client_hello(data)
    except ClientHelloError:
        return
    assert read is None or isinstance(read, ClientHello)


@settings(max_examples=examples(200), deadline=None, database=None)
@given(st.integers(9, 400), st.integers(0, 600))
def test_the_pieces_a_hello_comes_in_make_no_difference(piece: int, cut: int) -> None:
    data = records(real_hello()[5:], piece)
    assert read_client_hello(data) == ClientHello("granted.test", has_encrypted_hello=False)
    if cut < len(data):
        assert read_client_hello(data[:cut]) is None


@cache
def openssl() -> tuple[ssl.SSLContext, list[str | None]]:
    """Return a server without a certificate, and the names that it is called by."""
    named: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _object, name, _context: named.append(name)
    return context, named


def as_openssl_reads_it(data: bytes) -> str | None:
    """Return the name that OpenSSL, as the server, takes a hello to mean; None also where it takes none."""
    context, named = openssl()
    named.clear()
    incoming = ssl.MemoryBIO()
    incoming.write(data)
    with pytest.raises(ssl.SSLError):  # it has no certificate, or wants more
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()
    return named[0] if named else None


def test_openssl_reads_names_as_this_does() -> None:
    assert as_openssl_reads_it(real_hello()) == "granted.test"
    assert as_openssl_reads_it(records(real_hello()[5:], 100)) == "granted.test"
    assert as_openssl_reads_it(real_hello(None)) is None


CHANGES = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(["set", "drop", "put"]), st.integers(0, 255)),
    max_size=3,
)


# Python cannot tell its callback of a name that is not ASCII; such a hello ends there.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=examples(600), deadline=None, database=None)
@given(CHANGES, st.sampled_from([1 << 14, 200]), st.booleans())
def test_a_tampered_hello_never_names_two_servers(
    changes: list[tuple[float, str, int]], piece: int, twice: bool
) -> None:
    body = real_hello()[9:]
    if twice:
        length = body.index(b"\0\0\0\x11\0\x0f\0\0\x0cgranted.test")
        body = body[:length] + server_names(b"evil.test") + body[length:]
    data = bytearray(records(b"\x01" + sized(body, 3), piece))
    for place, change, byte in changes:
        at = int(place * len(data))
        if change == "set":
            data[at] = byte
        elif change == "drop":
            del data[at]
        else:
            data.insert(at, byte)
    theirs = as_openssl_reads_it(bytes(data))
    try:
        ours = read_client_hello(data)
    except ClientHelloError:
        return
    if theirs is not None:
        assert ours is not None
        assert ours.server_name == parse_host(theirs)
