"""Events that modules emit: each is checked and counted, then delivered to the handlers of the session.

An event that a module may not emit, or emits too often, reaches no handler. Its answer is the same as if no handler had
objected. Only an event that asks for permission is answered with a denial, because its guards were not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any, Final

from paddock.errors import Denial
from paddock.rpc.calls import IncomingCall, current
from paddock.rpc.marshal import data_of
from paddock.rpc.peer import Encoded
from paddock.session.host_api.delivery import EventDelivery
from paddock.session.host_api.handler import Decode, handles, malformed, within
from paddock.session.host_api.part import ServicePart
from paddock.session.module import HostedModule
from paddock.session.requester import collecting_prompts
from paddock.session.state.mirrors import describe_anew
from paddock_sdk.contract import events
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.emitter import answer_emitter_with
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol.errors import UnfitValueError
from paddock_sdk.protocol.methods import HostMethod

LONGEST_WAIT: Final = 24 * 3600.0  # seconds; it also keeps NaN and infinity out of the loop's timers
MAX_NAME: Final = 200  # characters of any name
_GATES: Final = frozenset({events.TOOL_PRE, events.PROMPT_SUBMIT})


class EmissionService(ServicePart):
    """Serves the emitted events of one session's workers."""

    @handles(HostMethod.EMIT, decode=Decode.NOT, answers_itself=True)
    def emit(self, call: IncomingCall, module: HostedModule, message: Encoded) -> None:
        """Deliver an event and answer with the decision of its handlers, now or as a task."""
        event, payload = self._read(message)
        instead = self._undelivered(module, event)
        if instead is not None:
            data = payload.data() if payload.is_mapping else {}
            self._router.respond(call, self._router.marshaller.encode(instead.model_copy(update={"data": data})))
            return
        call.note_emitter(module.name)
        hooks = self._coordinator.hooks
        if event == events.PROVIDER_REQUEST:
            self._router.serve(call, self._emit_request(module, payload))
        elif not EventDelivery.begin(self._router, hooks, call, event, payload, partial(self._emit, module, hooks.ask)):
            self._router.serve(call, self._emit(module, hooks.emit_payload, event, payload))

    @handles(HostMethod.EMIT_AND_COLLECT, "event", decode=Decode.PLAIN, collects=True)
    async def collect(
        self,
        module: HostedModule,
        event: str,
        data: object,
        timeout: Annotated[float, within(0, LONGEST_WAIT)],
    ) -> object:
        """Deliver an event and return the answers of its handlers within the given time."""
        if self._undelivered(module, event) is not None:
            return []
        _note_emitter(module)
        return await self._coordinator.hooks.emit_and_collect(event, data, timeout)

    @handles(HostMethod.EMITTER, decode=Decode.NOT, answers_itself=True)
    def emitter(self, call: IncomingCall, module: HostedModule, message: Encoded) -> None:
        """Answer with the emitter of the event that the calling handler handles, None if no handler calls."""
        origin = call.cause.origin if call.cause is not None else None
        written = self._router.marshaller.encode(origin.emitter if origin is not None else None)
        call.peer.charge(written.body)
        self._router.respond(call, written)

    def _read(self, message: Encoded) -> tuple[str, Payload]:
        match data_of(message, self._plain):
            case [str() as event, data] if len(event) <= MAX_NAME:
                try:
                    return event, Payload.of(data)
                except (RuntimeError, TypeError) as exc:
                    raise UnfitValueError(f"an event with data that no event has: {exc}") from exc
        raise malformed("event")

    def _undelivered(self, module: HostedModule, event: str) -> HookResult | None:
        """Return the answer to an event that reaches no handler, None for any other."""
        if not module.authority.may_emit(event):
            module.deny(Denial("emit", event, module.name, grant=module.authority.line_for("emit", event)))
            return HookResult(action="continue")
        module.authority.use.note("emit", event)
        is_gate = event in _GATES
        budget = module.rate_limits.gates if is_gate else module.rate_limits.events
        if budget.admits(self._router.now()):
            return None
        reason = f"more than {budget.describe()}"
        if budget.begins_flood:
            module.deny(Denial("emit", "gates" if is_gate else "events", module.name, reason=reason))
        # The guards of a gate have not been asked, so it stays shut.
        return HookResult(action="deny", reason=f"`{module.name}` emits {reason}") if is_gate else HookResult()

    async def _emit_request(self, module: HostedModule, payload: Payload) -> Encoded:
        # A provider's request is put together from the tools' descriptions.
        self._coordinator.tell_state_changes()
        await describe_anew(self._host_calls, self._mirrors)
        return await self._emit(module, self._coordinator.hooks.emit_payload, events.PROVIDER_REQUEST, payload)

    async def _emit(
        self, module: HostedModule, emit: Callable[..., Coroutine[Any, Any, HookResult]], *event: Any
    ) -> Encoded:
        _note_emitter(module)
        with collecting_prompts() as asked:
            result = await emit(*event)
        if result.action == "ask_user":
            self._prompts.note(module.peer, result.approval_prompt, asked)
        return self._router.marshaller.encode(result)


def _note_emitter(module: HostedModule) -> None:
    """Remember the emitter for the handlers that are called from here on, which may ask for it."""
    call = current.get()
    assert call is not None  # the request to emit
    call.note_emitter(module.name)
    answer_emitter_with(lambda: module.name)
