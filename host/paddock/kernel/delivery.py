"""An event that a module emits, on its way through handlers in workers: no task waits while they let it pass.

Each handler is asked in order, the next one while the answer of the one before is read, and the emitter is answered
when the last one has let the event pass as it is. At the first handler that takes anything else (one of the
application, one whose worker has to be started, one that has something to say, fails or is gone), a task goes on from
there, as it does with every other event. The emitter's request ends once; given up, no further handler is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from paddock.kernel.hooks import HostedHooks
from paddock.proxies.event_message import unchanged
from paddock.proxies.hook import HookProxy
from paddock.rpc.calls import DirectCall, HostCall, IncomingCall
from paddock.rpc.handle import Encoded
from paddock.rpc.router import Router
from paddock_sdk.contract.models import HookResult
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.kernel.correlation import CORRELATED_EVENTS
from paddock_sdk.kernel.hooks import HandlerRegistration
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol.body import Codec

# The bodies of answers that let an event pass as it is; what else does is understood by a task.
_PASSES: Final = frozenset(
    Codec(ContractVocabulary()).encode(answer)[0] for answer in (None, HookResult(), HookResult(action="continue"))
)
_LONGEST_PASS: Final = max(len(body) for body in _PASSES)

_log = logging.getLogger(__name__)

GoOn = Callable[[str, Payload, tuple[HandlerRegistration, ...]], Coroutine[Any, Any, Encoded]]
"""Returns what asks the handlers that are left about an event, in a task."""


class Delivery:
    """One event on its way; what is left of it is done by `go_on` where it takes a task."""

    __slots__ = ("_asked", "_call", "_event", "_go_on", "_payload", "_registrations", "_router")

    def __init__(
        self,
        router: Router,
        call: IncomingCall,
        event: str,
        payload: Payload,
        registrations: tuple[HandlerRegistration, ...],
        go_on: GoOn,
    ) -> None:
        self._router = router
        self._call = call
        self._event = event
        self._payload = payload
        self._registrations = registrations
        self._asked = 0
        self._go_on = go_on

    @classmethod
    def begin(
        cls, router: Router, hooks: HostedHooks, call: IncomingCall, event: str, payload: Payload, go_on: GoOn
    ) -> bool:
        """Take on the answer to a worker's emit, if its first handler is one to be asked without a task."""
        registrations = hooks.handlers_of(event)
        # What correlates events belongs to the task of whoever emits them.
        if not registrations or event in CORRELATED_EVENTS or not isinstance(registrations[0].handler, HookProxy):
            return False
        delivery = cls(router, call, event, hooks.stamped(payload), registrations, go_on)
        delivery._ask_next()
        if call.cause is not None and call.is_open:
            call.goes_on(router.now())
        return True

    def _ask_next(self) -> None:
        handler = self._registrations[self._asked].handler
        asked = None
        if isinstance(handler, HookProxy):
            try:
                asked = handler.begin(self._call, self._event, self._payload, self._on_said)
            except Exception:
                asked = None  # the task finds the same, and knows what it amounts to
        if asked is None:
            self._hand_over(self._registrations[self._asked :])
        else:
            self._call.served_by = asked

    def _on_said(self, asked: DirectCall) -> None:
        try:
            said = asked.said
            if type(said) is not Encoded or len(said.body) > _LONGEST_PASS or bytes(said.body) not in _PASSES:
                first, *rest = self._registrations[self._asked :]
                self._hand_over((replace(first, handler=_Asked(first.handler, asked.awaited())), *rest))
                return
            self._asked += 1
            if self._asked < len(self._registrations):
                self._ask_next()
            else:
                answer = unchanged(self._router.values, self._payload)
                self._router.respond_directly(self._call, answer)
        except Exception as exc:  # a defect of ours, and none of the worker's whose answer is being read
            _log.exception("an event could not be delivered")
            self._router.fail(self._call, exc)

    def _hand_over(self, registrations: tuple[HandlerRegistration, ...]) -> None:
        self._call.served_by = None
        work = self._go_on(self._event, self._payload, registrations)
        try:
            self._router.serve(self._call, work)
        except RuntimeError:  # the session is over, and the emitter gone
            work.close()


class _Asked:
    """A handler that has been asked about an event, whose answer is there."""

    def __init__(self, handler: HookProxy, asked: HostCall) -> None:
        self._handler = handler
        self._call = asked

    def deliver(self, event: str, payload: Payload) -> Coroutine[Any, Any, object]:
        return self._handler.deliver(event, payload, self._call)
