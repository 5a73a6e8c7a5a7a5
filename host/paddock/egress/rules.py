"""The network grants of one module, asked one destination at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from paddock.plan.host_name import Destination, Host
from paddock.plan.net_rule import NetRule


@dataclass(frozen=True, slots=True)
class RefusedNetwork:
    """A network that no connection leads to, granted or not; `by` names the rule for that, for people."""

    network: IPv4Network | IPv6Network
    by: str


class NetRules:
    """The rules of a module, in the order they were written; none at all allows nothing.

    With `names_lead_inside`, the person who runs the host named them: a company's own servers are at private addresses.
    `refused` are networks that the operator refuses all the same.
    """

    def __init__(
        self, rules: Iterable[NetRule], *, names_lead_inside: bool = False, refused: Iterable[RefusedNetwork] = ()
    ) -> None:
        self.names_lead_inside = names_lead_inside
        # `public` last: it asks more of a connection than a rule that names the host.
        self._rules = tuple(sorted(dict.fromkeys(rules), key=lambda rule: rule.is_public))
        self._refused = tuple(refused)
        self.ports: tuple[int, ...] = tuple(sorted({port for rule in self._rules for port in rule.ports}))

    def rule_for(self, destination: Destination) -> NetRule | None:
        """Return the first rule that allows the destination, or None: then it is refused."""
        return next((rule for rule in self._rules if rule.matches(destination)), None)

    def knows(self, host: Host) -> bool:
        """Return whether some rule is about this host, at any port: then its name may be looked up."""
        return any(rule.names(host) for rule in self._rules)

    def names(self, host: Host) -> bool:
        """Return whether some rule names this host in particular."""
        return any(rule.names(host) for rule in self._rules if not rule.is_public)

    def spell(self, name: str) -> bool:
        """Return whether some rule is this name in full."""
        return any(rule.hosts == name for rule in self._rules)

    def ports_of(self, host: Host) -> set[int]:
        """Return the ports at which a host is granted."""
        return {port for rule in self._rules if rule.names(host) for port in rule.ports}

    def refusal_of(self, address: IPv4Address | IPv6Address) -> RefusedNetwork | None:
        """Return the network around an address that the operator refuses, if there is one."""
        return next((one for one in self._refused if address in one.network), None)

    def __bool__(self) -> bool:
        return bool(self._rules)
