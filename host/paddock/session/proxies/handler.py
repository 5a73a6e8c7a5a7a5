"""A module's handler as the session calls it: at the session's end within the module's own time.

No handler decides about the end: a deny, which ends an event's chain, would keep the event from later handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from paddock.rpc.calls import IncomingCall, current
from paddock.rpc.host_calls import DirectCall, HostCall
from paddock.rpc.marshal import Marshaller
from paddock.session.proxies.function import RegisteredFunction
from paddock.session.proxies.hook import HookProxy, OnFailure
from paddock.session.shutdown import ShutdownDeadlines
from paddock_sdk.contract import events
from paddock_sdk.kernel.answer import InvalidAnswerError, read_answer
from paddock_sdk.kernel.payload import Payload

_log = logging.getLogger(__name__)


class Handler(HookProxy):
    """One registration of a handler by the module `name` in a session with an `ending`."""

    def __init__(
        self,
        marshaller: Marshaller,
        function: RegisteredFunction,
        name: str,
        on_failure: OnFailure | None,
        on_question: Callable[[object], None],
        deadlines: ShutdownDeadlines,
    ) -> None:
        super().__init__(marshaller, function, name, on_failure, on_question)
        self._deadlines = deadlines

    def begin(
        self, origin: IncomingCall, event: str, payload: Payload, on_ended: Callable[[DirectCall], None]
    ) -> DirectCall | None:
        """Do what every handler does, except at the session's end, when the module's time is counted."""
        return None if self._deadlines.is_under_way else super().begin(origin, event, payload, on_ended)

    def deliver(self, event: str, payload: Payload, begun: HostCall | None = None) -> Coroutine[Any, Any, object]:
        """Ask the handler, as long as its module has time for that."""
        if self._deadlines.is_under_way:
            return self._deliver_in_time(event, payload, begun)
        return super().deliver(event, payload, begun)

    async def _deliver_in_time(self, event: str, payload: Payload, begun: HostCall | None) -> object:
        ask = partial(super().deliver, event, payload, begun)
        if event != events.SESSION_END or current.get() is not None:
            unheard = self.answer_for(event, "its time is over")
            return await self._deadlines.run_within(self._name, "what others emit", ask, unheard)
        returned = await self._deadlines.run_within(self._name, "session:end", ask, None)
        if returned is not None and _ends_the_chain(returned):
            _log.warning("hook `%s` would have kept session:end from others, which counts as continue", self._name)
            return None
        return returned


def _ends_the_chain(returned: object) -> bool:
    try:
        return read_answer(returned).action == "deny"
    except InvalidAnswerError:  # which counts as deny
        return True
