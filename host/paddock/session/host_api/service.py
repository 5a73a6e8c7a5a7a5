"""The host's own methods, as workers call them: each argument checked, each act weighed, then done.

A request that is not of its method's form ends the module that sent it. One that the module has
no right to make is refused, or, for an event, dropped and answered as if nobody had minded. What
needs no module's help is done before the next frame is looked at, so that whoever asked may rely
on it when the answer comes.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from paddock.errors import CallRefusedError, Denial
from paddock.policy.authority import HOST_NAMES, KEPT, REGISTER_PROVIDER
from paddock.rpc.calls import IncomingCall, current
from paddock.rpc.fan_in import ResponseBudget
from paddock.rpc.host_calls import HostCalls
from paddock.rpc.peer import AnyHandle, Encoded, Handle, HostObject, Peer
from paddock.rpc.router import Router
from paddock.session.host_api.approvals import SessionApprovalProvider, offer_provider, open_approval
from paddock.session.host_api.cancellation import CancellationService
from paddock.session.host_api.emissions import LONGEST_WAIT, MAX_NAME, EmissionService, emitter_of
from paddock.session.host_api.messages import MessageService
from paddock.session.host_api.refusals import DenialService
from paddock.session.host_api.state_changes import StateService
from paddock.session.mount_rules import NameTakenError
from paddock.session.proxies.function import RegisteredFunction
from paddock.session.registrations import Registration
from paddock.session.requester import PendingPrompts
from paddock.session.state.coordinator import HostedCoordinator
from paddock.session.state.mirrors import Mirrors
from paddock.session.state.ownership import SharedItem
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.contract.models import ContextInjection, HookResult
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.body import Codec, unpack_prefix, weight_of
from paddock_sdk.protocol.description import check_description
from paddock_sdk.protocol.frames import MAX_DESCRIPTION_BYTES
from paddock_sdk.protocol.methods import HostMethod

if TYPE_CHECKING:
    from paddock.session.module import HostedModule

_LATE_SECONDS: Final = 5.0  # for one function that is called when things come to an end; it must not hang on it
_MAX_OPTIONS: Final = 64  # of one approval; a person reads them
_MAX_DEFAULT_FIELDS_BYTES: Final = 4096  # in every event, for every handler; ids take some 200
_OWN_ATTRIBUTES: Final = frozenset({*dir(ModuleCoordinator), *inspect.get_annotations(ModuleCoordinator), "_driver"})
_NOTHING: Final = Encoded(b"\xc0")
_OF_OBJECTS: Final = frozenset(  # methods that are about an object; in what others are told it is only named
    {
        HostMethod.REGISTER,
        HostMethod.MOUNT,
        HostMethod.REGISTER_CONTRIBUTOR,
        HostMethod.REGISTER_CLEANUP,
        HostMethod.ON_CANCEL,
    }
)
_GATHERED: Final = frozenset({HostMethod.EMIT_AND_COLLECT, HostMethod.COLLECT_CONTRIBUTIONS})  # of others' answers

_log = logging.getLogger(__name__)


class HostService:
    """Serves one session's workers."""

    def __init__(
        self,
        router: Router,
        coordinator: HostedCoordinator,
        mirrors: Mirrors,
        module_of: Callable[[Peer], HostedModule],
    ) -> None:
        self._router = router
        self._host_calls = HostCalls(router)
        self._mirrors = mirrors
        self._refusals = DenialService(router.now)
        self._cancellations = CancellationService(coordinator.cancellation, router.now)
        self._messages = MessageService(coordinator, router.now)
        self._marshaller = router.marshaller
        self._coordinator = coordinator
        self._module_of = module_of
        self._plain = Codec()
        self._next_registration = 1
        self._state = StateService(coordinator, router.marshaller.codec, module_of)
        coordinator.on_injection_left_out = self._on_injection_left_out
        self._handlers: dict[int, tuple[Peer, Registration]] = {}
        self._questions = PendingPrompts()
        self._emissions = EmissionService(self._host_calls, coordinator, mirrors, self._questions)
        self._sync_handlers: dict[int, Callable[[HostedModule, Any], object]] = {
            HostMethod.REGISTER: self._register,
            HostMethod.UNREGISTER: self._unregister_one,
            HostMethod.UNREGISTER_NAME: self._unregister_name,
            HostMethod.LIST_HANDLERS: self._list_handlers,
            HostMethod.SET_DEFAULT_FIELDS: self._set_default_fields,
            HostMethod.MOUNT: self._mount,
            HostMethod.UNMOUNT: self._unmount,
            HostMethod.REGISTER_CONTRIBUTOR: self._register_contributor,
            HostMethod.REGISTER_CLEANUP: self._register_cleanup,
            HostMethod.REQUEST_CANCEL: self._cancellations.request,
            HostMethod.ON_CANCEL: self._on_cancel,
            HostMethod.EXPLAIN: self._refusals.explain,
        }
        self._async_handlers: dict[int, Callable[[HostedModule, Any], Coroutine[Any, Any, object]]] = {
            HostMethod.EMIT_AND_COLLECT: self._emissions.collect,
            HostMethod.COLLECT_CONTRIBUTIONS: self._collect_contributions,
            HostMethod.PROCESS_HOOK_RESULT: self._process_hook_result,
            HostMethod.TRIGGER_CANCEL_CALLBACKS: self._cancellations.trigger_callbacks,
            HostMethod.REQUEST_APPROVAL: self._request_approval,
        }
        self._notices: dict[int, Callable[[HostedModule, Any], None]] = {
            HostMethod.DELETE_ATTRIBUTE: self._delete_attribute,
            HostMethod.TOOL_STARTED: self._cancellations.tool_started,
            HostMethod.TOOL_COMPLETED: self._cancellations.tool_completed,
            HostMethod.SHOW_MESSAGE: self._messages.show,
            HostMethod.DESCRIBE: self._describe,
            HostMethod.RESET_TURN: self._reset_turn,
            HostMethod.ATTEMPTED: self._refusals.attempted,
        }

    # -- the router's side -----------------------------------------------------------------

    def serve(self, call: IncomingCall, method: int, message: Encoded) -> None:
        """Answer a worker's request of the host, now or as a task."""
        module = self._module_of(call.peer)
        if method == HostMethod.EMIT:
            self._emissions.serve(call, module, message)
        elif method == HostMethod.REGISTER_CAPABILITY:
            self._answer_sync(call, partial(self._register_capability, module, *self._headed(call.peer, message)))
        elif method == HostMethod.EMITTER:
            self._answer_sync(call, partial(emitter_of, call))
        elif method in self._sync_handlers:
            if method in _OF_OBJECTS:  # which stay handles: what is asked concerns them, not their stand-ins
                args = self._marshaller.codec.decode(message.body, message.handles)
            else:
                args = self._marshaller.decode_named(message)
            self._answer_sync(call, partial(self._sync_handlers[method], module, args))
        elif method in self._async_handlers:
            is_event = method == HostMethod.EMIT_AND_COLLECT  # whose data holds no objects and no models
            args = self._plain.decode(message.body) if is_event else self._marshaller.decode_named(message)
            work = self._async_handlers[method](module, args)
            self._router.serve(call, self._encoded(call.peer, module, work, is_gathered=method in _GATHERED))
        else:
            raise RemoteProtocolError(f"a request of host method {method}, which there is not")

    def notice(self, peer: Peer, method: int, message: Encoded) -> None:
        """Take a worker's notification."""
        module = self._module_of(peer)
        if method == HostMethod.SET_ATTRIBUTE:
            self._set_attribute(module, *self._headed(peer, message))
        elif method == HostMethod.PATCH_STATE:
            self._state.patch(module, message)
        elif method in self._notices:
            try:
                self._notices[method](
                    module, self._marshaller.codec.decode(message.body)
                )  # data alone, no live objects
            except CallRefusedError as exc:
                module.deny(exc.denial)
        else:
            raise RemoteProtocolError(f"a notification of host method {method}, which there is not")

    def refuse(self, peer: Peer, handle: AnyHandle) -> CallRefusedError:
        """Note that a worker may not call what it was shown; return what it is told."""
        refusal = self._refusal(peer, handle)
        self._module_of(peer).deny(refusal.denial)
        return refusal

    def _refusal(self, peer: Peer, handle: AnyHandle) -> CallRefusedError:
        if handle.mounted is not None and handle.mounted[0] == KEPT:
            reason = "it is for the application, hooks and the orchestrator"
            denial = Denial("call", f"the capability {handle.mounted[1]}", peer.name, reason=reason)
        elif handle.mounted is not None:
            point, name = handle.mounted
            reached = _reached(point, name)
            grant = self._module_of(peer).authority.grant_for("call", reached if point == "tools" else point)
            denial = Denial("call", reached, peer.name, grant=grant)
        else:
            whose = f"module {handle.owner.name}" if isinstance(handle, Handle) else "the application"
            reason = "it was only shown, or lent for a call that has ended"
            denial = Denial("call", f"an object of {whose}", peer.name, reason=reason)
        return CallRefusedError(denial)

    def _function(self, module: HostedModule, handle: AnyHandle) -> RegisteredFunction:
        """Return what a module wants to have called: its own, or what it may call itself, now and then.

        Raises:
            CallRefusedError: it may not call it.
        """
        peer = module.peer
        if module.owns(handle):
            return RegisteredFunction(self._host_calls, handle, module)
        may_call = peer.holding(handle)
        if not may_call():
            raise self._refusal(peer, handle)

        def check() -> None:
            if not may_call():
                refusal = self._refusal(peer, handle)
                module.deny(refusal.denial)
                raise refusal

        return RegisteredFunction(self._host_calls, handle, module, check)

    def _answer_sync(self, call: IncomingCall, act: Callable[[], object]) -> None:
        try:
            answer = act()
        except (CallRefusedError, ValueError, TypeError, KeyError, RuntimeError) as exc:
            if isinstance(exc, CallRefusedError):
                self._module_of(call.peer).deny(exc.denial)
            elif isinstance(exc, NameTakenError):
                self._module_of(call.peer).note_conflict(exc)
            self._router.fail(call, exc)
            return
        if answer is None:
            self._router.respond(call, _NOTHING)
            return
        written = self._marshaller.encode(answer)
        call.peer.charge(written.body)  # a small question may take long to answer
        self._router.respond(call, written)

    async def _encoded(
        self, peer: Peer, module: HostedModule, work: Coroutine[Any, Any, object], *, is_gathered: bool
    ) -> Encoded:
        try:
            with ResponseBudget(keeps_all=True) as gathered:
                written = self._marshaller.encode(await work)
        except CallRefusedError as exc:
            module.deny(exc.denial)
            raise
        if is_gathered:  # what modules answered with was counted as it came; the rest is the application's
            peer.charge_weight(max(0, weight_of(written.body) - gathered.weight_inside))
        else:
            peer.charge(written.body)
        return written

    def forget(self, peer: Peer) -> None:
        """A worker is gone, and with it the numbers of its registrations, and what it was answered."""
        self._questions.forget(peer)
        self._coordinator.hooks.forget(peer)
        gone = [number for number, (owner, _) in self._handlers.items() if owner is peer]
        for number in gone:
            del self._handlers[number]

    # -- handlers of events ----------------------------------------------------------------

    def _register(self, module: HostedModule, args: Any) -> object:
        match args:
            case [str() as event, int() as priority, (None | str()) as name, (Handle() | HostObject()) as handler] if (
                len(event) <= MAX_NAME and len(name or "") <= MAX_NAME
            ):
                module.authority.check_handler(event)
                function = self._function(module, handler)
                number = self._numbered()
                module.quota.spend(("handler", number), _weight(module, handler))
                registered = module.register_handler(self._coordinator.hooks, event, priority, name, function)
                self._handlers[number] = (module.peer, registered)
                return number
            case [str(), int(), None | str(), Handle() | HostObject()]:
                raise ValueError(f"a handler is registered by names of at most {MAX_NAME} characters")
            case [str(), int(), _, _]:
                raise TypeError("a hook handler has to be callable")
        raise _malformed("a handler's registration")

    def _numbered(self) -> int:
        """Return a number of its own for what is registered: the same again is one more to keep."""
        number, self._next_registration = self._next_registration, self._next_registration + 1
        return number

    def _unregister_one(self, module: HostedModule, args: Any) -> None:
        match args:
            case [int() as number]:
                known = self._handlers.get(number)
                if known is not None and known[0] is module.peer:
                    self._take_back(module, number)
                return
        raise _malformed("the end of a registration")

    def _unregister_name(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as name]:
                latest = module.latest_handler(name)
                number = next((number for number, (_, known) in self._handlers.items() if known is latest), None)
                if number is not None:
                    self._take_back(module, number)
                elif latest is not None:  # of an earlier life, and not renewed yet
                    module.unregister_handler(latest)
                return
        raise _malformed("a handler's name")

    def _take_back(self, module: HostedModule, number: int) -> None:
        _, registered = self._handlers.pop(number)
        module.unregister_handler(registered)
        module.quota.give_back(("handler", number))

    def _list_handlers(self, module: HostedModule, args: Any) -> object:
        match args:
            case [(None | str()) as event]:
                return self._coordinator.hooks.list_handlers(event)
        raise _malformed("an event")

    def _set_default_fields(self, module: HostedModule, args: Any) -> None:
        match args:
            case [dict() as fields] if all(isinstance(name, str) for name in fields):
                module.authority.check_default_fields()
                if "visibility" in fields:
                    raise ValueError("each event says by itself who sees it: `visibility` is no default field")
                converted = Payload.of(fields).data()
                size = len(self._plain.encode(converted, live_objects=False)[0])
                if size > _MAX_DEFAULT_FIELDS_BYTES:
                    raise OverLimitError(
                        f"default fields of {size} bytes; every event carries them, so that they may take "
                        f"{_MAX_DEFAULT_FIELDS_BYTES}"
                    )
                self._coordinator.hooks.set_fields_of_module(module.peer, converted)
                return
        raise _malformed("default fields")

    # -- mounts ----------------------------------------------------------------------------

    def _mount(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as point, (None | str()) as name, obj]:
                if max(len(point), len(name or "")) > MAX_NAME:
                    raise ValueError(f"an object is mounted under a name of at most {MAX_NAME} characters")
                module.quota.spend(("mount", point, name), _weight(module, obj))
                module.mount(self._coordinator, point, name, obj)
                return
        raise _malformed("a mount")

    def _unmount(self, module: HostedModule, args: Any) -> object:
        match args:
            case [str() as point, (None | str()) as name]:
                module.quota.give_back(("mount", point, name))
                return module.unmount(point, name)
        raise _malformed("an unmount")

    def _describe(self, module: HostedModule, args: Any) -> None:
        match args:
            case [int() as object_id, bytes() as description] if len(description) <= MAX_DESCRIPTION_BYTES:
                handle = module.peer.export(object_id)
                if handle is None:
                    return
                budget, weight = module.rate_limits.descriptions, check_description(description)
                if not budget.admits(self._router.now(), weight):
                    if budget.begins_flood:
                        reason = f"it says more of them anew than {budget.per_second / (1 << 20):g} MiB a second"
                        module.deny(Denial("describe", "objects", module.name, reason=reason))
                    return
                try:
                    module.peer.weigh(object_id, weight)
                except OverLimitError as exc:
                    module.deny(Denial("describe", "objects", module.name, reason=str(exc)))
                    return
                self._mirrors.redescribed(handle, self._marshaller.redescribe(handle, description))
                return
        raise _malformed("an object's description")

    # -- what modules leave for each other -------------------------------------------------

    def _headed(self, peer: Peer, message: Encoded) -> tuple[str, Encoded]:
        name, rest = unpack_prefix(message.body)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise _malformed("a named value")
        peer.charge(rest)
        return name, Encoded(bytes(rest), message.handles)

    def _register_capability(self, module: HostedModule, name: str, value: Encoded) -> None:
        module.authority.check_capability(name)
        if name.startswith(HOST_NAMES) and self._coordinator.is_the_applications(name):
            raise CallRefusedError(
                Denial("replace the capability", name, module.name, reason="it is the session's own")
            )
        module.quota.spend(("capability", name), weight_of(value.body) + _weight(module, *value.handles))
        offered = self._marshaller.decode(value)  # said at once if it is none: later it would be all others' trouble
        module.offer(self._coordinator, name, value)
        # The host calls what it is handed the provider by: another's function would be called with the host's right.
        if name == REGISTER_PROVIDER and all(module.owns(handle) for handle in value.handles):
            provider = SessionApprovalProvider(
                self._coordinator,
                module,
                self._router.now,
                lambda peer, denial: self._module_of(peer).deny(denial),
            )
            self._router.tasks.spawn(offer_provider(self._coordinator, module, offered, provider))

    def _set_attribute(self, module: HostedModule, name: str, value: Encoded) -> None:
        if not name.isidentifier() or name.startswith("__") or name in _OWN_ATTRIBUTES:
            raise RemoteProtocolError(f"an attribute named {name!r}, which is not a module's to set")
        if self._keeps_attribute(module, name):
            return
        try:
            module.quota.spend(("attribute", name), weight_of(value.body) + _weight(module, *value.handles))
        except OverLimitError as exc:
            module.deny(Denial("leave", str(SharedItem("attribute", name)), module.name, reason=str(exc)))
            self._coordinator.keep_attribute(module.peer, name)
            return
        self._marshaller.decode(value)  # as with a capability
        self._coordinator.attach_from(module.peer, module.authority, name, value)

    def _keeps_attribute(self, module: HostedModule, name: str) -> bool:
        """Whether an attribute stays as it is, because it is not the module's to change; the module is told."""
        refusal = self._coordinator.ownership.refusal(SharedItem("attribute", name), module.authority)
        if refusal is not None:
            module.deny(refusal)
            self._coordinator.keep_attribute(module.peer, name)
        return refusal is not None

    def _delete_attribute(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as name]:
                if not self._keeps_attribute(module, name):
                    module.quota.give_back(("attribute", name))
                    self._coordinator.detach_from(module.peer, name)
                return
        raise _malformed("an attribute's name")

    def _register_contributor(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as channel, str() as name, _] if max(len(channel), len(name)) > MAX_NAME:
                raise ValueError(f"a contributor has a channel and a name of at most {MAX_NAME} characters")
            case [str() as channel, str() as name, (Handle() | HostObject()) as callback]:
                function = self._function(module, callback)
                module.quota.spend(("contributor", self._numbered()), _weight(module, callback))
                module.contribute(self._coordinator, channel, name, function)
                return
            case [str() as channel, str() as name, _]:
                # What is no function contributes nothing: asking it fails, which is noted and passed over.
                module.quota.spend(("data", self._numbered()), len(channel) + len(name))
                self._coordinator.contribute_from(module.peer, channel, name, None)
                return
        raise _malformed("a contributor")

    async def _collect_contributions(self, module: HostedModule, args: Any) -> object:
        match args:
            case [str() as channel]:
                return await self._coordinator.collect_contributions(channel)
        raise _malformed("a channel")

    def _register_cleanup(self, module: HostedModule, args: Any) -> None:
        match args:
            case [(Handle() | HostObject()) as handle]:
                function = self._function(module, handle)
                module.quota.spend(("cleanup", self._numbered()), _weight(module, handle))
                run = partial(self._run_if_alive, module.peer, function)
                self._coordinator.register_cleanup(
                    lambda: module.deadlines.run_within(module.name, "cleanup functions", run, None)
                )
                return
        raise _malformed("a cleanup function")

    async def _run_if_alive(self, peer: Peer, function: RegisteredFunction) -> None:
        """Run what `peer` has registered, for as long as it may take, if that life is not over."""
        if peer.is_open and function.is_open and function.is_callable:
            with anyio.move_on_after(_LATE_SECONDS) as scope:
                await function.call_now(self._marshaller.encode([[], {}]))
            if scope.cancelled_caught:
                _log.warning("module `%s` did not finish one function within %g s", peer.name, _LATE_SECONDS)

    # -- hook results, approvals, cancellation ---------------------------------------------

    async def _process_hook_result(self, module: HostedModule, args: Any) -> object:
        match args:
            case [HookResult() as result, str() as event, str() as hook_name] if (
                0 <= result.approval_timeout <= LONGEST_WAIT and len(result.approval_options or ()) <= _MAX_OPTIONS
            ):
                module.authority.check_hook_results()
                if result.user_message and result.action != "ask_user" and not self._messages.may_show(module):
                    result = result.model_copy(update={"user_message": None})
                if result.action != "ask_user":
                    return await self._coordinator.process_hook_result(result, event, hook_name)
                try:
                    requester = self._questions.take(module.peer, result.approval_prompt)
                    with open_approval(module, self._router.now(), hook_name, requester):
                        return await self._coordinator.process_hook_result(result, event, hook_name)
                except CallRefusedError as error:
                    module.deny(error.denial)
                    return HookResult(action="deny", reason=error.denial.describe())
        raise _malformed("a hook's result")

    def _on_injection_left_out(self, item: ContextInjection, error: OverLimitError) -> None:
        call = current.get()
        if call is not None:  # it is the orchestrator's, who tells whose result it is
            denied = Denial("inject into", "the conversation", item.hook_name, reason=f"on {item.event}: {error}")
            self._module_of(call.peer).deny(denied)

    async def _request_approval(self, module: HostedModule, args: Any) -> object:
        match args:
            case [str() as prompt, list() as options, float() as timeout, "allow" | "deny" as default] if (
                0 <= timeout <= LONGEST_WAIT and len(options) <= _MAX_OPTIONS
            ):
                system = self._coordinator.approval_system
                if system is None:
                    raise RuntimeError("no approval system is available in this session")
                asked = f"{module.kind} {module.name} asks: {prompt}"
                with open_approval(module, self._router.now()):
                    return await system.request_approval(asked, [str(option) for option in options], timeout, default)
        raise _malformed("a request for approval")

    def _on_cancel(self, module: HostedModule, args: Any) -> None:
        match args:
            case [(Handle() | HostObject()) as handle]:
                function = self._function(module, handle)
                module.quota.spend(("on cancel", self._numbered()), _weight(module, handle))
                self._coordinator.cancellation.on_cancel(partial(self._run_if_alive, module.peer, function))
                return
        raise _malformed("a callback")

    def _reset_turn(self, module: HostedModule, args: Any) -> None:
        module.authority.check_hook_results()
        self._coordinator.reset_turn()


def _reached(point: str, name: str | None) -> str:
    return point if name is None else f"{point}:{name}"


def _weight(module: HostedModule, *objects: object) -> int:
    """Return what memory the descriptions of a module's own objects take wherever they are told."""
    own = {handle for handle in objects if isinstance(handle, Handle) and handle.owner is module.peer}
    return sum(module.peer.weight(handle.object_id) for handle in own)


def _malformed(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what} that is none")
