"""Answer the name lookups of one module: granted names have an address that the host gives, others do not exist.

For each query datagram it sends one reply. Nothing is forwarded, so lookups carry nothing away. Answers have IPv4
addresses only: any other question about a granted name has an empty answer, upon which clients go on to ask for those
(RFC 1035, RFC 6891 for EDNS, RFC 6761 for `localhost`).

A `LookupSocket` answers the lookups of one life of a module, no faster than a budget. The answer about a name whose
address is being decided waits for that.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address
from typing import Final

from paddock.egress.limits import EgressLimits
from paddock.plan.host_name import parse_host
from paddock.plan.problems import NotAcceptedError
from paddock.token_bucket import TokenBucket

MAX_DATAGRAM_BYTES: Final = 512  # RFC 1035; a query has at most half of that
TTL: Final = 30  # seconds; addresses are the same for longer than that, a client that asks again costs little

Lookup = Callable[[str], IPv4Address | None]

_ANSWERED_AT_ONCE: Final = 16  # for one wake-up
_HEADER: Final = struct.Struct(">HHHHHH")
_FIXED: Final = struct.Struct(">HHIH")  # of a record after its name: type, class, TTL, length of its data
_QUESTION: Final = struct.Struct(">HH")
_POINTER_TO_QUESTION: Final = b"\xc0\x0c"

_IS_REPLY: Final = 0x8000
_OPCODE: Final = 0x7800
_ECHOED: Final = 0x7910  # opcode, recursion desired, checking disabled
_RECURSION_AVAILABLE: Final = 0x0080

_TYPE_A: Final = 1
_TYPE_OPT: Final = 41
_CLASS_IN: Final = 1
_MAX_NAME_BYTES: Final = 255
_MAX_LABEL_BYTES: Final = 63
_REVERSE: Final = (".in-addr.arpa", ".ip6.arpa")


class _Code(IntEnum):
    """The result of a query; those above 15 need EDNS."""

    NO_ERROR = 0
    MALFORMED = 1
    NO_SUCH_NAME = 3
    NOT_IMPLEMENTED = 4
    REFUSED = 5
    BAD_VERSION = 16


class _MalformedError(Exception):
    """The datagram is no readable query."""


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """A `reply` to send; `name` is the name in question, if a host can have it, `known` whether it exists."""

    reply: bytes
    name: str | None = None
    known: bool = False


@dataclass(frozen=True, slots=True)
class _Query:
    labels: tuple[bytes, ...]
    kind: int
    rdclass: int
    question: bytes  # as it was sent: clients check that capitals come back as they were
    edns_version: int | None


def answer(datagram: bytes, lookup: Lookup) -> DnsAnswer | None:
    """Return the answer to a datagram; None if it is no query and gets no answer.

    `lookup` returns the address of a name, as `parse_host` spells it, or None for one that is not to exist.
    """
    if len(datagram) < _HEADER.size:
        return None
    identity, flags, *_ = _HEADER.unpack_from(datagram)
    if flags & _IS_REPLY:
        return None
    if flags & _OPCODE:
        return DnsAnswer(_reply(identity, flags, _Code.NOT_IMPLEMENTED))
    try:
        query = _read(datagram)
    except _MalformedError:
        return DnsAnswer(_reply(identity, flags, _Code.MALFORMED))
    if query.edns_version:
        return DnsAnswer(_reply(identity, flags, _Code.BAD_VERSION, query))
    if query.rdclass != _CLASS_IN:
        return DnsAnswer(_reply(identity, flags, _Code.REFUSED, query))
    name, address = _address_of(query.labels, lookup)
    if address is None:
        return DnsAnswer(_reply(identity, flags, _Code.NO_SUCH_NAME, query), name)
    shown = address if query.kind == _TYPE_A else None
    return DnsAnswer(_reply(identity, flags, _Code.NO_ERROR, query, shown), name, known=True)


def _address_of(labels: tuple[bytes, ...], lookup: Lookup) -> tuple[str | None, IPv4Address | None]:
    # A dot within a label would make another name of it.
    if any(b"." in label for label in labels):
        return None, None
    text = b".".join(labels).decode("latin-1")
    if text.lower().endswith(_REVERSE):
        return None, None
    try:
        host = parse_host(text)
    except NotAcceptedError:
        return None, None
    if isinstance(host, str):
        return host, lookup(host)
    if isinstance(host, IPv4Address) and labels[-1].lower() == b"localhost":
        return text.lower(), host  # the same everywhere; other code decides about connections to it
    return None, None  # the text of an address, which is no name


def _reply(
    identity: int, flags: int, code: _Code, query: _Query | None = None, shown: IPv4Address | None = None
) -> bytes:
    has_edns = query is not None and query.edns_version is not None
    reply_flags = _IS_REPLY | flags & _ECHOED | _RECURSION_AVAILABLE | code & 0xF
    parts = [_HEADER.pack(identity, reply_flags, int(query is not None), int(shown is not None), 0, int(has_edns))]
    if query is not None:
        parts.append(query.question)
    if shown is not None:
        parts += [_POINTER_TO_QUESTION, _FIXED.pack(_TYPE_A, _CLASS_IN, TTL, 4), shown.packed]
    if has_edns:
        # No options, version 0, no DNSSEC. The class is how much may be sent here, the TTL has the code's upper bits.
        parts += [b"\0", _FIXED.pack(_TYPE_OPT, MAX_DATAGRAM_BYTES, code >> 4 << 24, 0)]
    return b"".join(parts)


def _read(datagram: bytes) -> _Query:
    if len(datagram) > MAX_DATAGRAM_BYTES:
        raise _MalformedError
    _, _, questions, answers, authorities, additional = _HEADER.unpack_from(datagram)
    if questions != 1 or answers or authorities or additional > 1:
        raise _MalformedError
    labels, at = _name(datagram, _HEADER.size)
    end = at + _QUESTION.size
    if len(datagram) < end:
        raise _MalformedError
    kind, rdclass = _QUESTION.unpack_from(datagram, at)
    version, rest = (None, datagram[end:]) if not additional else _edns(datagram[end:])
    if rest:
        raise _MalformedError
    return _Query(labels, kind, rdclass, datagram[_HEADER.size : end], version)


def _name(datagram: bytes, at: int) -> tuple[tuple[bytes, ...], int]:
    """Return the labels of the name at `at`, and where it ends; a question has nothing to point back to."""
    labels: list[bytes] = []
    start = at
    while True:
        if at >= len(datagram):
            raise _MalformedError
        size = datagram[at]
        at += 1
        if size == 0:
            return tuple(labels), at
        # Above 63 the two upper bits are set: a pointer, or a kind of label that is not in use.
        if size > _MAX_LABEL_BYTES or at + size > len(datagram) or at + size + 1 - start > _MAX_NAME_BYTES:
            raise _MalformedError
        labels.append(datagram[at : at + size])
        at += size


def _edns(record: bytes) -> tuple[int, bytes]:
    """Return the version of EDNS in the one additional record, and the data after that record."""
    if len(record) < 1 + _FIXED.size or record[0] != 0:
        raise _MalformedError
    kind, _, extended, size = _FIXED.unpack_from(record, 1)
    end = 1 + _FIXED.size + size
    if kind != _TYPE_OPT or len(record) < end:
        raise _MalformedError
    return extended >> 16 & 0xFF, record[end:]


# -- the socket -------------------------------------------------------------------------------------


class LookupSocket:
    """Answers on `sock`, which it owns; `on_unknown` is called with each name that does not exist.

    `deciding` returns what decides on the address of a name that exists, for a bounded time; None once it is decided.
    """

    def __init__(
        self,
        sock: socket.socket,
        bounds: EgressLimits,
        lookup: Lookup,
        deciding: Callable[[str], asyncio.Future[None] | None],
        on_unknown: Callable[[str], None],
    ) -> None:
        self._sock = sock
        self._lookup = lookup
        self._deciding = deciding
        self._on_unknown = on_unknown
        self._budget = TokenBucket(bounds.lookups_per_second, bounds.lookups_at_once)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._read()

    def close(self) -> None:
        """Stop answering."""
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._loop.remove_reader(self._sock)
        self._sock.close()

    def _read(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock, self._receive)

    def _receive(self) -> None:
        for _ in range(_ANSWERED_AT_ONCE):
            if wait := self._budget.wait(self._loop.time()):
                # What arrives meanwhile waits in the kernel, or is lost, as lookups are: clients ask again.
                self._loop.remove_reader(self._sock)
                self._pause = self._loop.call_later(wait, self._read)
                return
            try:
                datagram, sender = self._sock.recvfrom(MAX_DATAGRAM_BYTES + 1)
            except OSError:
                return
            self._budget.take()
            self._answer(datagram, sender)

    def _answer(self, datagram: bytes, sender: tuple[str, int]) -> None:
        answered = answer(datagram, self._lookup)
        if answered is None:
            return
        if answered.name is not None:
            if not answered.known:
                self._on_unknown(answered.name)
            elif (decision := self._deciding(answered.name)) is not None:
                decision.add_done_callback(lambda _: self._answer(datagram, sender))
                return
        try:
            self._sock.sendto(answered.reply, sender)
        except OSError:
            return  # it does not read its answers
