"""One line of `net`: the hosts and the port to which it permits connections.

`example.org` is that name alone; `*.example.org` is every name below it and not the name itself. An address or a
network means itself, and `localhost` is 127.0.0.1. The port is 443 unless written. The word `public` means every public
host by its name, at 443 and 80. The addresses of a name play no part here. The word `self` means no host, but the
module's own loopback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, Self

from paddock.plan.host_name import Destination, Host, parse_host, quoted, split_port
from paddock.plan.problems import NotAcceptedError

PUBLIC: Final = "public"
SELF: Final = "self"
TO_FILL_IN: Final = "HOST:PORT"  # in a line that is no line of a plan until a person completes it
DEFAULT_PORT: Final = 443

_ACCEPTED: Final = (
    "net takes `host`, `host:port`, `*.suffix`, an IP address, a network such as `10.0.0.0/8`, `public`, `self`"
)

# The widest networks in real use: 10.0.0.0/8, and fc00::/7 of IPv6. A wider one would be another spelling of `*`.
_SHORTEST_PREFIX: Final = {4: 8, 6: 7}
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_ADDRESS_CHARACTERS: Final = re.compile(r"[0-9A-Fa-f.:]+")
_LONGEST_SUFFIX_CHARACTERS: Final = 251  # a name below the pattern has at least one letter and a dot more
PUBLIC_PORTS: Final = (80, 443)
"""Ports where the host can read the destination's name: the `Host` of plain HTTP, the server name of TLS."""

# Last labels that are set apart from the public ones: the registry of special-use names (RFC 6761 and those it lists),
# `.internal` (ICANN, 2024), and names of private networks, never to be delegated (RFC 6762, appendix G; ICANN, 2018).
_NOT_PUBLIC: Final = frozenset(
    {"alt", "arpa", "example", "internal", "invalid", "local", "localhost", "onion", "test"}
    | {"corp", "home", "intranet", "lan", "localdomain", "mail", "private"}
)


@dataclass(frozen=True, slots=True)
class PublicHosts:
    """Every name that the public domain name system can have.

    Names only. An address is granted by writing it. A name that exists in one network only is not public, so Paddock
    sends no query about it: neither to the neighbours (`.local`) nor to a company's own name servers (`.corp`).
    """

    def names(self, host: Host) -> bool:
        """Whether a host, as `parse_host` returns it, is a name that can be public."""
        return isinstance(host, str) and "." in host and host.rpartition(".")[2] not in _NOT_PUBLIC

    def cover(self, hosts: str | IPv4Network | IPv6Network | PublicHosts) -> bool:
        """Whether this includes all hosts of a rule, in the form of `NetRule`."""
        if isinstance(hosts, PublicHosts):
            return True
        return isinstance(hosts, str) and self.names(hosts.removeprefix("*."))


PUBLIC_HOSTS: Final = PublicHosts()


_WORDS: Final[Mapping[str, tuple[str | PublicHosts, tuple[int, ...], str]]] = {
    PUBLIC: (PUBLIC_HOSTS, PUBLIC_PORTS, "every public one, at two ports of its own"),
    SELF: ("", (), "the module's own loopback, at every port"),
}


