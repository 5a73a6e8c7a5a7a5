"""The session's real coordinator: the kernel's own, with every change of it mirrored to the workers.

Objects in it are the host's stand-ins. Attributes that the application or modules attach are kept apart from its own,
so that no name that a module chooses can reach the host's state. Each has one value: the last one attached, for the
application as for modules.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from paddock.errors import Denial
from paddock.policy.authority import KEPT, Authority, is_kept
from paddock.rpc.fan_in import ResponseBudget
from paddock.rpc.marshal import Marshaller
from paddock.rpc.peer import AnyHandle, Encoded, Handle, HostObject, Peer, Place
from paddock.session.state.cancellation import HostedCancellationToken
from paddock.session.state.hooks import HostedHooks
from paddock.session.state.mirrors import MayCall, Mirrors, any_worker, no_worker
from paddock.session.state.ownership import Ownership, SharedItem, attached
from paddock.session.state.session_state import HostedState, WrittenState
from paddock_sdk.contract.approval import ApprovalSystem, DisplaySystem
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.contract.models import ContextInjection
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.kernel.mounts import RESOLVER_POINT
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.frames import Buffer
from paddock_sdk.protocol.methods import MirrorSection
from paddock_sdk.protocol.shared_state import STATE_ATTRIBUTE, Change

_SPAWNING: Final = frozenset({"session.spawn", "session.resume"})  # capabilities that start further sessions
_SPAWN: Final = ("spawn", None)  # the `call` grant that they need, as if they were mounted there


class HostedCoordinator(ModuleCoordinator):
    """A `ModuleCoordinator` whose modules run in workers."""

    ownership: Ownership
    _token: HostedCancellationToken
    _marshaller: Marshaller
    _mirrors: Mirrors
    _hosted_hooks: HostedHooks
    _attributes: dict[str, Any]  # that were attached; those by modules are encoded
    _state: HostedState
    _on_state_written: Callable[[Peer | None, Hashable, int, int], None]
    _on_injection_left_out: Callable[[ContextInjection, OverLimitError], None]
    _writers: dict[Hashable, str]  # the last of each key of `session_state`, since they were taken
    _origin: Peer | None
    _contributions: int  # that were ever made
    _broadcast: _Broadcast
    _sent_session: tuple[Buffer, dict[str, bool]]
    _session_handle: HostObject

    def __init__(
        self,
        session: Any,
        marshaller: Marshaller,
        mirrors: Mirrors,
        approval_system: ApprovalSystem | None = None,
        display_system: DisplaySystem | None = None,
    ) -> None:
        self.ownership = Ownership()
        self._marshaller = marshaller
        self._mirrors = mirrors
        self._attributes = {}
        self._state = mirrors.state
        self._on_state_written = lambda origin, key, before, after: None
        self._on_injection_left_out = lambda item, error: None
        self._writers = {}
        self._origin = None
        self._contributions = 0
        self._broadcast = _Broadcast(self)
        super().__init__(session, approval_system, display_system)
        self.observer = self._broadcast
        self._state.shared.bind(self.session_state)
        self._send_session()
        self._tell_cancellation()

    def _make_cancellation(self) -> HostedCancellationToken:
        self._token = HostedCancellationToken(lambda state: self._tell_cancellation())
        return self._token

    @property
    def cancellation(self) -> HostedCancellationToken:
        return self._token

    def _make_hooks(self) -> HookRegistry:
        self._hosted_hooks = HostedHooks(self._broadcast)
        return self._hosted_hooks

    @property
    def hooks(self) -> HostedHooks:
        return self._hosted_hooks

    def report_to(
        self,
        on_state_written: Callable[[Peer | None, Hashable, int, int], None],
        on_injection_left_out: Callable[[ContextInjection, OverLimitError], None],
    ) -> None:
        """Report what is charged to modules, from when they are served.

        `on_state_written` is called with the writer and the key of `session_state`, and the memory that the key took
        before and takes now, 0 for none. `on_injection_left_out` is called with a hook's injection that the
        conversation has no room for.
        """
        self._on_state_written = on_state_written
        self._on_injection_left_out = on_injection_left_out

    async def collect_contributions(self, channel: str) -> list[Any]:
        """Return the contributions to a channel; those beyond one message are dropped."""
        with ResponseBudget(keeps_all=True):
            return await super().collect_contributions(channel)

    def _leave_out(self, item: ContextInjection, error: OverLimitError) -> None:
        self._on_injection_left_out(item, error)

    def __getattr__(self, name: str) -> Any:
        # Only for names not found otherwise: an attribute that was attached.
        attached = self.__dict__.get("_attributes", {})
        if name not in attached:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        value = attached[name]
        try:
            return self._marshaller.decode(value) if isinstance(value, Encoded) else value
        except RemoteProtocolError as exc:
            raise AttributeError(f"the attribute '{name}' that a module attached cannot be read: {exc}") from exc

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._own_names:
            super().__setattr__(name, value)
            return
        if self.observer is not None:
            self.observer.attribute(name, value)  # a value that cannot be shared raises, and the earlier one stays
        self._attributes[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self._attributes:
            super().__delattr__(name)
            return
        del self._attributes[name]
        if self.observer is not None:
            self.observer.attribute_deleted(name)

    def put(self, key: tuple[object, ...], section: MirrorSection, value: object, **options: Any) -> None:
        """Encode a change and put it in everyone's mirror but that of the module it came from."""
        self._mirrors.put(key, section, self._marshaller.encode(value, share=True), origin=self._origin, **options)

    def named(self, value: object) -> Any:
        """Return a copy of a module's value, with names in the places of objects, for people to read.

        Raises:
            EncodeError: something in it has no form on the wire.
        """
        return self._marshaller.named(value)

    # -- changes by modules ----------------------------------------------------------------

    @contextmanager
    def coming_from(self, origin: Peer) -> Iterator[None]:
        """Notify every worker but this one of what its module does within."""
        self._origin = origin
        try:
            yield
        finally:
            self._origin = None

    def offer_from(self, origin: Peer, module: Authority, name: str, value: Encoded) -> None:
        """Register a module's capability; its value is only decoded when the host reads it."""
        self._capabilities[name] = value
        may_call = _as_given_by(origin, value)
        if is_kept(name):
            may_call = _kept((KEPT, name), origin, value, may_call)
        self._note_left(SharedItem("capability", name), module, name, value, may_call, origin)

    def attach_from(self, origin: Peer, module: Authority, name: str, value: Encoded) -> None:
        """Take an attribute that a module attached; its value is only decoded when the host reads it."""
        self._attributes[name] = value
        thing = attached(name)
        may_call = _as_given_by(origin, value)
        if thing.sort == "state":
            self._writers[thing.name] = module.name
            may_call = _kept(("state", str(thing.name)), origin, value, may_call)
        self._note_left(thing, module, name, value, may_call, origin)

    def _note_left(
        self,
        thing: SharedItem,
        by: Authority | None,
        name: str,
        value: Encoded,
        may_call: MayCall = any_worker,
        origin: Peer | None = None,
    ) -> None:
        """Note whose a capability or an attribute is, and put it in everyone's mirror but that of its origin."""
        self.ownership.note_left(thing, by, is_live=bool(value.handles))
        section = MirrorSection.CAPABILITY if thing.sort == "capability" else MirrorSection.ATTRIBUTE
        change = headed(self._marshaller, name, value)
        self._mirrors.put((section, name), section, change, origin=origin, may_call=may_call)

    def detach_from(self, origin: Peer, name: str) -> None:
        """Drop an attribute that a module attached."""
        self.ownership.gone(attached(name))
        if self._attributes.pop(name, None) is not None:
            gone = self._marshaller.encode([name])
            self._mirrors.drop((MirrorSection.ATTRIBUTE, name), MirrorSection.ATTRIBUTE_DELETED, gone, origin=origin)

    def patch_state_from(self, origin: Peer, module: Authority, changes: list[Change]) -> list[Denial]:
        """Make a module's changes of `session_state`; return the refusals of those that it may not make.

        The present values of the refused keys are sent to it again, because it changed them in its own process.
        """
        self._state.shared.bind(self.session_state)
        keys = {path[0]: None for path, _ in changes}
        refusal = self.ownership.refusal
        untold = self._claim_state({key: None for key in keys if refusal(SharedItem("state", key), module) is None})
        refusals = {key: refusal(SharedItem("state", key), module) for key in keys}
        allowed = [change for change in changes if refusals[change[0][0]] is None]
        self._mirrors.take_own(origin)  # later writes come after it
        for path, _ in allowed:
            self._writers[path[0]] = module.name
            if isinstance(path[0], str):
                self.detach_from(origin, f"{STATE_ATTRIBUTE}{path[0]}")  # what is data now, or gone, is no live object
        if allowed:
            self._state.shared.apply(allowed)
            self._tell_state(allowed, origin)
        for key, refused in refusals.items():
            if refused is not None or key in untold:
                self._tell_again(origin, key)
        return [refused for refused in refusals.values() if refused is not None]

    def keep_state(self, origin: Peer, keys: Collection[Hashable]) -> None:
        """Keep some keys of `session_state`, and send the present values to the module that changed them."""
        self._state.shared.bind(self.session_state)
        self._claim_state(keys)
        self._mirrors.take_own(origin)
        for key in keys:
            self._tell_again(origin, key)

    def _tell_again(self, origin: Peer, key: Hashable) -> None:
        if isinstance(key, str) and (name := f"{STATE_ATTRIBUTE}{key}") in self._attributes:
            self.keep_attribute(origin, name)
        else:
            self._mirrors.tell_state_again(origin, key)

    def refusal(self, thing: SharedItem, module: Authority) -> Denial | None:
        """Return why a module may not change what it or others left, None if it may."""
        if thing.sort == "state":
            self._state.shared.bind(self.session_state)
            self._claim_state([thing.name])
        return self.ownership.refusal(thing, module)

    def _claim_state(self, keys: Collection[Hashable]) -> set[Hashable]:
        """Send the application's unsent changes under some keys; return these keys."""
        state = self._state.shared
        changes = state.changes(among=keys)
        self._take_state_changes(changes)
        for key in keys:
            if key in state.live and not state.is_known(key):
                self.ownership.note_left(
                    SharedItem("state", key), None
                )  # it cannot be sent, so no module can have made it
        return {path[0] for path, _ in changes}

    def keep_attribute(self, origin: Peer, name: str) -> None:
        """Send a module the present value of an attribute that it may not change."""
        gone = self._marshaller.encode([name])
        self._mirrors.tell_again(origin, (MirrorSection.ATTRIBUTE, name), MirrorSection.ATTRIBUTE_DELETED, gone)

    def contribute_from(
        self,
        origin: Peer,
        channel: str,
        name: str,
        callback: object,
    ) -> Callable[[], None]:
        """Add a module's contributor, without notifying the module; return a function that withdraws it."""
        with self.coming_from(origin):
            self.register_contributor(channel, name, callback)
        return partial(self._withdraw, channel, self._contributions, self.channels[channel][-1])

    def number_contribution(self) -> int:
        """Return the number of a contribution that is being made."""
        self._contributions += 1
        return self._contributions

    def _withdraw(self, channel: str, number: int, contributor: object) -> None:
        contributors = self.channels.get(channel, [])
        contributors[:] = [known for known in contributors if known is not contributor]
        gone = self._marshaller.encode([channel, number])
        self._mirrors.drop(("contributor", number), MirrorSection.CONTRIBUTOR_WITHDRAWN, gone)

    def retract(self, name: str, value: Encoded) -> None:
        """Forget a capability, unless another has taken its place."""
        if self._capabilities.get(name) is value:
            del self._capabilities[name]
            self._note_left(SharedItem("capability", name), None, name, self._marshaller.encode(None))

    def is_the_applications(self, name: str) -> bool:
        """Whether a capability of that name is offered, and not by a module."""
        return name in self._capabilities and not isinstance(self._capabilities[name], Encoded)

    def application_capabilities(self) -> dict[str, Any]:
        """Return the capabilities that no module offered."""
        return {name: value for name, value in self._capabilities.items() if not isinstance(value, Encoded)}

    def application_state(self) -> dict[str, Any]:
        """Return a copy of what is in `session_state` under the keys that the application wrote."""
        self.tell_state_changes()
        written = self.ownership.is_written_by_the_application
        state = list(self.session_state.items())  # a list: another thread may be writing to it
        return {key: _copied(value) for key, value in state if written(SharedItem("state", key))}

    def get_capability(self, name: str) -> Any:
        """Return the object offered under `name`, or None."""
        value = super().get_capability(name)
        return self._marshaller.decode(value) if isinstance(value, Encoded) else value

    # -- changes by the application --------------------------------------------------------

    def begin_turn(self) -> None:
        """Begin a turn: no module has cancelled it yet, nor injected anything into it."""
        self._token.withdraw()
        self.reset_turn()

    def tell_state_changes(self) -> None:
        """Send the workers the application's in-place changes of `session_state` and `config`."""
        if self._session_facts() != self._sent_session:
            self._send_session()
        self._state.shared.bind(self.session_state)
        self._take_state_changes(self._state.shared.changes())

    def _take_state_changes(self, changes: list[Change]) -> None:
        for path, _ in changes:
            self._writers[path[0]] = ""
            self.ownership.note_left(SharedItem("state", path[0]), None)
        if changes:
            self._tell_state(changes, None)

    def take_written_state(self) -> list[WrittenState]:
        """Return what is now under each key of `session_state` that was written since the last call of this method.

        Keys that are no text are left out.
        """
        self.tell_state_changes()
        writers, self._writers = self._writers, {}
        return [
            WrittenState(key, writer, self._state.shared.whole(key), f"{STATE_ATTRIBUTE}{key}" in self._attributes)
            for key, writer in writers.items()
            if isinstance(key, str)
        ]

    def give_back_state(self, writer: Peer, module: Authority, key: str, change: Change) -> bool:
        """Put back what a module wrote under a key in an earlier process; return whether nothing stood in the way."""
        self._state.shared.bind(self.session_state)
        self._claim_state([key])
        item = SharedItem("state", key)
        is_set = key in self.session_state or f"{STATE_ATTRIBUTE}{key}" in self._attributes
        if is_set or self.ownership.is_written_by_the_application(item) or self.ownership.refusal(item, module):
            return False
        self._state.shared.apply([change])
        self._tell_state([change], None, writer)
        return True

    def _tell_state(self, changes: list[Change], origin: Peer | None, writer: Peer | None = None) -> None:
        message = self._marshaller.encode(changes)
        keys = {path[0]: None for path, _ in changes}
        self._mirrors.change_state(changes, message, keys.keys() - self._state.weights.keys(), origin)
        for key in keys:
            self._on_state_written(writer or origin, key, *self._state.weigh(key, message))

    def state_weight(self, key: Hashable) -> int:
        """Return the memory of all that is under a key of `session_state`, as last sent to workers."""
        return self._state.weights.get(key, 0)

    def bind_session(self, session: Any) -> None:
        """Put the real session in its place, for the workers as well."""
        super().bind_session(session)
        self._send_session()

    def _session_facts(self) -> tuple[Buffer, dict[str, bool]]:
        return self._marshaller.encode(self.config).body, {
            "initialized": bool(getattr(self.session, "initialized", False)),
            "has_approval": self.approval_system is not None,
            "has_display": self.display_system is not None,
        }

    def _send_session(self) -> None:
        self._sent_session = self._session_facts()
        # Modules pass it on to the starter of a session in its name; to them it is only its description.
        self._session_handle = self._marshaller.show(self.session, "AmplifierSession")
        facts = {
            "session_id": self.session_id,
            "parent_id": self.parent_id,
            "config": self.config,
            "is_resumed": bool(getattr(self.session, "is_resumed", False)),
            "session": self.session,
            **self._sent_session[1],
        }
        self.put(("session",), MirrorSection.SESSION, facts)

    def _tell_cancellation(self) -> None:
        self.put(
            ("cancellation",), MirrorSection.CANCELLATION, [self.cancellation.state, self.cancellation.running_calls]
        )


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # it contains something that cannot be copied, such as a lock: then two sessions share it
        return value


