"""The addresses that a module is told for the names it asks for, one each, and which name an address was told for.

They are out of 198.18.0.0/15 and lead nowhere but to the host, which takes the name back and resolves it itself. An
address keeps its name for as long as the table lives, through every life of the module: clients remember addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Final

NAMES: Final = IPv4Network("198.18.0.0/15")  # RFC 2544, for benchmarks: nothing real has one of them
MAX_NAMES: Final = 4096  # a module asks for a dozen; the pattern `*.suffix` stands for any number

_EDGES: Final = (0, 255)  # broadcast addresses of old, which some clients still refuse


class NameTable:
    """Names to addresses and back; the first `MAX_NAMES` names get one."""

    def __init__(self) -> None:
        self._free: Iterator[IPv4Address] = (
            address for address in NAMES if address.packed[3] not in _EDGES and address != NAMES[1]
        )
        self._addresses: dict[str, IPv4Address] = {}
        self._names: dict[IPv4Address, str] = {}

    def address_of(self, name: str) -> IPv4Address | None:
        """Return the address of a name as `parse_host` spells it, the same each time; None once the table is full."""
        address = self._addresses.get(name)
        if address is None and len(self._addresses) < MAX_NAMES:
            address = next(self._free)
            self._addresses[name] = address
            self._names[address] = name
        return address

    def name_of(self, address: IPv4Address) -> str | None:
        """Return the name that an address was told for, if it was told for one."""
        return self._names.get(address)
