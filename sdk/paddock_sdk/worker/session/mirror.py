"""Apply the host's changes of shared state to this process's coordinator, in the order they come.

A change is applied before any later frame is read, also inside a synchronous call. Mounts by others are kept unread
until module code looks at a mount point, or until a frame refers to an object; module code sees the same state. Changes
applied here are not reported back. Another module's value that cannot be read here is left out. A live object under a
key of `session_state` crosses as an attribute that is named for the key.

The host's order decides which changes of `session_state` win when they cross. Each change of the host contains how many
of this process's own changes it had included. The others come after it in the host's order, so they are made again on
top of it.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from paddock_sdk.protocol import Frame, LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.body import EncodeError, unpack_prefix
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from paddock_sdk.protocol.shared_state import MAX_KEY, STATE_ATTRIBUTE, Change, SharedState, touch
from paddock_sdk.worker.driver import Driver
from paddock_sdk.worker.object_table import ObjectTable
from paddock_sdk.worker.session.coordinator import RemoteCancellationToken, RemoteCoordinator
from paddock_sdk.worker.session.hooks import RemoteHookRegistry
from paddock_sdk.worker.session.reporter import Reporter
from paddock_sdk.worker.unsendable import explained

# Applied when module code looks: each takes a stand-in, and a session of many modules has many.
_PUT_OFF: Final = frozenset({MirrorSection.MOUNTED, MirrorSection.UNMOUNTED})
_OF_OBJECTS: Final = frozenset({MirrorSection.DATA, MirrorSection.DESCRIPTION})
# A module that mounts and unmounts for ever costs others no more than that, and some 80 ms at a time.
_MAX_UNREAD: Final = 1024 * 1024  # bytes
_MAX_UNREAD_FRAMES: Final = 1024
_NUMBERS: Final = 1 << 32  # that a frame's header can hold
_log = logging.getLogger(__name__)


class SessionMirror:
    """The state of the session in this process."""

    def __init__(
        self, coordinator: RemoteCoordinator, driver: Driver, objects: ObjectTable, reporter: Reporter
    ) -> None:
        self._coordinator = coordinator
        self._driver = driver
        self._objects = objects
        self._reporter = reporter
        self._state = SharedState(driver.codec, on_kept=self._on_kept)
        self._attributes = SharedState(driver.codec)
        self._sent = _SentChanges()
        self._contributors: dict[int, object] = {}  # others', in the coordinator's channels
        self._is_sending = False
        self._live: dict[str, object] = {}  # by keys of the state: what is to be left for others
        self._lock = threading.RLock()  # of what is unread: module code looks from any thread
        self._unread: list[Frame] = []  # mounts and unmounts by others, in their order
        self._unread_bytes = 0
        self._is_catching_up = False
        self._keeps_up = False

    def on_mirror(self, change: Frame) -> None:
        """Apply one change, or keep it unread until module code looks."""
        section = change.method
        if section in _PUT_OFF and self._put_off(change):
            return
        if change.handles or section in _OF_OBJECTS:
            self.catch_up()
        self._act_on(change)

    def _put_off(self, change: Frame) -> bool:
        with self._lock:
            if not self._keeps_up:
                self._unread.append(change)
                self._unread_bytes += len(change.body) + sum(len(entry.description) for entry in change.handles)
                if self._unread_bytes > _MAX_UNREAD or len(self._unread) > _MAX_UNREAD_FRAMES:
                    self.catch_up()
            return not self._keeps_up

    def catch_up(self, place: tuple[str, str | None] | None = None) -> None:
        """Apply the mounts that are kept unread; if a place is given, only when one of them is there."""
        if not self._unread:
            return
        with self._lock:
            if self._is_catching_up:
                return  # its own decoding asks again
            if place is not None:
                head = self._driver.codec.encode([*place])[0][1:]  # a short list begins with one byte
                if not any(change.body[1 : 1 + len(head)] == head for change in self._unread):
                    return
            self._is_catching_up = True
            try:
                for change in self._unread:
                    try:
                        self._apply(change.method, self._driver.decode(change))
                    except Exception:  # the others do not depend on it
                        _log.exception("a mount by another module could not be acted on")
            finally:  # not before all are applied: a thread that finds none unread takes no lock
                self._unread, self._unread_bytes, self._is_catching_up = [], 0, False

    def keep_up(self) -> None:
        """Apply the mounts that are kept unread, and later ones as they come."""
        if self._keeps_up and not self._unread:
            return  # every look but the first: it takes no lock
        with self._lock:
            self._keeps_up = True
            self.catch_up()

    def _act_on(self, change: Frame) -> None:
        section = change.method
        if section == MirrorSection.DATA:
            self._objects.update(change.target, *self._driver.decode(change))
            return
        if section == MirrorSection.DESCRIPTION:
            self._objects.redescribe(change.target, bytes(change.body))
            return
        self._coordinator.observer = None
        try:
            if section in (MirrorSection.CAPABILITY, MirrorSection.ATTRIBUTE):
                self._apply_named(section, change)
            else:
                value = self._driver.decode(change)
                if section == MirrorSection.STATE:
                    self._apply_state(value, change.target)
                else:
                    self._apply(section, value)
        finally:
            self._coordinator.observer = self._reporter

    def _apply_named(self, section: int, change: Frame) -> None:
        name, rest = unpack_prefix(change.body)
        coordinator = self._coordinator
        try:
            value = self._driver.decode_body(rest, change.handles)
        except RemoteProtocolError as exc:
            # The host passes on modules' values without reading them, so this process is the first to read them.
            _log.warning("what another module offers as %r cannot be read: %s", name, exc)
            (coordinator._capabilities if section == MirrorSection.CAPABILITY else vars(coordinator)).pop(name, None)
            return
        if section == MirrorSection.CAPABILITY:
            coordinator.register_capability(name, value)
        elif name.startswith(STATE_ATTRIBUTE):
            self._state.bind(coordinator.session_state)
            self._state.take_live(name.removeprefix(STATE_ATTRIBUTE), value)
        else:
            setattr(coordinator, name, value)
            self._reporter.note_shared(name, value)
            self._attributes.apply([[[name], [value]]])

    def _apply(self, section: int, value: Any) -> None:
        coordinator = self._coordinator
        hooks, token = coordinator.hooks, coordinator.cancellation
        match section, value:
            case MirrorSection.HEARD, [event, is_heard] if isinstance(hooks, RemoteHookRegistry):
                hooks.hear(event, is_heard)
            case MirrorSection.CANCELLATION, [state, running] if isinstance(token, RemoteCancellationToken):
                token.mirror(state, running)
            case MirrorSection.MOUNTED, [point, name, obj]:
                self._reporter.stand(point, name, obj)
            case MirrorSection.UNMOUNTED, [point, name]:
                self._reporter.stand(point, name, None)
            case MirrorSection.ATTRIBUTE_DELETED, [str() as name] if name.startswith(STATE_ATTRIBUTE):
                self._state.bind(coordinator.session_state)
                self._state.drop_live(name.removeprefix(STATE_ATTRIBUTE))
            case MirrorSection.ATTRIBUTE_DELETED, [name]:
                vars(coordinator).pop(name, None)
                self._reporter.shared.discard(name)
                self._attributes.apply([[[name], []]])
            case MirrorSection.CONTRIBUTOR, [channel, name, callback, number]:
                coordinator.register_contributor(channel, name, callback)
                self._contributors[number] = coordinator.channels[channel][-1]
            case MirrorSection.CONTRIBUTOR_WITHDRAWN, [channel, number]:
                withdrawn = self._contributors.pop(number, None)
                contributors = coordinator.channels.get(channel, [])
                contributors[:] = [known for known in contributors if known is not withdrawn]
            case MirrorSection.SESSION, {"session_id": str(), "config": dict()}:
                self._take_session(value)

    def _apply_state(self, changes: list[Change], taken: int) -> None:
        self._state.bind(self._coordinator.session_state)
        keys = {path[0]: None for path, _ in changes}
        # Otherwise a change that module code made here meanwhile would count as known, and never be sent.
        self._send_state(self._state.changes(among=keys))
        own = self._sent.later_than(taken)
        replaced = [change for change in own if any(touch(change, theirs) for theirs in changes)]
        self._state.apply([*changes, *replaced])

    def _take_session(self, data: dict[str, Any]) -> None:
        coordinator = self._coordinator
        # The dict stays the same one: modules keep it, and expect to see the application's changes in it.
        known = coordinator.config
        known.clear()
        known.update(data["config"])
        coordinator.show_systems(approval=data.pop("has_approval", True), display=data.pop("has_display", True))
        session = data.pop("session", None) or SimpleNamespace()  # stands for the application's own session
        vars(session).update(data, config=known, coordinator=coordinator)
        coordinator.bind_session(session)

    def send_changes(self) -> None:
        """Send the changes that module code made in place since the last frame; called before each frame leaves."""
        if self._is_sending:
            return
        self._is_sending = True
        try:
            self._state.bind(self._coordinator.session_state)
            self._send_state(self._state.changes())
            if self._reporter.shared:
                own = vars(self._coordinator)
                shared = {name: own[name] for name in list(self._reporter.shared) if name in own}
                self._attributes.bind(shared)
                for path, value in self._attributes.changes():
                    if value:
                        self._send(HostMethod.SET_ATTRIBUTE, shared[path[0]], head=path[0])
        except Exception:  # the frame that is about to leave may be an answer that a caller waits for
            _log.exception("changes of shared state could not be sent")
        finally:
            self._is_sending = False

    def _on_kept(self, key: object, value: object) -> bool:
        """Have a live object under a key left for others, or report why they do not see it; return whether it is left.

        One under a private name stays here.
        """
        if not isinstance(key, str) or key.startswith("_") or len(key) > MAX_KEY:
            return False
        encode = partial(self._driver.codec.encode, live_objects=self._objects.may_go_live)
        try:
            self._driver.codec.decode(*encode(value))
        except (EncodeError, RemoteProtocolError) as exc:
            if isinstance(exc, EncodeError):
                _log.warning("it stays in this module: %s", explained(exc, {key: value}, "session_state", encode))
            return False
        self._live[key] = value
        return True

    def _send_state(self, changes: list[Change]) -> None:
        was_sending, self._is_sending = self._is_sending, True
        try:
            for change in changes:
                if self._send(HostMethod.PATCH_STATE, [change]):
                    self._sent.add(change)
            while self._live:  # after the data that was under these keys
                key = next(iter(self._live))
                self._send(HostMethod.SET_ATTRIBUTE, self._live.pop(key), head=f"{STATE_ATTRIBUTE}{key}")
        finally:
            self._is_sending = was_sending

    def _send(self, method: HostMethod, value: Any, head: str | None = None) -> bool:
        """Send a change; return whether it could be sent."""
        try:
            self._driver.notify(method, value, head=head)
        except LocalProtocolError as exc:
            # Raised here, it would fail the next call, which is unrelated.
            _log.warning("a change of shared state stays in this module: %s", exc)
            return False
        return True


class _SentChanges:
    """This process's latest changes of `session_state` at each path that the host may not have included yet."""

    def __init__(self) -> None:
        self._number = 0  # of those that were sent
        self._changes: dict[tuple[Any, ...], tuple[int, Change]] = {}  # in the order of their numbers

    def add(self, change: Change) -> None:
        """Remember a change that was sent."""
        self._number += 1
        path = tuple(change[0])
        self._changes.pop(path, None)
        self._changes[path] = self._number, change

    def later_than(self, number: int) -> list[Change]:
        """Return the changes after so many that the host has taken in, whose number has 32 bits, and forget those."""
        for path in [path for path, (sent, _) in self._changes.items() if (number - sent) % _NUMBERS < _NUMBERS // 2]:
            del self._changes[path]
        return [change for _, change in self._changes.values()]
