"""What one module was granted of the network, asked one destination at a time."""

from __future__ import annotations

from collections.abc import Iterable

from paddock.plan.host_name import Destination, Host
from paddock.plan.net_rule import NetRule


class NetRules:
    """The rules of a module, in the order they were written; none at all allows nothing.

    Where `names_lead_inside` they were named by whoever runs the host: a company's own servers are at private
    addresses.
    """

    def __init__(self, rules: Iterable[NetRule], *, names_lead_inside: bool = False) -> None:
        self.names_lead_inside = names_lead_inside
        self._rules = tuple(dict.fromkeys(rules))
        self.ports: tuple[int, ...] = tuple(sorted({rule.port for rule in self._rules}))

    def rule_for(self, destination: Destination) -> NetRule | None:
        """Return the first rule that allows the destination, or None: then it is refused."""
        return next((rule for rule in self._rules if rule.matches(destination)), None)

    def knows(self, host: Host) -> bool:
        """Tell whether some rule is about this host, whatever the port: then its name may be looked up."""
        return any(rule.names(host) for rule in self._rules)

    def __bool__(self) -> bool:
        return bool(self._rules)
