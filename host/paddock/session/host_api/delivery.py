"""Deliver an event of a module to handlers in workers, without a task while they let it pass unchanged.

Handlers are called in order, each as soon as the answer of the one before is read. When the last one has let the event
pass unchanged, the emitter gets its answer. A task continues at the first handler that needs one: a handler of the
application, one whose worker has to be started, one that fails or is gone, and one with any other answer. The emitter's
request ends exactly once; after its cancellation no further handler is called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import cache
from typing import Any, Final

from paddock.rpc.calls import IncomingCall
from paddock.rpc.host_calls import DirectCall, HostCall
from paddock.rpc.peer import Encoded
from paddock.rpc.router import Router
from paddock.session.proxies.event_message import unchanged
from paddock.session.proxies.hook import HookProxy
from paddock.session.state.hooks import HostedHooks
from paddock_sdk.contract.models import HookResult
from paddock_sdk.contract.vocabulary import ContractVocabulary
from paddock_sdk.kernel.correlation import CORRELATED_EVENTS
from paddock_sdk.kernel.hooks import HandlerRegistration
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol.body import Codec

_LONGEST_PASS: Final = 64  # bytes; a longer answer does not only let an event pass, and is not copied to compare

_log = logging.getLogger(__name__)

GoOn = Callable[[str, Payload, tuple[HandlerRegistration, ...]], Coroutine[Any, Any, Encoded]]
"""Makes the coroutine that delivers an event to the remaining handlers, to be run in a task."""


class EventDelivery:
    """The delivery of one event; `go_on` continues it where it takes a task."""

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
        """Deliver an event and answer the emitter, if the first handler is in a worker; return False if it is not."""
        registrations = hooks.handlers_of(event)
        # The correlation of events belongs to the task that emits them.
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
                asked = None  # the task meets the same error, and reports it
        if asked is None:
            self._hand_over(self._registrations[self._asked :])
        else:
            self._call.serve_by(asked)

    def _on_said(self, asked: DirectCall) -> None:
        try:
            outcome = asked.outcome
            if (
                type(outcome) is not Encoded
                or len(outcome.body) > _LONGEST_PASS
                or bytes(outcome.body) not in _passes()
            ):
                first, *rest = self._registrations[self._asked :]
                self._hand_over((replace(first, handler=_Asked(first.handler, asked.awaited())), *rest))
                return
            self._asked += 1
            if self._asked < len(self._registrations):
                self._ask_next()
            else:
                answer = unchanged(self._router.marshaller, self._payload)
                self._router.respond_directly(self._call, answer)
        except Exception as exc:  # a defect of the host; the worker whose answer is being read must not be ended for it
            _log.exception("an event could not be delivered")
            self._router.fail(self._call, exc)

    def _hand_over(self, registrations: tuple[HandlerRegistration, ...]) -> None:
        self._call.serve_by(None)
        work = self._go_on(self._event, self._payload, registrations)
        try:
            self._router.serve(self._call, work)
        except RuntimeError:  # the session is over, and the emitter gone
            work.close()


class _Asked:
    """A handler that has been called already; delivering to it returns the answer of that call."""

    def __init__(self, handler: HookProxy, asked: HostCall) -> None:
        self._handler = handler
        self._call = asked

    def deliver(self, event: str, payload: Payload) -> Coroutine[Any, Any, object]:
        return self._handler.deliver(event, payload, self._call)


@cache
def _passes() -> frozenset[bytes]:
    """Return the encoded answers that let an event pass unchanged; a task decodes every other answer.

    It is worked out at the first answer: it takes the validator of a model, which a session without hooks has no use
    for.
    """
    answers = (None, HookResult(), HookResult(action="continue"))
    return frozenset(Codec(ContractVocabulary()).encode(answer)[0] for answer in answers)