class _Broadcast:
    """Turns changes of the coordinator and its hooks into changes of the mirrors."""

    def __init__(self, coordinator: HostedCoordinator) -> None:
        self._coordinator = coordinator
        self._places: dict[Place, AnyHandle] = {}

    def mounted(self, point: str, name: str | None, obj: Any) -> None:
        if point == RESOLVER_POINT:
            return  # it decides which code is trusted, and is the application's alone
        self._vacate((point, name))
        handle = self._places[(point, name)] = self._coordinator._marshaller.handle_of(obj)
        handle.mount_at((point, name))
        self._coordinator.put(
            ("mounted", point, name),
            MirrorSection.MOUNTED,
            [point, name, obj],
            may_call=lambda peer: peer.authority.may_call(point, name),
        )

    def _vacate(self, place: Place) -> None:
        handle = self._places.pop(place, None)
        if handle is not None and handle.mounted == place:
            handle.mount_at(next((other for other, held in self._places.items() if held is handle), None))

    def unmounted(self, point: str, name: str | None) -> None:
        self._vacate((point, name))
        coordinator = self._coordinator
        gone = coordinator._marshaller.encode([point, name])
        coordinator._mirrors.drop(("mounted", point, name), MirrorSection.UNMOUNTED, gone, origin=coordinator._origin)

    def capability(self, name: str, value: Any) -> None:
        message = self._coordinator._marshaller.encode(value, share=True)
        if name in _SPAWNING:
            for handle in message.handles:
                handle.mount_at(_SPAWN)

        def may_call(peer: Peer) -> bool:
            return all(peer.may_reach(handle) for handle in message.handles)

        self._coordinator._note_left(SharedItem("capability", name), None, name, message, may_call)

    def attribute(self, name: str, value: Any) -> None:
        message = self._coordinator._marshaller.encode(value, share=True)
        self._coordinator._note_left(SharedItem("attribute", name), None, name, message)

    def attribute_deleted(self, name: str) -> None:
        self._coordinator.ownership.gone(SharedItem("attribute", name))
        gone = self._coordinator._marshaller.encode([name])
        self._coordinator._mirrors.drop((MirrorSection.ATTRIBUTE, name), MirrorSection.ATTRIBUTE_DELETED, gone)

    def contributor(self, channel: str, name: str, callback: Any) -> None:
        number = self._coordinator.number_contribution()
        self._coordinator.put(
            ("contributor", number), MirrorSection.CONTRIBUTOR, [channel, name, callback, number], may_call=no_worker
        )

    def cleanup(self, fn: Any) -> None:
        """Keep it to the host: cleanups are run here, in one order."""

    def subscribed(self, event: str) -> None:
        # Also to the module that registered: its own emits have to come here from now on.
        self._coordinator.put(("heard", event), MirrorSection.HEARD, [event, True])

    def unsubscribed(self, event: str) -> None:
        coordinator = self._coordinator
        # A module that comes later takes it for granted.
        coordinator._mirrors.drop(("heard", event), MirrorSection.HEARD, coordinator._marshaller.encode([event, False]))


