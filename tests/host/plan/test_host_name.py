"""One spelling for every host; what could be read as another host is refused."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.plan.host_name import Destination, host_text, parse_authority, parse_host
from paddock.plan.problems import NotAcceptedError
from support.examples import examples
from support.rows import each_row

LABEL_63 = "a" * 63
NAME_253 = ".".join([LABEL_63, LABEL_63, LABEL_63, "a" * 61])

ONE_SPELLING = [
    ("example.org", "example.org"),
    ("EXAMPLE.Org", "example.org"),
    ("example.org.", "example.org"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
    ("my_service.internal", "my_service.internal"),
    ("_dns.example.org", "_dns.example.org"),
    ("ollama", "ollama"),
    ("1password.com", "1password.com"),
    ("0x7f.example", "0x7f.example"),
    ("127.0.0.1.nip.io", "127.0.0.1.nip.io"),
    ("example.x0", "example.x0"),
    (NAME_253, NAME_253),
    (NAME_253 + ".", NAME_253),
    ("127.0.0.1", IPv4Address("127.0.0.1")),
    ("0.0.0.0", IPv4Address("0.0.0.0")),
    ("::1", IPv6Address("::1")),
    ("[::1]", IPv6Address("::1")),
    ("[2001:DB8:0:0::1]", IPv6Address("2001:db8::1")),
    ("::", IPv6Address("::")),
    ("::ffff:127.0.0.1", IPv4Address("127.0.0.1")),
    ("[::ffff:127.0.0.1]", IPv4Address("127.0.0.1")),
    ("::ffff:7f00:1", IPv4Address("127.0.0.1")),
    ("[0:0:0:0:0:FFFF:7F00:0001]", IPv4Address("127.0.0.1")),
    ("::127.0.0.1", IPv6Address("::7f00:1")),
    ("64:ff9b::127.0.0.1", IPv6Address("64:ff9b::7f00:1")),
    ("localhost", IPv4Address("127.0.0.1")),
    ("LocalHost.", IPv4Address("127.0.0.1")),
    ("db.localhost", IPv4Address("127.0.0.1")),
    ("a.b.localhost.", IPv4Address("127.0.0.1")),
    ("localhost.example.org", "localhost.example.org"),
    ("notlocalhost", "notlocalhost"),
]

REFUSED = [
    ("", "missing"),
    (".", "between two dots"),
    ("..", "between two dots"),
    (".example.org", "before the first"),
    ("a..b", "between two dots"),
    ("example.org..", "between two dots"),
    ("*", "no name of a host"),
    ("*.example.org", "no name of a host"),
    ("-a.example", "no name of a host"),
    ("a-.example", "no name of a host"),
    ("example.org-", "no name of a host"),
    ("example._org", "no name of a host"),
    ("a" * 64 + ".example", "63 characters"),
    (NAME_253 + "a", "253 characters"),
    ("a." * 127 + "a", "253 characters"),
    # Addresses in disguise, as `inet_aton` and browsers read them.
    ("127.1", "ends in a number"),
    ("127.0.1", "ends in a number"),
    ("127.0.0.1.", "ends in a number"),
    ("127.0.0.01", "ends in a number"),
    ("0177.0.0.1", "ends in a number"),
    ("0x7f.1", "ends in a number"),
    ("0x7f.0.0.0x1", "ends in a number"),
    ("0X7F.0.0.1", "ends in a number"),
    ("0x7f000001", "ends in a number"),
    ("0x", "ends in a number"),
    ("2130706433", "ends in a number"),
    ("017700000001", "ends in a number"),
    ("127.0.0.256", "ends in a number"),
    ("127.0.0.0.1", "ends in a number"),
    ("1", "ends in a number"),
    ("0", "ends in a number"),
    ("example.0", "ends in a number"),
    ("example.0xff", "ends in a number"),
    # What a URL parser, a header or C would cut the name at.
    ("user@example.org", "`@`"),
    ("allowed.test@evil.test", "`@`"),
    ("evil.test#allowed.test", "no name of a host"),
    ("evil.test?allowed.test", "no name of a host"),
    ("evil.test/allowed.test", "no name of a host"),
    ("evil.test\\allowed.test", "no name of a host"),
    ("evil.test;allowed.test", "no name of a host"),
    ("evil.test,allowed.test", "no name of a host"),
    ("evil.test\0.allowed.test", "unprintable"),
    ("evil.test\r\n.allowed.test", "unprintable"),
    (" example.org", "space"),
    ("example.org ", "space"),
    ("exa mple.org", "space"),
    ("127.0.0.1 x", "space"),
    ("example.org\t", "space"),
    ("%65xample.org", "`%`"),
    ("fe80::1%eth0", "`%`"),
    ("[fe80::1%25eth0]", "`%`"),
    # Letters that are, or become, others.
    ("bücher.example", "beyond ASCII"),
    ("еxample.org", "beyond ASCII"),  # noqa: RUF001 - a Cyrillic letter is the point
    ("example。org", "beyond ASCII"),
    ("１２７.0.0.1", "beyond ASCII"),  # noqa: RUF001 - digits of another width are the point
    ("١٢٧.0.0.1", "beyond ASCII"),
    ("ⓔxample.org", "beyond ASCII"),
    ("straße.example", "beyond ASCII"),
    ("exam\u00adple.org", "beyond ASCII"),
    ("example.org\u200b", "beyond ASCII"),
    ("\udcff.example", "beyond ASCII"),
    # Brackets and colons.
    ("[::1", "brackets"),
    ("::1]", "no IPv6 address"),
    ("[]", "brackets"),
    ("[::1]:443", "brackets"),
    ("[127.0.0.1]", "brackets"),
    ("[example.org]", "brackets"),
    ("[[::1]]", "brackets"),
    ("[v1.x:y]", "no IPv6 address"),
    (":::", "no IPv6 address"),
    ("1::2::3", "no IPv6 address"),
    ("::ffff:127.1", "no IPv6 address"),
    ("::ffff:0177.0.0.1", "no IPv6 address"),
    ("::g", "no IPv6 address"),
    ("::1/128", "no IPv6 address"),
    ("example.org:443", "no IPv6 address"),
]


@each_row(("text", "host"), ONE_SPELLING)
def test_every_spelling_of_a_host_becomes_one(text: str, host: object) -> None:
    parsed = parse_host(text)
    assert parsed == host
    assert parse_host(host_text(parsed)) == parsed


@each_row(("text", "why"), REFUSED)
def test_what_could_be_read_as_another_host_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(NotAcceptedError) as caught:
        parse_host(text)
    assert why in caught.value.problem


def test_a_hostile_name_of_any_length_makes_a_short_error() -> None:
    with pytest.raises(NotAcceptedError) as caught:
        parse_host("a" * 1_000_000)
    assert len(str(caught.value)) < 300


@settings(max_examples=examples(500), deadline=None, database=None)
@given(st.text() | st.text("0123456789abcfx.:[]%-_*@lohst", max_size=40))
def test_any_text_is_a_host_in_one_spelling_or_refused(text: str) -> None:
    try:
        host = parse_host(text)
    except NotAcceptedError:
        return
    assert parse_host(host_text(host)) == host
    assert parse_host(host_text(host).upper()) == host
    if isinstance(host, str):
        assert host.isascii()
        assert len(host) <= 253


NUMBERS = st.sampled_from(["0", "1", "00", "127", "0177", "0x7f", "0X7F", "256", "0x", "4294967295", "08", "a", ""])


@settings(max_examples=examples(500), deadline=None, database=None)
@given(st.lists(NUMBERS, min_size=1, max_size=5).map(".".join) | st.text("0123456789xXabcdef.", max_size=20))
def test_what_the_c_library_reads_as_an_address_is_that_address_or_refused(text: str) -> None:
    try:
        meant = IPv4Address(socket.inet_aton(text))
    except OSError:
        return
    try:
        host = parse_host(text)
    except NotAcceptedError:
        return
    assert host == meant


@each_row(
    ("text", "default_port", "destination"),
    [
        ("example.org:443", None, ("example.org", 443)),
        ("EXAMPLE.org.:8080", None, ("example.org", 8080)),
        ("example.org", 80, ("example.org", 80)),
        ("example.org:1", 80, ("example.org", 1)),
        ("example.org:65535", 80, ("example.org", 65535)),
        ("example.org:00443", 80, ("example.org", 443)),
        ("localhost:80", None, (IPv4Address("127.0.0.1"), 80)),
        ("[::1]:80", None, (IPv6Address("::1"), 80)),
        ("[::1]", 443, (IPv6Address("::1"), 443)),
        ("[::ffff:10.0.0.1]:80", None, (IPv4Address("10.0.0.1"), 80)),
    ],
)
def test_an_authority_is_a_host_and_its_port(text: str, default_port: int | None, destination: tuple[str, int]) -> None:
    parsed = parse_authority(text, default_port)
    assert parsed == Destination(*destination)
    assert parse_authority(parsed.text) == parsed


@each_row(
    "text",
    [
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:123456",
        "example.org:-1",
        "example.org:+80",
        "example.org: 80",
        "example.org:80 ",
        "example.org:0x50",
        "example.org:8_0",
        "example.org:٨٠",
        "example.org:80:80",
        "example.org:80@evil.test",
        "allowed.test:443@evil.test:443",
        "example.org:80/path",
        "example.org:80\r\nHost: evil.test",
        ":80",
        "",
        "::1",
        "::1:80",
        "[::1",
        "[::1]80",
        "[::1]:",
        "[::1]:0",
        "[::1]]:80",
        "[::1]:80:80",
        "http://example.org:80",
        "user:pass@example.org:80",
    ],
)
def test_an_authority_with_anything_odd_about_it_is_refused(text: str) -> None:
    with pytest.raises(NotAcceptedError):
        parse_authority(text, 443)


def test_an_authority_without_a_needed_port_is_refused() -> None:
    with pytest.raises(NotAcceptedError, match="has no port"):
        parse_authority("example.org")


@settings(deadline=None, database=None)
@given(st.text() | st.text("abc.:[]0123456789@", max_size=30))
def test_any_text_is_a_destination_in_one_spelling_or_refused(text: str) -> None:
    try:
        destination = parse_authority(text, 443)
    except NotAcceptedError:
        return
    assert parse_authority(destination.text) == destination
