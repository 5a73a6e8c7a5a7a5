"""Where names may lead: into private networks only if whoever runs the host named them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import anyio
import pytest

from host.egress.ground import PATIENCE
from paddock.egress.dialer import Dialer
from paddock.egress.errors import DialError, EgressRefusedError
from paddock.egress.rules import NetRules
from paddock.plan.host_name import Destination
from paddock.plan.net_rule import NetRule
from support.rows import each_row

_DESTINATION = Destination("git.company.test", 443)


def _dialer(address: str, *, names_lead_inside: bool) -> Dialer:
    async def resolve(name: str) -> Sequence[IPv4Address | IPv6Address]:
        return [ip_address(address)]

    rules = NetRules([NetRule.parse("git.company.test:443")], names_lead_inside=names_lead_inside)
    return Dialer(rules, resolve, 0.2)


@each_row("address", ["127.0.0.1", "::1"])
async def test_a_name_leads_inside_only_if_the_operator_allows_it(address: str) -> None:
    with anyio.fail_after(PATIENCE):
        with pytest.raises(EgressRefusedError):
            await _dialer(address, names_lead_inside=False).dial(_DESTINATION)
        with pytest.raises(DialError):  # let through, to where nobody listens
            await _dialer(address, names_lead_inside=True).dial(_DESTINATION)


_OF_CLOUDS = ["169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "fd20:ce::254"]
_CARRYING = [
    "192.0.0.192",
    "64:ff9b::a9fe:a9fe",
    "::ffff:0:169.254.169.254",
    "2002:a9fe:a9fe::",
    "64:ff9b::100.100.100.200",
    "64:ff9b:1::a9fe:a9fe",
]


@each_row("address", [*_OF_CLOUDS, *_CARRYING, "224.0.0.1"])
async def test_no_name_ever_leads_to_where_clouds_keep_credentials(address: str) -> None:
    with anyio.fail_after(PATIENCE), pytest.raises(EgressRefusedError):
        await _dialer(address, names_lead_inside=True).dial(_DESTINATION)
