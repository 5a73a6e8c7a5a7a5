"""Bring the names of hosts, as people, modules and protocols spell them, to one spelling, or refuse them.

Grants, comparisons and connections use what `parse_host` returned, so that two spellings of one host are one and no
spelling means two hosts: lower case, no final dot, addresses as addresses (`::ffff:10.0.0.1` is 10.0.0.1), `localhost`
and the names below it as 127.0.0.1. Resolvers read more than that as an address (`127.1`, `0x7f.1`, `0177.0.0.1`,
`2130706433`): a name that ends in a number and is no plain address is refused.

Names are ASCII. The standard library's `idna` codec is IDNA 2003: it makes `ss` of `ß` and a dot of `。`, which most
clients no longer do, and a grant would name another host than the one its module asks for. Clients send the A-label
(`xn--…`), so plans contain the A-label.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from paddock.plan.problems import NotAcceptedError

Host = str | IPv4Address | IPv6Address

LOOPBACK: Final = IPv4Address("127.0.0.1")

_MAX_NAME_CHARACTERS: Final = 253  # RFC 1035: 255 bytes on the wire, two of them for the first length and the root
_MAX_LABEL_CHARACTERS: Final = 63
_MAX_QUOTED_CHARACTERS: Final = 80

# The underscore is not allowed in a host name (RFC 952), but is in use, though in no top-level domain.
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")
_LAST_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_BRACKETED: Final = re.compile(r"\[(?P<inside>[^\[\]]*)\](?::(?P<port>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a connection goes: a host as `parse_host` returns it, and a port."""

    host: Host
    port: int

    @property
    def text(self) -> str:
        """Return the destination in a plan's form: `example.org:443`, `[::1]:8080`."""
        return f"{host_text(self.host)}:{self.port}"


def host_text(host: Host) -> str:
    """Return a host in the form before a colon and a port: an IPv6 address in brackets."""
    return f"[{host}]" if isinstance(host, IPv6Address) else str(host)


def quoted(text: str) -> str:
    """Return a spelling as an error quotes it: all of it, or its beginning."""
    shown = text if len(text) <= _MAX_QUOTED_CHARACTERS else text[:_MAX_QUOTED_CHARACTERS] + "…"
    return f"`{shown}`"


def parse_host(text: str) -> Host:
    """Return the one spelling of a host: an address, also out of brackets if it is IPv6, or else a name.

    Raises:
        NotAcceptedError: it is neither, or another program could read it as another host; the error says why.
    """
    _refuse_strange_characters(text)
    if text.startswith("["):
        bracketed = _BRACKETED.fullmatch(text)
        if bracketed is None or bracketed["port"] is not None or ":" not in bracketed["inside"]:
            raise NotAcceptedError(f"{quoted(text)} has brackets that hold no IPv6 address", "write `[::1]`")
        return _address_v6(bracketed["inside"], text)
    if ":" in text:
        return _address_v6(text, text)
    try:
        return IPv4Address(text)
    except ValueError:
        return _name(text)


def parse_authority(text: str, default_port: int | None = None) -> Destination:
    """Return the destination in `host[:port]`, as after CONNECT, in a URL or in a Host header.

    Raises:
        NotAcceptedError: the host or the port is not accepted, or there is neither a port nor a `default_port`.
    """
    host, port = split_port(text)
    if ":" in host and not host.startswith("["):
        raise NotAcceptedError(
            f"{quoted(text)} has several colons", "write an IPv6 address in brackets, as in `[::1]:443`"
        )
    if port is None:
        port = default_port
    if port is None:
        raise NotAcceptedError(f"{quoted(text)} has no port", "write `host:port`")
    return Destination(parse_host(host), port)


def split_port(text: str) -> tuple[str, int | None]:
    """Return the text before the port, and the port if one is written; an IPv6 address has none without brackets.

    Raises:
        NotAcceptedError: the port is not a number between 1 and 65535.
    """
    bracketed = _BRACKETED.fullmatch(text)
    if bracketed is not None:
        host, port = f"[{bracketed['inside']}]", bracketed["port"]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        return text, None
    if port is None:
        return host, None
    if not _PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise NotAcceptedError(f"{quoted(text)} has no port between 1 and 65535 after the colon")
    return host, int(port)


def _refuse_strange_characters(text: str) -> None:
    if not text:
        raise NotAcceptedError("a host is missing", "write its name or address")
    if len(text) > _MAX_NAME_CHARACTERS + 1:  # first, so that nothing costs more the longer it is; one for a final dot
        raise NotAcceptedError(f"{quoted(text)} is longer than {_MAX_NAME_CHARACTERS} characters")
    if not text.isascii():
        raise NotAcceptedError(
            f"{quoted(text)} has letters beyond ASCII",
            "write the name as it is asked for on the wire, as in `xn--bcher-kva.example`",
        )
    if any(char.isspace() or not char.isprintable() for char in text):
        raise NotAcceptedError(f"{quoted(text)} has a space or an unprintable character in it")
    if "@" in text:
        raise NotAcceptedError(f"{quoted(text)} has a user before an `@`", "write the host alone")
    if "%" in text:
        raise NotAcceptedError(
            f"{quoted(text)} has a `%` in it", "write no zone after an address, and the characters themselves"
        )


def _address_v6(inside: str, text: str) -> IPv4Address | IPv6Address:
    try:
        address = ip_address(inside)
    except ValueError:
        raise NotAcceptedError(f"{quoted(text)} is no IPv6 address") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _name(text: str) -> Host:
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _MAX_NAME_CHARACTERS:
        raise NotAcceptedError(f"{quoted(text)} is longer than {_MAX_NAME_CHARACTERS} characters")
    if not all(labels):
        raise NotAcceptedError(f"{quoted(text)} has nothing between two dots, or before the first")
    if _NUMBER.fullmatch(labels[-1]):
        raise NotAcceptedError(
            f"{quoted(text)} ends in a number and is no address, though some read it as one",
            "write an address with four decimal numbers, as in `127.0.0.1`",
        )
    for label in labels:
        if len(label) > _MAX_LABEL_CHARACTERS:
            raise NotAcceptedError(f"{quoted(text)} has more than {_MAX_LABEL_CHARACTERS} characters between two dots")
        if not (_LAST_LABEL if label is labels[-1] else _LABEL).fullmatch(label):
            raise NotAcceptedError(
                f"{quoted(text)} is no name of a host",
                "names have letters, digits, hyphens and dots, no hyphen beside a dot",
            )
    return LOOPBACK if labels[-1] == "localhost" else name
