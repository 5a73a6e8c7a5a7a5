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
from paddock.kernel.coordinator import HostedCoordinator
from paddock.kernel.mirrors import Mirrors
from paddock.rpc.calls import IncomingCall
from paddock.rpc.handle import AnyHandle, Encoded, Handle
from paddock.rpc.peer import Peer
from paddock.rpc.router import Router
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol import RemoteProtocolError
from paddock_sdk.protocol.body import Codec, unpack_prefix
from paddock_sdk.protocol.frames import MAX_DESCRIPTION_BYTES
from paddock_sdk.protocol.methods import HostMethod

if TYPE_CHECKING:
    from paddock.kernel.module import HostedModule

_CLEANUP_SECONDS: Final = 10.0  # for one module's cleanup function; a session's end must not hang on it
_LONGEST_WAIT: Final = 24 * 3600.0  # seconds; also what keeps NaN and infinity out of the loop's timers
_MAX_OPTIONS: Final = 64  # of one approval; a person reads them
_MAX_CHANGES: Final = 4096  # of session_state in one frame
_MAX_NAME: Final = 200  # characters of an event, capability, channel or attribute
_OWN_ATTRIBUTES: Final = frozenset({*dir(ModuleCoordinator), *inspect.get_annotations(ModuleCoordinator), "_driver"})
_NOTHING: Final = Encoded(b"\xc0")

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
        self._mirrors = mirrors
        self._values = router.values
        self._coordinator = coordinator
        self._module_of = module_of
        self._plain = Codec()
        self._next_registration = 1
        self._unregister: dict[int, tuple[Peer, Callable[[], None], Callable[[], None]]] = {}
        self._at_once: dict[int, Callable[[HostedModule, Any], object]] = {
            HostMethod.REGISTER: self._register,
            HostMethod.UNREGISTER: self._unregister_one,
            HostMethod.UNREGISTER_NAME: self._unregister_name,
            HostMethod.LIST_HANDLERS: self._list_handlers,
            HostMethod.SET_DEFAULT_FIELDS: self._set_default_fields,
            HostMethod.MOUNT: self._mount,
            HostMethod.UNMOUNT: self._unmount,
            HostMethod.REGISTER_CONTRIBUTOR: self._register_contributor,
            HostMethod.REGISTER_CLEANUP: self._register_cleanup,
            HostMethod.REQUEST_CANCEL: self._request_cancel,
            HostMethod.ON_CANCEL: self._on_cancel,
        }
        self._in_time: dict[int, Callable[[HostedModule, Any], Coroutine[Any, Any, object]]] = {
            HostMethod.EMIT_AND_COLLECT: self._emit_and_collect,
            HostMethod.COLLECT_CONTRIBUTIONS: self._collect_contributions,
            HostMethod.PROCESS_HOOK_RESULT: self._process_hook_result,
            HostMethod.TRIGGER_CANCEL_CALLBACKS: self._trigger_cancel_callbacks,
            HostMethod.REQUEST_APPROVAL: self._request_approval,
        }
        self._notices: dict[int, Callable[[HostedModule, Any], None]] = {
            HostMethod.DELETE_ATTRIBUTE: self._delete_attribute,
            HostMethod.PATCH_STATE: self._patch_state,
            HostMethod.TOOL_STARTED: self._tool_started,
            HostMethod.TOOL_COMPLETED: self._tool_completed,
            HostMethod.SHOW_MESSAGE: self._show_message,
            HostMethod.DESCRIBE: self._describe,
            HostMethod.RESET_TURN: self._reset_turn,
        }

    # -- the router's side -----------------------------------------------------------------

    def serve(self, call: IncomingCall, method: int, message: Encoded) -> None:
        """Answer a worker's request of the host, now or as a task."""
        module = self._module_of(call.peer)
        if method == HostMethod.EMIT:
            self._router.serve(call, self._emit(module, *self._event(message)))
        elif method == HostMethod.REGISTER_CAPABILITY:
            self._answer_at_once(call, partial(self._register_capability, module, *self._headed(message)))
        elif method in self._at_once:
            # Objects stay handles here: what is asked of the host concerns them, not their stand-ins.
            args = self._values.codec.decode(message.body, message.handles)
            self._answer_at_once(call, partial(self._at_once[method], module, args))
        elif method in self._in_time:
            is_event = method == HostMethod.EMIT_AND_COLLECT  # whose data holds no objects and no models
            args = self._plain.decode(message.body) if is_event else self._values.decode(message)
            work = self._in_time[method](module, args)
            self._router.serve(call, self._encoded(module, work))
        else:
            raise RemoteProtocolError(f"a request of host method {method}, which there is not")

    def notice(self, peer: Peer, method: int, message: Encoded) -> None:
        """Take a worker's notification."""
        module = self._module_of(peer)
        if method == HostMethod.SET_ATTRIBUTE:
            self._set_attribute(module, *self._headed(message))
        elif method in self._notices:
            self._notices[method](module, self._values.codec.decode(message.body))  # data alone, no live objects
        else:
            raise RemoteProtocolError(f"a notification of host method {method}, which there is not")

    def refuse(self, peer: Peer, handle: AnyHandle) -> CallRefusedError:
        """Note that a worker may not call what it was shown; return what it is told."""
        if handle.mounted is not None:
            point, name = handle.mounted
            denial = Denial("call", _reached(point, name), peer.name, grant=_call_grant(point, name))
        else:
            whose = f"module {handle.owner.name}" if isinstance(handle, Handle) else "the application"
            denial = Denial("call", f"an object of {whose} that it was not handed for the purpose", peer.name)
        self._module_of(peer).deny(denial)
        return CallRefusedError(denial)

    def _answer_at_once(self, call: IncomingCall, act: Callable[[], object]) -> None:
        try:
            answer = act()
        except (CallRefusedError, ValueError, TypeError, KeyError, RuntimeError) as exc:
            if isinstance(exc, CallRefusedError):
                self._module_of(call.peer).deny(exc.denial)
            self._router.fail(call, exc)
            return
        self._router.respond(call, _NOTHING if answer is None else self._values.encode(answer))

    async def _encoded(self, module: HostedModule, work: Coroutine[Any, Any, object]) -> Encoded:
        try:
            return self._values.encode(await work)
        except CallRefusedError as exc:
            module.deny(exc.denial)
            raise

    def forget(self, peer: Peer) -> None:
        """A worker is gone, and with it the numbers of its registrations."""
        gone = [number for number, (owner, *_) in self._unregister.items() if owner is peer]
        for number in gone:
            del self._unregister[number]

    # -- events ----------------------------------------------------------------------------

    def _event(self, message: Encoded) -> tuple[str, Payload]:
        match self._plain.decode(message.body):
            case [str() as event, data] if len(event) <= _MAX_NAME:
                try:
                    return event, Payload.of(data)
                except (RuntimeError, TypeError) as exc:
                    raise RemoteProtocolError(f"an event with data that no event has: {exc}") from exc
        raise _malformed("an event")

    async def _emit(self, module: HostedModule, event: str, payload: Payload) -> Encoded:
        if not module.authority.may_emit(event):
            module.deny(Denial("emit", event, module.name, grant=f'permissions: {{emit: ["{event}"]}}'))
            return self._values.encode(HookResult(action="continue", data=payload.data() if payload.is_mapping else {}))
        return self._values.encode(await self._coordinator.hooks.emit_payload(event, payload))

    async def _emit_and_collect(self, module: HostedModule, args: Any) -> object:
        match args:
            case [str() as event, data, float() as timeout] if 0 <= timeout <= _LONGEST_WAIT:
                if not module.authority.may_emit(event):
                    module.deny(Denial("emit", event, module.name, grant=f'permissions: {{emit: ["{event}"]}}'))
                    return []
                return await self._coordinator.hooks.emit_and_collect(event, data, timeout)
        raise _malformed("an event")

    def _register(self, module: HostedModule, args: Any) -> object:
        match args:
            case [str() as event, int() as priority, (None | str()) as name, Handle() as handler] if (
                len(event) <= _MAX_NAME
            ):
                module.authority.check_handler(event)
                counted = ("handler", handler, event)
                module.allowance.spend(counted, len(handler.described))
                unregister = module.register_handler(self._coordinator.hooks, event, priority, name, handler)
                registration, self._next_registration = self._next_registration, self._next_registration + 1
                give_back = partial(module.allowance.give_back, counted)
                self._unregister[registration] = (module.peer, unregister, give_back)
                return registration
            case [str(), int(), _, _]:
                raise TypeError("a hook handler has to be callable")
        raise _malformed("a handler's registration")

    def _unregister_one(self, module: HostedModule, args: Any) -> None:
        match args:
            case [int() as registration]:
                known = self._unregister.get(registration)
                if known is not None and known[0] is module.peer:
                    del self._unregister[registration]
                    for undo in known[1:]:
                        undo()
                return
        raise _malformed("the end of a registration")

    def _unregister_name(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as name]:
                module.unregister_handler(name)
                return
        raise _malformed("a handler's name")

    def _list_handlers(self, module: HostedModule, args: Any) -> object:
        match args:
            case [(None | str()) as event]:
                return self._coordinator.hooks.list_handlers(event)
        raise _malformed("an event")

    def _set_default_fields(self, module: HostedModule, args: Any) -> None:
        match args:
            case [dict() as fields] if all(isinstance(name, str) for name in fields):
                module.authority.check_hook_results()
                self._coordinator.hooks.set_default_fields(**fields)
                return
        raise _malformed("default fields")

    # -- mounts ----------------------------------------------------------------------------

    def _mount(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as point, (None | str()) as name, obj]:
                module.allowance.spend(("mount", point, name), len(obj.described) if isinstance(obj, Handle) else 0)
                module.mount(self._coordinator, point, name, obj)
                return
        raise _malformed("a mount")

    def _unmount(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as point, (None | str()) as name]:
                module.unmount(point, name)
                return
        raise _malformed("an unmount")

    def _describe(self, module: HostedModule, args: Any) -> None:
        match args:
            case [int() as object_id, bytes() as description] if len(description) <= MAX_DESCRIPTION_BYTES:
                handle = module.peer.export(object_id)
                if handle is None:
                    return
                self._values.redescribe(handle, description)
                self._mirrors.redescribed(handle)
                return
        raise _malformed("an object's description")

    # -- what modules leave for each other -------------------------------------------------

    def _headed(self, message: Encoded) -> tuple[str, Encoded]:
        name, rest = unpack_prefix(message.body)
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
            raise _malformed("a named value")
        return name, Encoded(bytes(rest), message.handles)

    def _register_capability(self, module: HostedModule, name: str, value: Encoded) -> None:
        module.authority.check_capability(name)
        module.allowance.spend(("capability", name), len(value.body))
        self._values.decode(value)  # said at once if it is none: later it would be every other module's trouble
        module.offer(self._coordinator, name, value)

    def _set_attribute(self, module: HostedModule, name: str, value: Encoded) -> None:
        if not name.isidentifier() or name.startswith("__") or name in _OWN_ATTRIBUTES:
            raise RemoteProtocolError(f"an attribute named {name!r}, which is not a module's to set")
        module.allowance.spend(("attribute", name), len(value.body))
        self._values.decode(value)  # as with a capability
        self._coordinator.attach_from(module.peer, name, value)

    def _delete_attribute(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as name]:
                module.allowance.give_back(("attribute", name))
                self._coordinator.detach_from(module.peer, name)
                return
        raise _malformed("an attribute's name")

    def _patch_state(self, module: HostedModule, args: Any) -> None:
        match args:
            case [*changes] if len(changes) <= _MAX_CHANGES and all(_is_change(change) for change in changes):
                sizes = self._coordinator.patch_state_from(module.peer, changes)
                for key, size in sizes.items():
                    module.allowance.spend(("state", key), size)
                return
        raise _malformed("a change of state")

    def _register_contributor(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as channel, str() as name, Handle() as callback]:
                module.allowance.spend(("contributor", channel, name, callback), len(callback.described))
                module.contribute(self._coordinator, channel, name, callback)
                return
            case [str() as channel, str() as name, _]:
                # What is no function contributes nothing: asking it fails, which is noted and passed over.
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
            case [Handle() as function]:
                module.allowance.spend(("cleanup", function), len(function.described))
                self._coordinator.register_cleanup(partial(self._run_if_alive, function))
                return
        raise _malformed("a cleanup function")

    async def _run_if_alive(self, function: Handle) -> None:
        """Run a function of a module, for as long as it may take, if the life it belongs to is not over."""
        method = function.description(self._values.codec).number_of("__call__")
        if function.owner.is_open and method is not None:
            with anyio.move_on_after(_CLEANUP_SECONDS):
                await self._router.call_now(function, method, self._values.encode([[], {}]))

    # -- hook results, approvals, cancellation ---------------------------------------------

    async def _process_hook_result(self, module: HostedModule, args: Any) -> object:
        match args:
            case [HookResult() as result, str() as event, str() as hook_name] if (
                0 <= result.approval_timeout <= _LONGEST_WAIT and len(result.approval_options or ()) <= _MAX_OPTIONS
            ):
                module.authority.check_hook_results()
                return await self._coordinator.process_hook_result(result, event, hook_name)
        raise _malformed("a hook's result")

    async def _request_approval(self, module: HostedModule, args: Any) -> object:
        match args:
            case [str() as prompt, list() as options, float() as timeout, "allow" | "deny" as default] if (
                0 <= timeout <= _LONGEST_WAIT and len(options) <= _MAX_OPTIONS
            ):
                system = self._coordinator.approval_system
                if system is None:
                    raise RuntimeError("no approval system is available in this session")
                asked = f"{module.kind} {module.name} asks: {prompt}"
                return await system.request_approval(asked, [str(option) for option in options], timeout, default)
        raise _malformed("a request for approval")

    def _show_message(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as message, "info" | "warning" | "error" as level, str() as source]:
                display = self._coordinator.display_system
                if display is None:
                    _log.info("%s: %s", module.name, message)
                else:
                    display.show_message(message, level, f"{module.name}:{source}")
                return
        raise _malformed("a message")

    def _request_cancel(self, module: HostedModule, args: Any) -> object:
        token = self._coordinator.cancellation
        match args:
            case ["graceful"]:
                return token.request_graceful()
            case ["immediate"]:
                return token.request_immediate()
            case ["reset"]:
                module.authority.check_hook_results()
                token.reset()
                return True
        raise _malformed("a cancellation")

    def _on_cancel(self, module: HostedModule, args: Any) -> None:
        match args:
            case [Handle() as callback]:
                module.allowance.spend(("on cancel", callback), len(callback.described))
                self._coordinator.cancellation.on_cancel(partial(self._run_if_alive, callback))
                return
        raise _malformed("a callback")

    async def _trigger_cancel_callbacks(self, module: HostedModule, args: Any) -> None:
        await self._coordinator.cancellation.trigger_callbacks()

    def _tool_started(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as call_id, str() as name]:
                module.allowance.spend(("running", call_id), len(call_id) + len(name))
                self._coordinator.cancellation.register_tool_start(call_id, name)
                return
        raise _malformed("the start of a tool")

    def _tool_completed(self, module: HostedModule, args: Any) -> None:
        match args:
            case [str() as call_id]:
                module.allowance.give_back(("running", call_id))
                self._coordinator.cancellation.register_tool_complete(call_id)
                return
        raise _malformed("the end of a tool")

    def _reset_turn(self, module: HostedModule, args: Any) -> None:
        self._coordinator.reset_turn()


def _reached(point: str, name: str | None) -> str:
    return point if name is None else f"{point}:{name}"


def _call_grant(point: str, name: str | None) -> str:
    if point not in ("tools", "providers", "context", "spawn"):
        return ""
    return f'permissions: {{call: ["{_reached(point, name) if point == "tools" else point}"]}}'


def _is_change(change: object) -> bool:
    match change:
        case [[_, *_] as path, [] | [_]]:
            return all(_is_key(key) for key in path)
    return False


def _is_key(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _malformed(what: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what} that is none")
