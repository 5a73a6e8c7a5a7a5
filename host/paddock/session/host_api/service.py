"""The host's own methods, as workers call them: each argument is checked, each act counted, then done.

A request that does not fit its method fails, and such a notification has no effect. A request that the module has no
right to make is refused; an event is dropped and answered as if no handler had objected. A request that needs no
module's help is carried out before the next frame is read, so that its caller may rely on it when the answer comes.
Each method is described where it is declared (`handler.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from paddock.errors import CallRefusedError, Denial
from paddock.rpc.calls import IncomingCall, RoutedCall
from paddock.rpc.fan_in import ResponseBudget
from paddock.rpc.host_calls import HostCalls
from paddock.rpc.marshal import data_of
from paddock.rpc.peer import AnyHandle, Encoded, Peer
from paddock.rpc.router import Router
from paddock.session.host_api.approvals import ApprovalService
from paddock.session.host_api.cancellation import CancellationService
from paddock.session.host_api.definitions import SessionDefinitions
from paddock.session.host_api.denials import DenialService
from paddock.session.host_api.emissions import MAX_NAME, EmissionService
from paddock.session.host_api.functions import ModuleFunctions
from paddock.session.host_api.handler import Decode, MethodHandler, handlers_of, malformed
from paddock.session.host_api.hooks import HookService
from paddock.session.host_api.messages import MessageService
from paddock.session.host_api.mounts import MountService
from paddock.session.host_api.offers import OfferService
from paddock.session.host_api.part import ServicePart
from paddock.session.host_api.state_changes import StateService
from paddock.session.module import HostedModule
from paddock.session.mount_rules import NameTakenError
from paddock.session.proxies.event_message import event_of
from paddock.session.requester import PendingPrompts
from paddock.session.state.coordinator import HostedCoordinator
from paddock.session.state.mirrors import Mirrors
from paddock_sdk.protocol.body import unpack_prefix
from paddock_sdk.protocol.caps import weight_of
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.methods import HostMethod

_NOTHING: Final = Encoded(b"\xc0")


class HostService(ServicePart):
    """Serves one session's workers."""

    def __init__(
        self,
        router: Router,
        coordinator: HostedCoordinator,
        mirrors: Mirrors,
        module_of: Callable[[Peer], HostedModule],
        definitions: SessionDefinitions,
    ) -> None:
        host_calls = HostCalls(router)
        functions = ModuleFunctions(host_calls, module_of)
        parts = (
            host_calls,
            coordinator,
            mirrors,
            module_of,
            definitions,
            functions,
            PendingPrompts(),
        )
        super().__init__(*parts)
        state, self._hooks = StateService(*parts), HookService(*parts)
        coordinator.report_to(state.on_written, self._hooks.on_injection_left_out)
        self._handlers: dict[int, MethodHandler] = {}
        for part in (
            EmissionService(*parts),
            self._hooks,
            MountService(*parts),
            OfferService(*parts),
            state,
            CancellationService(*parts),
            ApprovalService(*parts),
            MessageService(*parts),
            DenialService(*parts),
        ):
            for method, handler in handlers_of(part):
                assert method not in self._handlers, f"{method.name} is served twice"
                self._handlers[method] = handler

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._coordinator.session_id

    def name_of(self, call: RoutedCall) -> str:
        """Return the name of a call for people: a tool's, `hook` and an event, or else a method's."""
        place = call.handle.mounted
        if place is not None and place[0] == "tools":
            return str(place[1])
        event = event_of(call.message) if self._module_of(call.owner).is_handler(call.handle) else None
        return self._router.method_name(call) if event is None else f"hook {event}"

    @property
    def methods(self) -> frozenset[int]:
        """The numbers of the methods that are served."""
        return frozenset(self._handlers)

    # -- the router's side -----------------------------------------------------------------

    def serve(self, call: IncomingCall, method: int, message: Encoded) -> None:
        """Answer a worker's request of the host, now or as a task."""
        module = self._module_of(call.peer)
        handler = self._handlers.get(method)
        if handler is None or handler.spec.is_notice:
            raise UnfitValueError(f"the host has no method {method} to ask for")
        if handler.spec.answers_itself:
            handler.run(call, module, message)
            return
        args = handler.read(self._decoded(handler, call.peer, message))
        if handler.is_async:
            self._router.serve(call, self._answer_later(call.peer, handler, module, args))
        else:
            self._answer(call, handler, module, args)

    def notice(self, peer: Peer, method: int, message: Encoded) -> None:
        """Take a worker's notification; one that does not fit, which no answer can say, is noted as a denial."""
        handler = self._handlers.get(method)
        module = self._module_of(peer)
        try:
            if handler is None or not handler.spec.is_notice:
                raise UnfitValueError(f"the host has no method {method} to notify")
            handler.run(module, *handler.read(self._decoded(handler, peer, message)))
        except CallRefusedError as exc:
            module.deny(exc.denial)
        except UnfitValueError as exc:
            known = HostMethod(method).name if handler is not None else "unknown"
            module.deny(Denial("send", f"a notification {known}", module.name, reason=str(exc)))

    def refuse(self, peer: Peer, handle: AnyHandle) -> CallRefusedError:
        """Note that a worker may not call an object it was shown; return the error for its request."""
        return self._functions.refuse(peer, handle)

    def forget(self, peer: Peer) -> None:
        """Drop the state of a worker that is gone."""
        self._hooks.forget(peer)

    # -- decoding and answering ------------------------------------------------------------

    def _decoded(self, handler: MethodHandler, peer: Peer, message: Encoded) -> Any:
        match handler.spec.decode:
            case Decode.NAMED:
                return self._marshaller.decode_named(message)
            case Decode.HANDLES:
                return self._marshaller.decode_handles(message)
            case Decode.DATA:
                return data_of(message, self._marshaller.codec)
            case Decode.PLAIN:
                return data_of(message, self._plain)
            case Decode.HEADED:
                return self._headed(peer, message)
            case Decode.NOT:
                return message

    def _headed(self, peer: Peer, message: Encoded) -> tuple[str, Encoded]:
        name, rest = unpack_prefix(message.body)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise malformed("named value")
        peer.charge(rest)
        return name, Encoded(bytes(rest), message.handles)

    def _answer(self, call: IncomingCall, handler: MethodHandler, module: HostedModule, args: Sequence[Any]) -> None:
        try:
            answer = handler.run(module, *args)
        except (CallRefusedError, ValueError, TypeError, KeyError, RuntimeError) as exc:
            if isinstance(exc, CallRefusedError):
                module.deny(exc.denial)
            elif isinstance(exc, NameTakenError):
                module.note_conflict(exc)
            self._router.fail(call, exc)
            return
        if answer is None:
            self._router.respond(call, _NOTHING)
            return
        written = self._marshaller.encode(answer)
        call.peer.charge(written.body)  # a small question may take long to answer
        self._router.respond(call, written)

    async def _answer_later(
        self,
        peer: Peer,
        handler: MethodHandler,
        module: HostedModule,
        args: Sequence[Any],
    ) -> Encoded:
        try:
            with ResponseBudget(keeps_all=True) as gathered:
                written = self._marshaller.encode(await handler.run(module, *args))
        except CallRefusedError as exc:
            module.deny(exc.denial)
            raise
        if handler.spec.collects:  # modules' answers were counted as they came; the rest is the application's
            peer.charge_weight(max(0, weight_of(written.body) - gathered.weight_inside))
        else:
            peer.charge(written.body)
        return written