def _as_given_by(origin: Peer, value: Encoded) -> MayCall:
    """Let workers call an object that a module offers, as far as the module can give it now.

    Later changes of the object or its loans do not matter. An object that is mounted now takes a right of theirs
    also when it is no longer mounted.
    """
    own = [handle for handle in value.handles if isinstance(handle, Handle) and handle.owner is origin]
    others = [handle for handle in value.handles if handle not in own]
    if any(handle.mounted is None and not origin.may_give(handle, origin) for handle in others):
        return no_worker
    places = [handle.mounted for handle in others if handle.mounted is not None]
    return lambda peer: all(
        (*(peer.may_reach(handle) for handle in others), *(peer.authority.may_call(*place) for place in places))
    )


def _kept(place: Place, origin: Peer, value: Encoded, otherwise: MayCall) -> MayCall:
    """Allow what a module left only to the workers that it is kept for, of those that `otherwise` allows."""
    for handle in value.handles:
        if isinstance(handle, Handle) and handle.owner is origin and handle.mounted is None:
            handle.mount_at(place)  # the owner may give anything else that it hands on
    return lambda peer: peer.authority.may_call(*place) and otherwise(peer)


def headed(marshaller: Marshaller, name: str, value: Encoded) -> Encoded:
    """Return the message of a name and, undecoded behind it, a value."""
    return Encoded(bytes(marshaller.encode(name).body) + bytes(value.body), value.handles)
