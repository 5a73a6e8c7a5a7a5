"""Answer the lookups of one life of a module, on the socket where they arrive, no faster than a budget."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from paddock.egress.bounds import EgressLimits
from paddock.egress.dns.answers import MAX_DATAGRAM_BYTES, Lookup, answer
from paddock.token_bucket import TokenBucket

_ANSWERED_AT_ONCE: Final = 16  # for one wake-up


class LookupSocket:
    """Answers on `sock`, which it owns; `on_unknown` hears of each name that does not exist."""

    def __init__(
        self, sock: socket.socket, bounds: EgressLimits, lookup: Lookup, on_unknown: Callable[[str], None]
    ) -> None:
        self._sock = sock
        self._lookup = lookup
        self._on_unknown = on_unknown
        self._budget = TokenBucket(bounds.lookups_per_second, bounds.lookups_at_once)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._read()

    def close(self) -> None:
        """Answer nothing more."""
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
        if answered.name is not None and not answered.known:
            self._on_unknown(answered.name)
        try:
            self._sock.sendto(answered.reply, sender)
        except OSError:
            return  # it does not read its answers
