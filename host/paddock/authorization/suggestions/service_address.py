"""The addresses of services that a module's configuration names: hosts and ports, as clients read them.

Text that is no plain address is shown as it is, and never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from paddock.plan.host_name import LOOPBACK, Destination, parse_authority
from paddock.plan.net_rule import DEFAULT_PORT, PUBLIC
from paddock.plan.problems import NotAcceptedError
from paddock.plan.secret_references import references

ADDRESS_KEYS: Final = (
    *("base_url", "api_base", "azure_endpoint", "endpoint", "host", "url", "api_url", "api_base_url"),
    *("base_uri", "api_endpoint", "endpoint_url", "server", "server_url", "service_url", "search_url"),
)
"""Keys under which configurations name the address of a service."""

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_END: Final = re.compile(r"[/?#\\]")


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """An address under `key` of a configuration; `problem` says why there is no destination."""

    key: str
    destination: Destination | None
    is_encrypted: bool = True
    problem: str = ""
    variables: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self.destination is not None and self.destination.host == LOOPBACK


def addresses_in(
    config: Mapping[str, Any], environ: Mapping[str, str], *, port: int = DEFAULT_PORT, urls_only: bool = False
) -> Iterator[ServiceAddress]:
    """Yield the addresses in a configuration; `port` is that of hosts without one, the service's own.

    References in them are read as variables of `environ`. With `urls_only`, names that may be anything are left out.
    """
    for key in ADDRESS_KEYS:
        written = config.get(key)
        if isinstance(written, str) and written.strip():
            variables = tuple(one.name for one in references(written))
            text = written
            for name in variables:
                text = text.replace(f"${{{name}}}", environ.get(name, ""))
            if not text.strip():
                problem = f"`{variables[0]}` is not set" if variables else "it is empty"
                yield ServiceAddress(key, None, problem=problem, variables=variables)
            elif not urls_only or _SCHEME.match(text.strip()):
                yield parse_address(key, text, port=port, variables=variables)


def parse_address(key: str, text: str, *, port: int, variables: tuple[str, ...] = ()) -> ServiceAddress:
    """Return the address that somebody wrote as a URL, or as a host with or without a port."""
    scheme = _SCHEME.fullmatch(text.strip())
    name, rest = (scheme[1].lower(), scheme[2]) if scheme is not None else ("", text.strip())
    if name and name not in _PORTS:
        return ServiceAddress(key, None, problem=f"`{name}` is no scheme of a service", variables=variables)
    default = _PORTS.get(name, port)
    authority = _END.split(rest, maxsplit=1)[0]
    if ":" not in authority or authority.endswith("]"):
        authority = f"{authority}:{default}"
    try:
        destination = parse_authority(authority)
    except NotAcceptedError:
        # The parser's message quotes the address, and people put passwords into addresses.
        return ServiceAddress(key, None, problem=f"`{key}` is no plain address", variables=variables)
    problem = _why_never(destination.host)
    if problem:
        return ServiceAddress(key, None, problem=f"{destination.text} {problem}", variables=variables)
    is_encrypted = name in ("https", "wss") or (not name and destination.port == DEFAULT_PORT)
    return ServiceAddress(key, destination, is_encrypted, variables=variables)


def _why_never(host: str | IPv4Address | IPv6Address) -> str:
    """Return why no service can be at a host, for a reader of the plan; empty where one may be."""
    if isinstance(host, str):
        return "is a name that no grant can mean" if host == PUBLIC else ""
    if host.is_link_local:
        return "is where clouds give machines their credentials"
    if host.is_unspecified:
        return "is an address to listen at, and none to connect to"
    return "is no address of one machine" if host.is_multicast else ""
