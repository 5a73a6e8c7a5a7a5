"""A handler that lives in a worker, as the host's hook registry calls it.

An event is encoded once for all handlers. The registry judges a handler that answers badly or raises. If a handler
cannot be asked, or its process dies or takes too long, the policy of its plan entry answers here: a guard of a gate
keeps it shut.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Literal

from paddock.errors import CallRefusedError, ModuleError
from paddock.rpc import fan_in
from paddock.rpc.calls import IncomingCall, current
from paddock.rpc.host_calls import DirectCall, HostCall
from paddock.rpc.marshal import Marshaller
from paddock.session.proxies.event_message import event_message
from paddock.session.proxies.function import RegisteredFunction
from paddock.session.shutdown import ShutdownDeadlines
from paddock_sdk.contract import events
from paddock_sdk.contract.boundary_errors import DeadlockError, ModuleGoneError, OverLimitError
from paddock_sdk.contract.models import HookResult
from paddock_sdk.kernel.hooks import InvalidAnswerError, read_answer
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.protocol import LocalProtocolError, RemoteProtocolError

OnFailure = Literal["deny", "continue"]

_GATES: Final = frozenset({events.TOOL_PRE, events.PROMPT_SUBMIT})
_NOTHING: Final = b"\xc0"  # the whole body of an answer of None, which most handlers give

_log = logging.getLogger(__name__)


class HookProxy:
    """One registration of a handler by the module `name`."""

    def __init__(
        self,
        marshaller: Marshaller,
        function: RegisteredFunction,
        name: str,
        on_failure: OnFailure | None,
        on_question: Callable[[object], None],
        deadlines: ShutdownDeadlines,
    ) -> None:
        """`on_question` is called with each question that the handler answers with, before a person is asked it."""
        self._marshaller = marshaller
        self._on_question = on_question
        self._function = function
        self._name = name
        self._on_failure = on_failure
        self._deadlines = deadlines

    def begin(
        self, origin: IncomingCall, event: str, payload: Payload, on_ended: Callable[[DirectCall], None]
    ) -> DirectCall | None:
        """Send the event to the handler, for a worker's request; None where that takes more than writing it.

        That is so at the session's end, when the module's time is counted.

        Raises:
            Exception: it cannot be sent.
        """
        if self._deadlines.is_under_way:
            return None
        return self._function.begin(origin, event_message(self._marshaller, event, payload), on_ended)

    def deliver(self, event: str, payload: Payload, begun: HostCall | None = None) -> Coroutine[Any, Any, object]:
        """Ask the handler, at the session's end as long as its module has time for that.

        After the module's death or delay, a stand-in answers. If the question was `begun` before, its answer is waited
        for.
        """
        ask = self._deliver_in_time if self._deadlines.is_under_way else self._ask
        return ask(event, payload, begun)

    async def _deliver_in_time(self, event: str, payload: Payload, begun: HostCall | None) -> object:
        """Ask within the module's own time; a deny, which ends an event's chain, would keep the end from others."""
        ask = partial(self._ask, event, payload, begun)
        if event != events.SESSION_END or current.get() is not None:
            unheard = self._answer_for(event, "its time is over")
            return await self._deadlines.run_within(self._name, "what others emit", ask, unheard)
        returned = await self._deadlines.run_within(self._name, "session:end", ask, None)
        if returned is not None and _ends_the_chain(returned):
            _log.warning("hook `%s` would have kept session:end from others, which counts as continue", self._name)
            return None
        return returned

    async def _ask(self, event: str, payload: Payload, begun: HostCall | None) -> object:
        if not self._function.is_callable:
            raise TypeError(f"a handler of module `{self._name}` cannot be called")
        try:
            message = event_message(self._marshaller, event, payload)
            gathered = fan_in.current.get()
            answer = await self._function.call(message, begun)
        except (
            CallRefusedError,
            ModuleError,
            ModuleGoneError,
            DeadlockError,
            OverLimitError,
            LocalProtocolError,
        ) as exc:
            if hasattr(exc, "remote_type"):  # it came over the wire: the handler was asked, and raised this
                raise
            return self._in_its_place(event, exc)
        if answer.body == _NOTHING:
            return None
        try:
            # Decoded, and encoded for every later handler: a module cannot pass on an object that it was only shown.
            result = self._marshaller.decode_named(answer)
        except RemoteProtocolError:
            return answer  # which is no hook result, and counts as any other invalid answer
        if gathered is not None and (gathered.keeps_all or _injects(result)):  # then it is kept until all were asked
            if not gathered.admits(self._name, answer.body):
                return None
        match result:
            case HookResult(action="ask_user", approval_prompt=prompt):
                self._on_question(prompt)
            case {"action": "ask_user"}:
                self._on_question(result.get("approval_prompt"))
        return result

    def _in_its_place(self, event: str, error: Exception) -> object:
        name, reason, policy = self._name, getattr(error, "summary", str(error)), self._policy(event)
        _log.warning("hook `%s` could not be asked about %s, which counts as %s: %s", name, event, policy, reason)
        return self._answer_for(event, reason)

    def _answer_for(self, event: str, reason: str) -> object:
        """Return what counts as the answer of a handler that could not be asked; `reason` is why."""
        if self._policy(event) == "continue":
            return None
        return {"action": "deny", "reason": f"hook `{self._name}` could not be asked: {reason}"}

    def _policy(self, event: str) -> OnFailure:
        return self._on_failure or ("deny" if event in _GATES else "continue")


def _injects(answer: Any) -> bool:
    """Whether an answer adds something to the context."""
    action = answer.get("action") if isinstance(answer, dict) else getattr(answer, "action", None)
    return action == "inject_context"


def _ends_the_chain(returned: object) -> bool:
    try:
        return read_answer(returned).action == "deny"
    except InvalidAnswerError:  # which counts as deny
        return True
