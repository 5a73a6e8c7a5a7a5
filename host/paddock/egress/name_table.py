"""The addresses that a module gets for the names it asks for, one each, and the names of each address.

They lead only to the host, which takes the name back and resolves it itself. A made address, from 198.18.0.0/15, has
one name. A real one may have several. A kept name has its address for as long as the table lives, through every life
of the module: clients remember addresses. A name that is not kept may lose its address to another when there are too
many, the longest unused first. A client that still uses that address is refused, since its connection also names the
host.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Final

NAMES: Final = IPv4Network("198.18.0.0/15")  # RFC 2544, for benchmarks: nothing real has one of them
MAX_NAMES: Final = 4096  # a module asks for a dozen; `*.suffix` and `public` stand for any number

_EDGES: Final = (0, 255)  # broadcast addresses of old, which some clients still refuse


class NameTable:
    """Names to addresses and back: the first `MAX_NAMES` names that are kept get one, and the latest others."""

    def __init__(self) -> None:
        self._free: Iterator[IPv4Address] = (
            address for address in NAMES if address.packed[3] not in _EDGES and address != NAMES[1]
        )
        self._kept: dict[str, IPv4Address] = {}
        self._passing: dict[str, IPv4Address] = {}  # the one that was not used for the longest time first
        self._names: dict[IPv4Address, tuple[str, ...]] = {}

    def address_of(self, name: str, *, keep: bool = True) -> IPv4Address | None:
        """Return the address of a name as `parse_host` spells it; with `keep`, the same each time.

        None once the table has no room for more names that are kept.
        """
        address = self._kept.get(name)
        if address is not None:
            return address
        if not keep:
            return self._passing_address(name)
        if len(self._kept) >= MAX_NAMES:
            return None
        address = self._kept[name] = next(self._free)
        self._names[address] = (name,)
        return address

    def give_real(self, name: str, address: IPv4Address) -> None:
        """Let a kept name have this address from now on; to be called before anybody was told its address."""
        self._kept[name] = address
        self._names[address] = (*self._names.get(address, ()), name)

    def names_of(self, address: IPv4Address) -> tuple[str, ...]:
        """Return the names of an address; of real ones in any thread."""
        names = self._names.get(address, ())
        if names and names[0] in self._passing:
            self._passing[names[0]] = self._passing.pop(names[0])
        return names

    def _passing_address(self, name: str) -> IPv4Address:
        address = self._passing.pop(name, None)
        if address is None:
            if len(self._passing) < MAX_NAMES:
                address = next(self._free)
            else:
                address = self._passing.pop(next(iter(self._passing)))
            self._names[address] = (name,)
        self._passing[name] = address
        return address
