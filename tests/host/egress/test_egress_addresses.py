"""Which addresses a name may lead to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.egress.addresses import is_public, why_not_public
from support.examples import examples
from support.rows import each_row

NAT64 = IPv6Network("64:ff9b::/96")  # which the standard library calls reserved, whatever is behind it

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2001:200::",
    "2a00::1",
    "3ffd::1",
    "64:ff9b::8.8.8.8",
    "::ffff:8.8.8.8",
    "2002:808:808::1",
]

NOT_PUBLIC = [
    ("0.0.0.0", "this host"),
    ("0.255.255.255", "this host"),
    ("10.0.0.0", "private"),
    ("10.255.255.255", "private"),
    ("100.64.0.0", "carrier"),
    ("100.100.100.200", "carrier"),
    ("100.127.255.255", "carrier"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.255", "loopback"),
    ("168.63.129.16", "metadata"),
    ("169.254.0.0", "link-local"),
    ("169.254.169.254", "link-local"),
    ("169.254.170.2", "link-local"),
    ("172.16.0.0", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.0", "protocols"),
    ("192.0.0.192", "protocols"),
    ("192.0.2.1", "documentation"),
    ("192.88.99.1", "6to4"),
    ("192.168.0.1", "private"),
    ("198.18.0.0", "benchmarks"),
    ("198.19.255.255", "benchmarks"),
    ("198.51.100.1", "documentation"),
    ("203.0.113.1", "documentation"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("240.0.0.0", "reserved"),
    ("255.255.255.255", "reserved"),
    ("::", "reserved"),
    ("::1", "loopback"),
    ("::7f00:1", "reserved"),
    ("100::1", "reserved"),
    ("5f00::1", "reserved"),
    ("fc00::1", "private"),
    ("fd00:ec2::254", "private"),
    ("fdff:ffff::1", "private"),
    ("fe80::1", "link-local"),
    ("fec0::1", "private"),
    ("ff02::1", "multicast"),
    ("4000::1", "reserved"),
    ("1fff::1", "reserved"),
    ("2001::1", "protocols"),
    ("2001:2::1", "protocols"),
    ("2001:0:7f00:1::", "protocols"),  # Teredo, by way of a server
    ("2001:0:808:808::80ff:fffe", "protocols"),  # Teredo, 127.0.0.1 with its bits turned
    ("2001:1ff::", "protocols"),
    ("2001:db8::1", "documentation"),
    ("3ffe::1", "test network"),
    ("3fff::1", "documentation"),
    ("::ffff:127.0.0.1", "127.0.0.1, which is loopback"),
    ("::ffff:10.0.0.1", "10.0.0.1, which is private"),
    ("::ffff:0:127.0.0.1", "127.0.0.1, which is loopback"),
    ("64:ff9b::127.0.0.1", "127.0.0.1, which is loopback"),
    ("64:ff9b::a9fe:a9fe", "169.254.169.254, which is link-local"),
    ("64:ff9b:1::7f00:1", "reserved"),
    ("2002:7f00:1::", "127.0.0.1, which is loopback"),
    ("2002:a9fe:a9fe::1", "169.254.169.254, which is link-local"),
    ("2002:c0a8:101:ffff::1", "192.168.1.1, which is private"),
]


@each_row("address", PUBLIC)
def test_an_address_of_the_public_internet_is_public(address: str) -> None:
    assert is_public(ip_address(address))


@each_row(("address", "what"), NOT_PUBLIC)
def test_any_other_address_is_not_and_says_what_it_is(address: str, what: str) -> None:
    assert not is_public(ip_address(address))
    assert what in str(why_not_public(ip_address(address)))


@settings(max_examples=examples(500), deadline=None, database=None)
@given(st.ip_addresses())
def test_what_the_standard_library_calls_private_is_not_public(address: IPv4Address | IPv6Address) -> None:
    special = (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or address.is_private
    )
    carries = isinstance(address, IPv6Address) and (address.ipv4_mapped or address.sixtofour or address in NAT64)
    if special and not carries:
        assert not is_public(address)


@settings(max_examples=examples(300), deadline=None, database=None)
@given(st.ip_addresses(v=4))
def test_an_address_is_as_public_as_the_one_it_carries(inner: IPv4Address) -> None:
    for carrier in (f"::ffff:{inner}", f"64:ff9b::{inner}"):
        assert is_public(IPv6Address(carrier)) == is_public(inner)
    assert is_public(IPv6Address(0x2002 << 112 | int(inner) << 80 | 1)) == is_public(inner)