@dataclass(frozen=True, slots=True)
class NetRule:
    """A permission to connect to `hosts` at `ports`; two rules are equal if they permit the same.

    `hosts` is a name, a pattern such as `*.example.org`, a network (a network of one for an address), or every public
    host. It is empty, as `ports` are, for the module's own loopback.
    """

    hosts: str | IPv4Network | IPv6Network | PublicHosts
    ports: tuple[int, ...]
    written: str = field(compare=False)

    @classmethod
    def parse(cls, written: str) -> Self:
        """Return the rule in a line of `net`.

        Raises:
            NotAcceptedError: it is no rule, or it permits more than anyone can intend.
        """
        try:
            return cls._parsed(written)
        except NotAcceptedError as error:
            raise NotAcceptedError(error.problem, error.accepted or _ACCEPTED) from None

    @classmethod
    def of(cls, destination: Destination) -> Self:
        """Return the rule for this destination alone, even if `parse` would read its name as something else."""
        host = destination.host
        return cls(host if isinstance(host, str) else _network_of_one(host), (destination.port,), destination.text)

    @classmethod
    def _parsed(cls, written: str) -> Self:
        if written in _WORDS:
            return cls(*_WORDS[written][:2], written)
        if "://" in written:
            raise NotAcceptedError(f"{quoted(written)} is an address with a scheme", _ACCEPTED)
        host, port = split_port(written)
        hosts: str | IPv4Network | IPv6Network
        if "*" in host:
            hosts = _pattern(host, written)
        elif "/" in host:
            hosts = _network(host, written)
        else:
            parsed = parse_host(host)
            if isinstance(parsed, str) and parsed in _WORDS:
                problem = f"{quoted(written)} is no host: the word stands for {_WORDS[parsed][2]}"
                raise NotAcceptedError(problem, f"write `{parsed}`")
            hosts = parsed if isinstance(parsed, str) else _network_of_one(parsed)
        return cls(hosts, (DEFAULT_PORT if port is None else port,), written)

    @property
    def is_public(self) -> bool:
        """Whether the rule names no host, and permits every public one."""
        return isinstance(self.hosts, PublicHosts)

    @property
    def is_self(self) -> bool:
        """Whether the rule is about the module's own loopback, and permits no connection to any host."""
        return not self.hosts

    @property
    def destination(self) -> Destination | None:
        """Return the only destination that the rule permits; None where it permits several."""
        if isinstance(self.hosts, PublicHosts) or self.is_self:
            return None
        (port,) = self.ports
        if isinstance(self.hosts, str):
            return None if self.hosts.startswith("*.") else Destination(self.hosts, port)
        if self.hosts.num_addresses > 1:
            return None
        return Destination(self.hosts.network_address, port)

    @property
    def text(self) -> str:
        """Return the rule's one spelling: `*.example.org:443`, `[::1]:8080`, `[fd00::/8]:443`."""
        only = self.destination
        if only is not None:
            return only.text
        if self.is_public or self.is_self:
            return PUBLIC if self.is_public else SELF
        (port,) = self.ports
        return f"[{self.hosts}]:{port}" if isinstance(self.hosts, IPv6Network) else f"{self.hosts}:{port}"

    def names(self, host: Host) -> bool:
        """Whether the rule includes this host, at any port."""
        if isinstance(self.hosts, PublicHosts):
            return self.hosts.names(host)
        if isinstance(host, str) and isinstance(self.hosts, str):
            if self.hosts.startswith("*."):
                # With its dot: `*.example.org` is neither `example.org` nor `badexample.org`.
                return host.endswith(self.hosts[1:]) and len(host) > len(self.hosts) - 1
            return host == self.hosts
        return not isinstance(host, str) and not isinstance(self.hosts, str) and host in self.hosts

    def matches(self, destination: Destination) -> bool:
        """Whether the rule permits a connection to this destination."""
        return destination.port in self.ports and self.names(destination.host)

    def covers(self, other: NetRule) -> bool:
        """Whether this rule permits everything that `other` permits."""
        if not set(other.ports) <= set(self.ports):
            return False
        if isinstance(self.hosts, PublicHosts):
            return self.hosts.cover(other.hosts)
        if isinstance(self.hosts, str) and isinstance(other.hosts, str):
            # A name below `a.example.org` is below `example.org` too: a pattern ends like its names.
            return self.hosts == other.hosts or (self.hosts.startswith("*.") and other.hosts.endswith(self.hosts[1:]))
        if isinstance(self.hosts, IPv4Network):
            return isinstance(other.hosts, IPv4Network) and other.hosts.subnet_of(self.hosts)
        if isinstance(self.hosts, IPv6Network):
            return isinstance(other.hosts, IPv6Network) and other.hosts.subnet_of(self.hosts)
        return False


def _pattern(host: str, written: str) -> str:
    if host == "*":
        raise NotAcceptedError(
            f"{quoted(written)} is every host",
            "name the hosts; `*.suffix` is all names below one, `public` every public host at 443 and 80",
        )
    suffix = host.removeprefix("*.")
    if "*" in suffix:
        raise NotAcceptedError(
            f"{quoted(written)} has a star that is not the first of its labels", "a star stands alone before the rest"
        )
    if suffix.startswith("["):
        raise NotAcceptedError(f"{quoted(written)} is a star before an address", "networks are written `10.0.0.0/8`")
    parsed = parse_host(suffix)
    if not isinstance(parsed, str):
        raise NotAcceptedError(
            f"{quoted(written)} is a star before an address", "write `localhost`, or a network such as `10.0.0.0/8`"
        )
    if "." not in parsed:
        raise NotAcceptedError(
            f"{quoted(written)} is every name below a top-level domain", "name the domain, as in `*.example.org`"
        )
    if len(parsed) > _LONGEST_SUFFIX_CHARACTERS:
        raise NotAcceptedError(f"{quoted(written)} is too long for any name to be below it", _ACCEPTED)
    return f"*.{parsed}"


def _network(host: str, written: str) -> IPv4Network | IPv6Network:
    inside = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    address, _, prefix = inside.partition("/")
    if not _ADDRESS_CHARACTERS.fullmatch(address):
        raise NotAcceptedError(f"{quoted(written)} has a path, or what looks like one", _ACCEPTED)
    if host.startswith("[") and ":" not in address:
        raise NotAcceptedError(f"{quoted(written)} has brackets that hold no IPv6 address", _ACCEPTED)
    if not (prefix.isascii() and prefix.isdecimal()):
        raise NotAcceptedError(f"{quoted(written)} is no network", "networks are written `10.0.0.0/8`, `fd00::/8`")
    try:
        network = ip_network(inside)
    except ValueError:
        raise NotAcceptedError(
            f"{quoted(written)} is no network, or has bits set behind its prefix",
            "networks are written `10.0.0.0/8`, `fd00::/8`",
        ) from None
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        network = IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - _MAPPED.prefixlen))
    if network.prefixlen < _SHORTEST_PREFIX[network.version]:
        raise NotAcceptedError(
            f"{quoted(written)} is far more than any one network",
            f"write networks of at least `/{_SHORTEST_PREFIX[network.version]}`",
        )
    return network


def _network_of_one(address: IPv4Address | IPv6Address) -> IPv4Network | IPv6Network:
    return IPv4Network(address) if isinstance(address, IPv4Address) else IPv6Network(address)
