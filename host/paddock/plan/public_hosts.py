"""The hosts that the grant `public` is about: every name that the public domain name system can have.

Names alone. An address is granted by writing it, and a name that means something in one network only is none of these,
so that nothing is asked about it: neither the neighbours (`.local`) nor a company's own name servers (`.corp`).
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from paddock.plan.host_name import Host

PUBLIC_PORTS: Final = (80, 443)
"""Where the host can read whom a connection is for: the `Host` of plain HTTP, the server name of TLS."""

# Last labels that are set apart from the public ones: the registry of special-use names (RFC 6761 and those it lists),
# `.internal` (ICANN, 2024), and names of private networks, never to be delegated (RFC 6762, appendix G; ICANN, 2018).
_NOT_PUBLIC: Final = frozenset(
    {"alt", "arpa", "example", "internal", "invalid", "local", "localhost", "onion", "test"}
    | {"corp", "home", "intranet", "lan", "localdomain", "mail", "private"}
)


@dataclass(frozen=True, slots=True)
class PublicHosts:
    """Every public host, by its name."""

    def names(self, host: Host) -> bool:
        """Tell whether a host, as `parse_host` returns it, is a name that can be public."""
        return isinstance(host, str) and "." in host and host.rpartition(".")[2] not in _NOT_PUBLIC

    def cover(self, hosts: str | IPv4Network | IPv6Network | PublicHosts) -> bool:
        """Tell whether all hosts of a rule, given as a `NetRule` has them, are among these."""
        if isinstance(hosts, PublicHosts):
            return True
        return isinstance(hosts, str) and self.names(hosts.removeprefix("*."))


PUBLIC_HOSTS: Final = PublicHosts()
