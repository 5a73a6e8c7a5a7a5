"""Keep the shared state of a session the same in every worker.

The host's state is written down as the messages that bring a worker up to date, `session_state`
only when there is such a worker: a new one gets them all before anything else, the others get each
change when it is made, before any frame the host sends them later. Nobody is told of a change that
was its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from paddock.rpc.handle import Encoded, Handle
from paddock.rpc.peer import Peer
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.description import Description
from paddock_sdk.protocol.frames import Buffer
from paddock_sdk.protocol.methods import MirrorSection

_log = logging.getLogger(__name__)

# What the objects of a module may compute from.
_COMPUTED_FROM: Final = frozenset(
    {
        MirrorSection.SESSION,
        MirrorSection.STATE,
        MirrorSection.ATTRIBUTE,
        MirrorSection.ATTRIBUTE_DELETED,
        MirrorSection.CAPABILITY,
        MirrorSection.MOUNTED,
        MirrorSection.UNMOUNTED,
    }
)
_MAX_UNREAD: Final = 16 * 1024 * 1024  # bytes one worker has yet to read when another changes shared state

MayCall = Callable[[Peer], bool]


def everyone(peer: Peer) -> bool:
    """Let every worker call what it is shown."""
    return True


@dataclass(frozen=True, slots=True)
class _Entry:
    section: MirrorSection
    change: Encoded
    may_call: MayCall


class Mirrors:
    """The workers of one session, and what each of them has to know."""

    def __init__(self) -> None:
        self._peers: dict[Peer, None] = {}
        self._entries: dict[Hashable, _Entry] = {}
        self._stale: dict[Peer, None] = {}  # those whose objects may say something else by now
        self._codec = Codec(ContractVocabulary())
        self.state: Callable[[], Iterable[Encoded]] = tuple  # writes down `session_state`, for each new worker anew

    @property
    def peers(self) -> list[Peer]:
        return list(self._peers)

    def attach(self, peer: Peer) -> None:
        """Bring a new worker up to date, and keep it so."""
        self._peers[peer] = None
        for entry in self._entries.values():
            self._tell_one(peer, entry)
        for change in self.state():
            self._tell_one(peer, _Entry(MirrorSection.STATE, change, everyone))

    def detach(self, peer: Peer) -> None:
        """Forget a worker that is gone."""
        self._peers.pop(peer, None)
        self._stale.pop(peer, None)

    def take_stale(self) -> list[Peer]:
        """Return the workers that compute what they show and were told of changes since they were last returned here.

        One that stands still waiting could not answer; its turn comes later.
        """
        stale = [peer for peer in self._stale if not peer.blocked]
        for peer in stale:
            del self._stale[peer]
        return stale

    def put(
        self,
        key: Hashable,
        section: MirrorSection,
        change: Encoded,
        *,
        origin: Peer | None = None,
        may_call: MayCall = everyone,
    ) -> None:
        """Write down the state under `key`, and tell everyone but its origin."""
        self._entries[key] = _Entry(section, change, may_call)
        self.tell(section, change, origin=origin, may_call=may_call)

    def drop(self, key: Hashable) -> bool:
        """Forget the state under `key`; return whether there was any."""
        return self._entries.pop(key, None) is not None

    def tell(
        self, section: MirrorSection, change: Encoded, *, origin: Peer | None = None, may_call: MayCall = everyone
    ) -> None:
        """Tell everyone but its origin of a change that a new worker need not hear of by itself."""
        entry = _Entry(section, change, may_call)
        for peer in self._peers:
            if peer.computes and section in _COMPUTED_FROM:
                self._stale[peer] = None
            if peer is origin:
                continue
            if origin is not None:
                _check_reads(peer)
            self._tell_one(peer, entry)

    def _tell_one(self, peer: Peer, entry: _Entry) -> None:
        try:
            peer.mirror(entry.section, entry.change, may_call=entry.may_call(peer))
        except LocalProtocolError as exc:
            # A module can make such a thing of parts that are small enough; no other has to fail over it.
            _log.warning("module `%s` is not told of a change of shared state: %s", peer.name, exc)

    def tell_again(self, peer: Peer, key: Hashable, section: MirrorSection, otherwise: Encoded) -> None:
        """Tell a worker what it may not change, as it is: the state under `key`, or `otherwise` if there is none.

        Raises:
            RemoteProtocolError: it asks for that faster than it reads.
        """
        _check_reads(peer)
        self._tell_one(peer, self._entries.get(key) or _Entry(section, otherwise, everyone))

    def redescribed(self, handle: Handle, before: Description | None = None) -> None:
        """Tell everyone who knows the object behind `handle` how it is described now: of what they know, what changed.

        Raises:
            RemoteProtocolError: its owner says more of it than others can read.
        """
        news = None if before is None else handle.description(self._codec).data_since(before)
        if news is None:
            for peer, known in self._those_who_know(handle):
                _tell_of(peer, known, MirrorSection.DESCRIPTION, peer.shown(handle))
        elif any(news):
            changed, gone = news
            body, _ = self._codec.encode([changed, gone], live_objects=False)
            for peer, known in self._those_who_know(handle):
                if peer.sees_data(handle):
                    _tell_of(peer, known, MirrorSection.DATA, body, *changed, *gone)

    def _those_who_know(self, handle: Handle) -> Iterator[tuple[Peer, int]]:
        for peer in self._peers:
            known = peer.granted(handle)
            if known is not None:
                yield peer, known


def _tell_of(peer: Peer, known: int, section: MirrorSection, body: Buffer, *names: str) -> None:
    _check_reads(peer)
    peer.channel.mirror_along((known, section, names), section, body, target=known)


def _check_reads(peer: Peer) -> None:
    if peer.is_open and peer.channel.unsent_bytes > _MAX_UNREAD:
        # Its reader may be busy for good reasons; who goes on writing meanwhile is the one to stop.
        raise RemoteProtocolError("it changes shared state faster than others can read it")
