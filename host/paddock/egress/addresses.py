"""The addresses that a name may resolve to: those of the public internet, and no others.

The owner of a name can make its name server answer with any address. So a name never leads to this machine, its
neighbours or a cloud's credential service. Such an address is reached only where a rule spells it out; that is decided
elsewhere.

`ipaddress.is_global` is not used: it differs between versions of Python, and knows neither the address that a
transition mechanism carries inside another nor the addresses with a meaning in one cloud only. A NAT64 prefix of a
network's own choice looks like any other network.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

# The IANA special-purpose registries, and additions of clouds. Order is of no importance: no two overlap.
_NOT_PUBLIC_V4: Final = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this host"),  # RFC 791, 1122; Linux connects 0.0.0.0 to itself
        ("10.0.0.0/8", "private"),  # RFC 1918
        ("100.64.0.0/10", "shared by a carrier's customers"),  # RFC 6598; 100.100.100.200 has Alibaba's metadata
        ("127.0.0.0/8", "loopback"),  # RFC 1122
        ("168.63.129.16/32", "a cloud's metadata"),  # Azure's WireServer, in a public range
        ("169.254.0.0/16", "link-local"),  # RFC 3927; 169.254.169.254 has the metadata of most clouds
        ("172.16.0.0/12", "private"),  # RFC 1918
        ("192.0.0.0/24", "reserved for protocols"),  # RFC 6890; 192.0.0.192 has Oracle's metadata
        ("192.0.2.0/24", "for documentation"),  # RFC 5737
        ("192.88.99.0/24", "a 6to4 relay"),  # RFC 7526
        ("192.168.0.0/16", "private"),  # RFC 1918
        ("198.18.0.0/15", "for benchmarks"),  # RFC 2544; the addresses that modules are given for names
        ("198.51.100.0/24", "for documentation"),  # RFC 5737
        ("203.0.113.0/24", "for documentation"),  # RFC 5737
        ("224.0.0.0/4", "multicast"),  # RFC 5771
        ("240.0.0.0/4", "reserved"),  # RFC 1112, 919; the broadcast address among them
    )
)

# Outside of 2000::/3 nothing is allocated to the public (RFC 4291): loopback, fc00::/7 with fd00:ec2::254, fe80::/10,
# fec0::/10, ff00::/8, 100::/64, 5f00::/16, ::/96 and 64:ff9b:1::/48 all are. Below, its parts that are not public.
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("2001::/23", "reserved for protocols"),  # RFC 2928; Teredo (RFC 4380), which carries two IPv4 addresses, too
        ("2001:db8::/32", "for documentation"),  # RFC 3849
        ("3ffe::/16", "of the old test network"),  # RFC 3701
        ("3fff::/20", "for documentation"),  # RFC 9637
    )
)

_OUTSIDE_V6: Final = (
    (IPv6Network("::1/128"), "loopback"),  # RFC 4291
    (IPv6Network("fc00::/7"), "private"),  # RFC 4193
    (IPv6Network("fe80::/10"), "link-local"),  # RFC 4291
    (IPv6Network("fec0::/10"), "private"),  # RFC 3879
    (IPv6Network("ff00::/8"), "multicast"),  # RFC 4291
)

# Where an IPv6 address leads to the IPv4 address in it: the network, and how many bits follow that address.
_CARRIERS: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),  # RFC 4291, mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # RFC 2765, translated
    (IPv6Network("64:ff9b::/96"), 0),  # RFC 6052, NAT64: all there is of IPv4 on networks with IPv6 alone
    (IPv6Network("2002::/16"), 80),  # RFC 3056, 6to4
)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address belongs to the public internet, and so does an address that it carries."""
    return why_not_public(address) is None


def why_not_public(address: IPv4Address | IPv6Address) -> str | None:
    """Return what kind of address it is instead of public, in words that follow `is`; None if it is public."""
    if isinstance(address, IPv4Address):
        return next((what for network, what in _NOT_PUBLIC_V4 if address in network), None)
    inner = carried_in(address)
    if inner is not None:
        what = why_not_public(inner)
        return f"a way to {inner}, which is {what}" if what else None
    if address not in _GLOBAL_UNICAST:
        return next((what for network, what in _OUTSIDE_V6 if address in network), "reserved")
    return next((what for network, what in _NOT_PUBLIC_V6 if address in network), None)


def carried_in(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to, if it is one that carries another."""
    if isinstance(address, IPv6Address):
        for network, shift in _CARRIERS:
            if address in network:
                return IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return None
