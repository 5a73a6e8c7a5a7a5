"""What a module needs to use a service: a connection to its host, and a key that only that host ever receives.

A vendor's key is proposed for the vendor's own hosts and for this machine, since the author of the plan chose the
address; for any other host, only a key that the plan itself refers to. A key that is not set is not proposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from paddock.authorization.suggestions.needs import Needs, ProposalContext
from paddock.authorization.suggestions.service_address import ADDRESS_KEYS, ServiceAddress, addresses_in, parse_address
from paddock.authorization.suggestions.vendors import Vendor, vendor_of_key
from paddock.plan.model import ModuleEntry
from paddock.plan.net_rule import DEFAULT_PORT, TO_FILL_IN, NetRule
from paddock.plan.permissions import Permissions, SecretGrant
from paddock.plan.secret_references import references

_CREDENTIAL: Final = re.compile(
    r"key|token|secret|pass|pwd|credential|auth|jwt|cookie|webhook|dsn|database_url|_pat$", re.IGNORECASE
)
_KEY_NAMES: Final = ("api_key", "apikey", "api-key", "key", "token", "api_token", "access_token", "auth_token")


def service_needs(entry: ModuleEntry, vendor: Vendor | None, known: ProposalContext) -> Needs:
    """Return what an entry's module needs for the services that its configuration or its vendor names."""
    found = tuple(_addresses(entry, vendor, known))
    usable = [one for one in found if one.destination is not None]
    needs = Needs(lacks=tuple(f"its service: {one.problem}" for one in found if one.problem))
    for address in usable:
        needs += _connection(address, vendor)
    place = usable[0] if usable else None
    needs += _references(entry.config, place, known)
    if vendor is not None:
        needs += _vendor_key(entry.config, vendor, place, known)
        if place is not None and place.destination is not None and vendor.may_have_key(place.destination):
            needs += sum((_passed(name) for name in vendor.settings if known.environ.get(name)), Needs())
        if not found:
            lack = f"the network: neither its configuration nor a variable says where {vendor.name} is"
            needs += Needs(lacks=(lack,), missing=Permissions(env=vendor.addresses))
    return needs


def use_of_secret(name: str, net: Iterable[str]) -> Needs:
    """Return the grants with which a module can use a secret, at the one host where it belongs.

    A vendor's key belongs with that vendor, not with the module's name: it is proposed for no other host, and
    `lacks` says why. The host of any other key is left to be filled in. `net` are the rules for the hosts that the
    module may connect to already.
    """
    vendor = vendor_of_key(name)
    rules = [NetRule.parse(written) for written in net]
    places = [rule.destination for rule in rules if rule.destination is not None]
    place = None
    if vendor is not None:
        place = next(filter(vendor.may_have_key, places), None if places else vendor.destination)
        if place is None and rules:
            hosts = ", ".join(rule.text for rule in rules)
            lack = f"{name} is for {vendor.name}, and none of the hosts that it may reach is theirs by name ({hosts})"
            return Needs(lacks=(f"{lack}, so no line is proposed",))
    host = TO_FILL_IN if place is None else place.text
    secret = SecretGrant(name=name).model_copy(update={"inject": host})
    added = () if place in places else (host,)
    return Needs(Permissions().model_copy(update={"net": added, "secrets": (secret,)}))


def is_credential(name: str) -> bool:
    """Return whether something of this name probably is a key, a password or the like."""
    return bool(_CREDENTIAL.search(name))


def _addresses(entry: ModuleEntry, vendor: Vendor | None, known: ProposalContext) -> Iterator[ServiceAddress]:
    if vendor is None:
        yield from addresses_in(entry.config, known.environ, urls_only=entry.kind != "provider")
        return
    configured = tuple(addresses_in(entry.config, known.environ, port=vendor.port))
    if configured:
        yield from configured
        return
    for name in vendor.addresses:
        if known.environ.get(name, "").strip():
            yield parse_address("", known.environ[name], port=vendor.port, variables=(name,))
            return
    if vendor.destination is not None:
        yield ServiceAddress("", vendor.destination, is_encrypted=vendor.destination.port == DEFAULT_PORT)


def _connection(address: ServiceAddress, vendor: Vendor | None) -> Needs:
    assert address.destination is not None
    place = address.destination.text
    why = f", which `{address.key}` names" if address.key else f", where {vendor.name} is" if vendor else ""
    if not address.key and address.variables:
        why = f", which your `{address.variables[0]}` names"
    how = "" if address.is_encrypted or address.is_local else "; nothing encrypts what is sent there"
    needs = Needs.of(f"connects to {place}{why}{how}", f"the network, so no {place}", net=[place])
    if not address.key and address.variables:
        needs += _passed(address.variables[0])
    return needs


def _passed(name: str) -> Needs:
    return Needs.of(f"is passed your variable {name}", f"your variable {name}", env=[name])


def _references(config: Mapping[str, Any], place: ServiceAddress | None, known: ProposalContext) -> Needs:
    """Return the secrets that the configuration refers to, for use at the service whose credentials they are."""
    needs = Needs()
    for key, value in config.items():
        for one in references({key: value}):
            is_key = key not in ADDRESS_KEYS and is_credential(one.place)
            missing = "" if known.has_key(one.name) else ", which is not set"
            if is_key and place is not None:
                needs += _injected(one.name, place, missing)
            else:
                needs += Needs.of(
                    f"is given the value of {one.name} for `{one.place}`{missing}",
                    f"the value of {one.name} that `{one.place}` refers to",
                    secrets=[one.name],
                )
    return needs


def _vendor_key(
    config: Mapping[str, Any], vendor: Vendor, place: ServiceAddress | None, known: ProposalContext
) -> Needs:
    if place is None or place.destination is None or any(config.get(name) for name in _KEY_NAMES):
        return Needs()
    is_needed = bool(vendor.keys) and not place.is_local  # most servers on one's own machine take no key
    name = next((name for name in vendor.keys if known.has_key(name, is_needed=is_needed)), None)
    if name is None:
        if not is_needed:
            return Needs()
        may_have = vendor.keys if vendor.may_have_key(place.destination) else ()
        return Needs(
            lacks=(f"a key: {' and '.join(vendor.keys)} {'is' if len(vendor.keys) == 1 else 'are'} not set",),
            missing=Permissions(secrets=tuple(SecretGrant(name=key) for key in may_have)),
        )
    if not vendor.may_have_key(place.destination):
        host = place.destination.text
        lack = f"a key: {name} is for {vendor.name}, and {host} is none of its hosts; `${{{name}}}` in the plan says so"
        return Needs(lacks=(f"{lack} if it is to go there",))
    found = _injected(name, place, "")
    return found + Needs(found.permissions.model_copy(update={"env": (f"{name}=${{{name}}}",), "secrets": ()}))


def _injected(name: str, place: ServiceAddress, missing: str) -> Needs:
    assert place.destination is not None
    host = place.destination.text
    how = "" if place.is_encrypted or place.is_local else ", unencrypted,"
    return Needs.of(
        f"has {name} sent to {host}{how} for it, and never sees it{missing}",
        f"the secret {name}{missing}",
        secrets=[{"name": name, "inject": host}],
    )
