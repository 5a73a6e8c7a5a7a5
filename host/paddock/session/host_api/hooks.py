"""Hooks for modules: handlers, the fields that every event carries, and the effects of hooks' results."""

from __future__ import annotations

from typing import Annotated, Any, Final

from paddock.errors import CallRefusedError, Denial
from paddock.rpc.calls import current
from paddock.rpc.peer import Handle, HostObject, Peer
from paddock.session.host_api.approvals import MAX_OPTIONS, open_approval
from paddock.session.host_api.emissions import LONGEST_WAIT, MAX_NAME
from paddock.session.host_api.handler import Decode, handles
from paddock.session.host_api.messages import may_show
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock.session.registrations import Registration
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.contract.models import ContextInjection, HookResult
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol.methods import HostMethod

_MAX_DEFAULT_FIELDS_BYTES: Final = 4096  # in every event, for every handler; ids take some 200


def _are_named(fields: dict[Any, Any]) -> bool:
    return all(isinstance(name, str) for name in fields)


def _is_bounded(result: HookResult) -> bool:
    return 0 <= result.approval_timeout <= LONGEST_WAIT and len(result.approval_options or ()) <= MAX_OPTIONS


class HookService(ServicePart):
    """Serves the hook requests of one session's workers."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._handlers: dict[int, tuple[Peer, Registration]] = {}

    def forget(self, peer: Peer) -> None:
        """Drop the registration numbers and answers of a worker that is gone."""
        self._prompts.forget(peer)
        self._coordinator.hooks.forget(peer)
        gone = [number for number, (owner, _) in self._handlers.items() if owner is peer]
        for number in gone:
            del self._handlers[number]

    @handles(HostMethod.REGISTER, "handler registration", decode=Decode.HANDLES)
    def register(
        self,
        module: HostedModule,
        event: str,
        priority: int,
        name: object,
        handler: object,
    ) -> int:
        """Register a handler; return its number."""
        if not (isinstance(handler, (Handle, HostObject)) and (name is None or isinstance(name, str))):
            raise TypeError("a hook handler has to be callable")
        if len(event) > MAX_NAME or len(name or "") > MAX_NAME:
            raise ValueError(f"a handler is registered by names of at most {MAX_NAME} characters")
        module.authority.check_handler(event)
        function = self._functions.of(module, handler)
        number = self._functions.number()
        module.quota.spend(("handler", number), module.peer.weight_of(handler))
        registered = module.register_handler(event, priority, name, function)
        self._handlers[number] = (module.peer, registered)
        return number

    @handles(HostMethod.UNREGISTER, "handler removal")
    def unregister(self, module: HostedModule, number: int) -> None:
        """Remove one handler of the module's."""
        known = self._handlers.get(number)
        if known is not None and known[0] is module.peer:
            self._take_back(module, number)

    @handles(HostMethod.UNREGISTER_NAME, "handler removal by name")
    def unregister_name(self, module: HostedModule, name: str) -> None:
        """Remove the module's latest handler of a name."""
        latest = module.registrations.latest_handler(name)
        number = next((number for number, (_, known) in self._handlers.items() if known is latest), None)
        if number is not None:
            self._take_back(module, number)
        elif latest is not None:  # of an earlier life, and not renewed yet
            module.registrations.take_back(latest)

    def _take_back(self, module: HostedModule, number: int) -> None:
        _, registered = self._handlers.pop(number)
        module.registrations.take_back(registered)
        module.quota.give_back(("handler", number))

    @handles(HostMethod.LIST_HANDLERS, "request for handlers")
    def list_handlers(self, module: HostedModule, event: str | None) -> object:
        """Return the names of the handlers of an event, or of all."""
        return self._coordinator.hooks.list_handlers(event)

    @handles(HostMethod.SET_DEFAULT_FIELDS, "default fields")
    def set_default_fields(self, module: HostedModule, fields: Annotated[dict[str, Any], _are_named]) -> None:
        """Add some fields to every event, for as long as the module's worker lives."""
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

    @handles(HostMethod.PROCESS_HOOK_RESULT, "hook result")
    async def process_hook_result(
        self,
        module: HostedModule,
        result: Annotated[HookResult, _is_bounded],
        event: str,
        hook_name: str,
    ) -> object:
        """Act on a hook's answer, and return the part that is left to act on."""
        module.authority.check_hook_results()
        if result.user_message and result.action != "ask_user" and not may_show(module, self._now()):
            result = result.model_copy(update={"user_message": None})
        if result.action != "ask_user":
            return await self._coordinator.process_hook_result(result, event, hook_name)
        try:
            requester = self._prompts.take(module.peer, result.approval_prompt)
            with open_approval(module, self._now(), hook_name, requester):
                return await self._coordinator.process_hook_result(result, event, hook_name)
        except CallRefusedError as error:
            module.deny(error.denial)
            return HookResult(action="deny", reason=error.denial.describe())

    @handles(HostMethod.RESET_TURN, decode=Decode.DATA, is_notice=True)
    def reset_turn(self, module: HostedModule) -> None:
        """Start the count of injections again."""
        module.authority.check_hook_results()
        self._coordinator.reset_turn()

    def on_injection_left_out(self, item: ContextInjection, error: OverLimitError) -> None:
        """Note a hook's injection that the conversation has no room for."""
        call = current.get()
        if call is not None:  # it is the orchestrator's, which names the hook of the result
            denied = Denial("inject into", "the conversation", item.hook_name, reason=f"on {item.event}: {error}")
            self._module_of(call.peer).deny(denied)
