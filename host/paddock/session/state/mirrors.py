"""Keep the shared state of a session the same in every worker.

The host keeps its state as the messages that bring a worker up to date, `session_state` only when there is such a
worker. A new worker gets them all before anything else. The others get each change when it is made, before any later
frame. A mount waits for the next frame to each of them, or until nothing has been mounted for a quarter of a second, or
until much waits: otherwise every module that starts would wake all that are there. A change is not sent to the worker
that made it. For a worker that reads more slowly than others write, the host notes the changed keys and sends their
latest values when there is room. No writer waits for it or fails because of it, and it takes no more room than the
state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from paddock.rpc.backlog import SendBacklog
from paddock.rpc.host_calls import HostCalls
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import Encoded, Handle, Peer
from paddock.rpc.rights import allow_any, allow_none
from paddock.session.state.session_state import HostedState
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.protocol import LocalProtocolError
from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.description import Description
from paddock_sdk.protocol.frames import Buffer, FrameParts
from paddock_sdk.protocol.methods import MirrorSection, WorkerMethod
from paddock_sdk.protocol.shared_state import Change, is_gone

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
# Otherwise each newcomer would wake all that are there, and what they do with it waits for a frame to them anyway.
_NOT_URGENT: Final = frozenset({MirrorSection.MOUNTED, MirrorSection.UNMOUNTED, MirrorSection.CONTRIBUTOR})
_QUIET: Final = 0.25  # seconds without a mount, after which modules are through with starting
_LATEST: Final = 4.0  # seconds for which mounts that come all the time may put one off
_NO_CHANGES: Final = b"\x90"
_CONFIRMED_EACH: Final = 64  # changes of state by one worker, which remembers them until then
_MAX_LATE_CHANGES: Final = 64  # of one key, for one worker; if there are more, all that is under the key is sent

Key = tuple[Hashable, ...]

MayCall = Callable[[Peer], bool]
_DESCRIPTION_SECONDS: Final = 1.0  # the longest delay of a turn by one module


def any_worker(peer: Peer) -> bool:
    """Let every worker call an object that it is shown."""
    return True


def no_worker(peer: Peer) -> bool:
    """Let workers see an object that they may not call."""
    return False


@dataclass(frozen=True, slots=True)
class _Entry:
    section: MirrorSection
    change: Encoded
    may_call: MayCall


class Mirrors:
    """The workers of one session, and the state that each of them has to know."""

    def __init__(self, marshaller: Marshaller) -> None:
        self.state = HostedState(marshaller)
        self._peers: dict[Peer, None] = {}
        self._entries: dict[Key, _Entry] = {}
        self._stale: dict[Peer, None] = {}  # those whose objects may have another description by now
        self._codec = Codec(ContractVocabulary())
        self._timer: asyncio.TimerHandle | None = None  # until what is not urgent is sent, if something is unsent
        self._unsent_since = self._latest_mount = 0.0  # in loop time

    def attach(self, peer: Peer, own_capability: Encoded | None = None) -> None:
        """Bring a new worker up to date, and keep it so; a capability of its own is sent to no other."""
        self._peers[peer] = None
        for key, entry in self._entries.items():
            self._tell_one(peer, key, entry, is_new=True, is_first=True)
        for name in self.state.weights:
            self._tell_whole(peer, name, is_new=True)
        if own_capability is not None:  # last: in place of a shared one
            entry = _Entry(MirrorSection.CAPABILITY, own_capability, any_worker)
            self._tell_one(peer, ("own capability",), entry, is_new=True, is_first=True)
        self._send_when_quiet()

    def detach(self, peer: Peer) -> None:
        """Forget a worker that is gone."""
        self._peers.pop(peer, None)
        self._stale.pop(peer, None)
        if not self._peers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_stale(self) -> list[Peer]:
        """Return the workers that compute descriptions and were sent changes since the last call of this method.

        A worker that is blocked could not answer; its turn comes later.
        """
        stale = [peer for peer in self._stale if not peer.blocked]
        for peer in stale:
            del self._stale[peer]
        return stale

    def put(
        self,
        key: Key,
        section: MirrorSection,
        change: Encoded,
        *,
        origin: Peer | None = None,
        may_call: MayCall = any_worker,
    ) -> None:
        """Keep the state under `key`, and send it to every worker but its origin."""
        entry = _Entry(section, change, may_call)
        is_new = key not in self._entries
        self._entries[key] = entry
        for peer in self._those_to_tell(section, origin):
            self._tell_one(peer, key, entry, is_new=is_new)
        if section in _NOT_URGENT:
            self._send_when_quiet()

    def drop(
        self,
        key: Key,
        section: MirrorSection,
        change: Encoded,
        *,
        origin: Peer | None = None,
    ) -> None:
        """Forget the state under `key`, if there is any, and inform every worker but its origin."""
        if self._entries.pop(key, None) is not None:
            for peer in self._those_to_tell(section, origin):
                backlog = peer.channel.backlog
                if backlog is None or not backlog.drop_new(key):
                    self._tell_one(peer, key, _Entry(section, change, any_worker))
            if section in _NOT_URGENT:
                self._send_when_quiet()

    def change_state(
        self, changes: list[Change], message: Encoded, new: Collection[Hashable], origin: Peer | None
    ) -> None:
        """Send every worker but its origin the changes of `session_state` in `message`; some keys may be `new`."""
        if origin is not None and origin.channel.backlog is not None:
            self._note_own(origin.channel.backlog, changes)
        for peer in self._those_to_tell(MirrorSection.STATE, origin):
            backlog = peer.channel.backlog
            if backlog is None:
                self._tell_one(peer, (), _Entry(MirrorSection.STATE, message, any_worker))
                continue
            for change in changes:
                name = change[0][0]
                latest = backlog.kept(("state", name))
                if not isinstance(latest, _LateState):
                    latest = _LateState(self.state, peer, name)
                if is_gone(change) and not latest.is_known and backlog.drop_new(("state", name)):
                    continue
                latest.add(change)
                peer.channel.keep(("state", name), latest, is_new=name in new)

    def _note_own(self, backlog: SendBacklog, changes: list[Change]) -> None:
        """Put a worker's own changes behind unsent ones of others at the same key, in its backlog."""
        for change in changes:
            latest = backlog.kept(("state", change[0][0]))
            if isinstance(latest, _LateState):
                latest.add_own(change)

    def take_own(self, origin: Peer) -> None:
        """Count a change of `session_state` by a worker, which sometimes gets the number of those taken in."""
        if origin.take_state_change() % _CONFIRMED_EACH == 0:
            taken = _taken_before(origin, MirrorSection.STATE)
            origin.channel.mirror_along("state changes taken", MirrorSection.STATE, _NO_CHANGES, target=taken)

    def tell_state_again(self, peer: Peer, name: Hashable) -> None:
        """Send a worker the present value under a key of `session_state`."""
        self._tell_whole(peer, name)

    def _tell_whole(self, peer: Peer, name: Hashable, *, is_new: bool = False) -> None:
        change = self.state.now(name)
        if change is None:
            return
        if peer.channel.backlog is not None:
            latest = _LateState(self.state, peer, name, is_whole=True)
            peer.channel.keep(("state", name), latest, is_new=is_new)
        else:
            self._tell_one(peer, (), _Entry(MirrorSection.STATE, change, any_worker))

    def tell_again(self, peer: Peer, key: Key, section: MirrorSection, otherwise: Encoded) -> None:
        """Send a worker a value that it may not change: the state under `key`, or `otherwise` if there is none."""
        self._tell_one(peer, key, self._entries.get(key) or _Entry(section, otherwise, any_worker))

    def _those_to_tell(self, section: MirrorSection, origin: Peer | None) -> Iterator[Peer]:
        for peer in self._peers:
            if peer.computes and section in _COMPUTED_FROM:
                self._stale[peer] = None
            if peer is not origin:
                yield peer

    def _send_when_quiet(self) -> None:
        loop = asyncio.get_running_loop()
        self._latest_mount = loop.time()
        if self._timer is None and self._peers:
            self._unsent_since = self._latest_mount
            self._timer = loop.call_at(self._due_at, self._on_due)

    @property
    def _due_at(self) -> float:
        return min(self._latest_mount + _QUIET, self._unsent_since + _LATEST)

    def _on_due(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._due_at:
            self._timer = loop.call_at(self._due_at, self._on_due)
            return
        self._timer = None
        for peer in self._peers:
            peer.channel.send_due()

    def _tell_one(
        self,
        peer: Peer,
        key: Key,
        entry: _Entry,
        *,
        is_new: bool = False,
        is_first: bool = False,
    ) -> None:
        if peer.channel.backlog is not None:
            peer.channel.keep(key, partial(_late, peer, entry), is_new=is_new)
            return
        try:
            _mirror(peer, entry, is_urgent=not is_first and entry.section not in _NOT_URGENT)
        except LocalProtocolError as exc:
            # A module can make such a thing of parts that are small enough; no other has to fail over it.
            _log.warning("module `%s` is not sent a change of shared state: %s", peer.name, exc)

    def redescribed(self, handle: Handle, before: Description | None = None) -> None:
        """Send the changed part of an object's description to every worker that knows its `handle`."""
        news = None if before is None else handle.description(self._codec).data_since(before)
        if news is None:
            for peer, known in self._those_who_know(handle):
                _tell_of(peer, known, handle, MirrorSection.DESCRIPTION, peer.shown(handle))
        elif any(news):
            changed, gone = news
            body, _ = self._codec.encode([changed, gone], live_objects=False)
            for peer, known in self._those_who_know(handle):
                if peer.sees_data(handle):
                    _tell_of(peer, known, handle, MirrorSection.DATA, body, *changed, *gone)

    def _those_who_know(self, handle: Handle) -> Iterator[tuple[Peer, int]]:
        for peer in self._peers:
            known = peer.granted(handle)
            if known is not None:
                yield peer, known


class _LateState:
    """The unsent changes of one key of `session_state` for one worker that is behind: the last at each path.

    If these are many, the worker gets all that is under the key instead.
    """

    def __init__(self, state: HostedState, peer: Peer, name: Hashable, *, is_whole: bool = False) -> None:
        self._state = state
        self._peer = peer
        self._name = name
        self._changes: dict[tuple[Hashable, ...], Change] = {}
        self._is_whole = is_whole
        self.is_known = False  # the worker itself has written under the key since

    def add_own(self, change: Change) -> None:
        """Take a change that the worker itself has made."""
        self.is_known = True
        self.add(change)

    def add(self, change: Change) -> None:
        """Take a change in place of those at its path and below it."""
        path = tuple(change[0])
        for old in [old for old in self._changes if old[: len(path)] == path]:
            del self._changes[old]
        self._changes[path] = change
        if self._is_whole or len(self._changes) > _MAX_LATE_CHANGES:
            self._changes.clear()
            self._is_whole = True

    def __call__(self) -> bytes | FrameParts | None:
        change = self._state.now(self._name) if self._is_whole else self._state.written([*self._changes.values()])
        return None if change is None else _late(self._peer, _Entry(MirrorSection.STATE, change, any_worker))


def _mirror(peer: Peer, entry: _Entry, *, is_urgent: bool) -> None:
    """Send a worker a change; one that is not urgent waits for another frame, or until nothing has been mounted lately.

    Raises:
        LocalProtocolError: it is too large to be sent.
    """
    if not peer.is_open:
        return
    entries = peer.send(entry.change.handles, allow_any if entry.may_call(peer) else allow_none)
    target = _taken_before(peer, entry.section)
    try:
        if is_urgent:
            peer.channel.mirror(entry.section, entry.change.body, entries, target=target)
        else:
            peer.channel.mirror_along(object(), entry.section, entry.change.body, entries, target=target, waits=True)
    except LocalProtocolError:
        peer.take_back(entries)
        raise


def _late(peer: Peer, entry: _Entry) -> bytes | FrameParts | None:
    """Return the frame that sends a worker a late change, ahead of later frames; None if too large."""
    entries = peer.send_ahead(entry.change.handles, allow_any if entry.may_call(peer) else allow_none)
    try:
        target = _taken_before(peer, entry.section)
        return peer.channel.connection.send_mirror(entry.section, entry.change.body, entries, target=target)
    except LocalProtocolError as exc:
        peer.take_back(entries)
        _log.warning("module `%s` does not get a change of shared state: %s", peer.name, exc)
        return None


def _taken_before(peer: Peer, section: MirrorSection) -> int:
    """Return how many of a worker's own changes of state precede this change of the host's."""
    return peer.state_changes_taken if section == MirrorSection.STATE else 0


def _late_description(peer: Peer, known: int, handle: Handle) -> bytes | FrameParts | None:
    if peer.granted(handle) != known:
        return None
    return peer.channel.connection.send_mirror(MirrorSection.DESCRIPTION, peer.shown(handle), target=known)


def _tell_of(
    peer: Peer,
    known: int,
    handle: Handle,
    section: MirrorSection,
    body: Buffer,
    *names: str,
) -> None:
    if peer.channel.backlog is not None:
        peer.channel.keep(("description", known), partial(_late_description, peer, known, handle), is_new=False)
    else:
        peer.channel.mirror_along((known, section, names), section, body, target=known)


async def describe_anew(host_calls: HostCalls, mirrors: Mirrors) -> None:
    """Return when the descriptions of mounted objects are as current as can be reached in a moment.

    A tool may compute its description from the session's configuration or state each time it is read. Other processes
    read the latest description that they got. So the host asks modules for new ones before a turn and before a request
    to a provider is put together. It asks every module that computes something and was sent a change since. If a module
    does not answer at once, its earlier description is used.
    """
    asked = [peer for peer in mirrors.take_stale() if peer.takes_calls]
    if not asked:
        return
    nothing = host_calls.marshaller.encode([])
    with anyio.move_on_after(_DESCRIPTION_SECONDS):
        await asyncio.gather(
            *(host_calls.ask(peer, WorkerMethod.DESCRIBE_ANEW, nothing) for peer in asked),
            return_exceptions=True,
        )
