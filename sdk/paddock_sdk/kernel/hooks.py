"""Events, and their handlers.

`emit` runs an event's handlers one after the other, in order of priority, and folds their answers into one result: a
deny ends the chain, a modification changes the data for later handlers, injections and questions are collected. Every
handler and the emitter get copies of their own. A handler that fails is logged and skipped; one with an invalid answer
denies. Cancelling the emitter cancels the running handler. This file does not know where handlers live.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from paddock_sdk.contract import events
from paddock_sdk.kernel.correlation import CORRELATED_EVENTS, REQUEST_ID_FIELD, resolve_request_id
from paddock_sdk.kernel.injections import carries_injection, merged_injections
from paddock_sdk.kernel.payload import Payload
from paddock_sdk.kernel.settle import CancelWatch, safe_exception_str

if TYPE_CHECKING:
    from paddock_sdk.contract.models import HookResult

_log = logging.getLogger(__name__)

_MAX_DESERTED: Final = 1000  # events that are listed without a handler; a module can make up as many as it likes
_ACTIONS: Final = frozenset({"continue", "deny", "modify", "inject_context", "ask_user"})


class PayloadHandler(Protocol):
    """A handler that takes the payload itself, to encode it once for many, and is awaited without a task of its own.

    It is recognised by its class defining `deliver`: an attribute of the instance does not count, or every mock would
    be one.
    """

    def deliver(self, event: str, payload: Payload) -> Awaitable[object]:
        """Return an awaitable of the handler's return value, which lets the emitter's cancellation through."""
        ...


class HookObserver(Protocol):
    """Receives the events that get or lose handlers."""

    def subscribed(self, event: str) -> None:
        """An event got its first handler."""
        ...

    def unsubscribed(self, event: str) -> None:
        """An event lost its last handler."""
        ...


@dataclass(eq=False, slots=True)
class HandlerRegistration:
    """One handler of one event."""

    event: str
    name: str
    priority: int
    handler: Any
    takes_payload: bool


@dataclass(slots=True)
class _Raised:
    error: BaseException


class HookRegistry:
    """The handlers of one session."""

    SESSION_START: ClassVar[str] = events.SESSION_START
    SESSION_END: ClassVar[str] = events.SESSION_END
    PROMPT_SUBMIT: ClassVar[str] = events.PROMPT_SUBMIT
    TOOL_PRE: ClassVar[str] = events.TOOL_PRE
    TOOL_POST: ClassVar[str] = events.TOOL_POST
    CONTEXT_PRE_COMPACT: ClassVar[str] = events.CONTEXT_PRE_COMPACT
    ORCHESTRATOR_COMPLETE: ClassVar[str] = events.ORCHESTRATOR_COMPLETE
    USER_NOTIFICATION: ClassVar[str] = events.USER_NOTIFICATION

    def __init__(self) -> None:
        self.observer: HookObserver | None = None
        # Tuples, replaced on every change: an emit that is under way keeps the handlers it started with, for free.
        self._handlers: dict[str, tuple[HandlerRegistration, ...]] = {}
        # Events whose handlers have all left, the oldest first: the contract goes on listing them.
        self._deserted: dict[str, None] = {}
        self._by_name: dict[str, list[HandlerRegistration]] = {}
        self._defaults: dict[str, Any] = {}

    def register(
        self,
        event: str,
        handler: Any,
        priority: int = 0,
        name: str | None = None,
    ) -> Callable[[], None]:
        """Add a handler and return a function that removes exactly this registration.

        Lower priorities run earlier, equal ones in the order they were registered. Whether the handler can be called
        is found out when the event happens.

        Raises:
            TypeError: the priority is not an integer.
        """
        if not isinstance(priority, int):
            raise TypeError(f"a handler's priority is an integer, not {type(priority).__name__}")
        registration = HandlerRegistration(
            event=event,
            name=name if name is not None else f"_auto_{event}_{uuid.uuid4()}",
            priority=priority,
            handler=handler,
            takes_payload=hasattr(type(handler), "deliver"),
        )
        present = self._handlers.get(event, ())
        place = bisect_right(present, priority, key=lambda other: other.priority)
        self._handlers[event] = (*present[:place], registration, *present[place:])
        self._deserted.pop(event, None)
        self._by_name.setdefault(registration.name, []).append(registration)
        if not present and self.observer is not None:
            self.observer.subscribed(event)
        return lambda: self._remove(registration)

    def on(
        self,
        event: str,
        handler: Any,
        priority: int = 0,
        name: str | None = None,
    ) -> Callable[[], None]:
        """The same as `register`."""
        return self.register(event, handler, priority, name)

    def unregister(self, name: str) -> None:
        """Remove the most recent registration of a name; an unknown name is ignored."""
        registrations = self._by_name.get(name)
        if registrations:
            self._remove(registrations[-1])

    def set_default_fields(self, **fields: Any) -> None:
        """Set the fields that every event with handlers carries unless its data has them.

        Raises:
            RuntimeError: a value has no JSON form.
        """
        self._defaults = Payload.of(fields).data()

    def list_handlers(self, event: str | None = None) -> dict[str, list[str]]:
        """Return the names of the handlers of one event or of all, in the order they run."""
        if event is not None:
            return {event: [registration.name for registration in self._handlers.get(event, ())]}
        return {heard: [registration.name for registration in present] for heard, present in self._handlers.items()}

    def registrations(self) -> list[tuple[str, Any, int, str]]:
        """Return the event, handler, priority and name of every registration, to register them elsewhere."""
        return [(one.event, one.handler, one.priority, one.name) for all in self._handlers.values() for one in all]

    def has_handlers(self, event: str) -> bool:
        return bool(self._handlers.get(event))

    async def emit(self, event: str, data: Any) -> HookResult:
        """Run an event's handlers and return their combined result.

        The action is never "modify": a modification shows in the data of the result.

        Raises:
            RuntimeError: the data has no JSON form.
        """
        return await self.emit_payload(event, Payload.of(data))

    async def emit_payload(self, event: str, payload: Payload) -> HookResult:
        """The same as `emit`, with data that is converted already."""
        registrations = self._handlers.get(event)
        if not registrations:
            return _continue_with(payload)

        payload = correlated(event, self._stamped(payload))
        return await self._ask_all(event, payload, registrations)

    def _stamped(self, payload: Payload) -> Payload:
        return payload.stamped(self._defaults, datetime.now(UTC).isoformat(timespec="microseconds"))

    async def _ask_all(
        self, event: str, payload: Payload, registrations: tuple[HandlerRegistration, ...]
    ) -> HookResult:
        """Call the handlers in order, with a payload that has every field, and return their combined result."""
        watch = CancelWatch()
        question: HookResult | None = None
        injections: list[tuple[str, HookResult]] = []
        for registration in registrations:
            returned = await _ask(registration, event, payload, watch)
            if returned is None:
                continue
            try:
                answer = read_answer(returned)
                if answer.action == "modify" and answer.data is not None:
                    payload = _replaced(answer.data)
            except InvalidAnswerError as error:
                return _refusal(registration, event, error)
            if answer.action == "deny":
                return answer
            if answer.action == "ask_user":
                question = answer if question is None else question
            elif answer.action == "inject_context" and carries_injection(answer):
                injections.append((registration.name, answer))

        if question is not None:
            return question
        if injections:
            return merged_injections(injections, event)
        return _continue_with(payload)

    async def emit_and_collect(self, event: str, data: Any, timeout: float = 1.0) -> list[dict[str, Any]]:
        """Return the data every handler answers with, in order; each gets `timeout` seconds and no veto.

        Raises:
            RuntimeError: the data has no JSON form.
        """
        payload = Payload.of(data)
        watch = CancelWatch()
        collected: list[dict[str, Any]] = []
        for registration in self._handlers.get(event, ()):
            try:
                async with asyncio.timeout(timeout):
                    returned = await _ask(registration, event, payload, watch)
                if returned is None:
                    continue
                answer = read_answer(returned)
                if answer.data is not None:
                    collected.append(_replaced(answer.data).data())
            except TimeoutError:
                _log.warning(
                    "Hook handler %r took more than %s s to answer %r and was skipped",
                    registration.name,
                    timeout,
                    event,
                )
            except InvalidAnswerError as error:
                _log.warning("Hook handler %r returned no valid answer to %r: %s", registration.name, event, error)
        return collected

    def _remove(self, registration: HandlerRegistration) -> None:
        namesakes = self._by_name.get(registration.name, [])
        if registration not in namesakes:
            return
        namesakes.remove(registration)
        if not namesakes:
            del self._by_name[registration.name]
        event = registration.event
        self._handlers[event] = tuple(other for other in self._handlers[event] if other is not registration)
        if not self._handlers[event]:
            self._deserted[event] = None
            if len(self._deserted) > _MAX_DESERTED:
                longest = next(iter(self._deserted))
                del self._deserted[longest], self._handlers[longest]
            if self.observer is not None:
                self.observer.unsubscribed(event)


async def _ask(
    registration: HandlerRegistration,
    event: str,
    payload: Payload,
    watch: CancelWatch,
) -> object:
    """Return one handler's return value, None if it fails; only the emitter's own cancellation propagates.

    It propagates unchanged: anyio's scopes recognise their cancellation by its message, not by the task's count.
    """
    awaited = False
    try:
        if registration.takes_payload:
            awaited = True
            returned = await registration.handler.deliver(event, payload)
        else:
            returned = registration.handler(event, payload.data())
            # Judged by the return value, not by the handler: partials, mocks and plain functions return coroutines,
            # too.
            if type(returned) is CoroutineType or hasattr(type(returned), "__await__"):
                awaited = True
                returned = await _in_own_task(returned, watch)
    except BaseException as error:
        if awaited and (
            isinstance(error, GeneratorExit) or (type(error) is asyncio.CancelledError and watch.cancelled)
        ):
            # This emit itself is being closed or cancelled, for which no handler is to blame.
            raise
        returned = _Raised(error)
    if awaited and watch.cancelled:
        # The cancellation was meant for the emitter, even if such a handler turned it into something else.
        raise asyncio.CancelledError
    if isinstance(returned, _Raised):
        # Even a SystemExit: no handler may end the chain of those after it.
        raised = returned.error
        failure = f"{type(raised).__name__}: {safe_exception_str(raised)}"
        _log.warning(
            "Hook handler %r failed on %r and was skipped: %s", registration.name, event, failure, exc_info=raised
        )
        return None
    return returned


async def _in_own_task(awaitable: Awaitable[object], watch: CancelWatch) -> object:
    """Await in a task of its own, with a copy of the context, so that the handler's context changes stay in it.

    Return its result, `_Raised` for an exception. The emitter's cancellation is passed on, and raised when the task has
    ended, regardless of the handler's reaction.
    """
    if watch.cancelled and isinstance(awaitable, Coroutine):
        # A cancellation is under way, and is raised here: nothing new begins, and nothing else would finish the
        # coroutine.
        awaitable.close()
        await asyncio.sleep(0)
        raise asyncio.CancelledError
    # Not by awaiting the task: an exception of the cancelled handler would replace the emitter's cancellation.
    outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_caught(awaitable, outcome))
    try:
        return await outcome
    except asyncio.CancelledError as error:
        await _cancelled(task, error)
        raise


async def _caught(awaitable: Awaitable[object], outcome: asyncio.Future[object]) -> None:
    # A task that raises SystemExit or KeyboardInterrupt takes the whole loop with it.
    returned: object
    try:
        returned = await awaitable
    except BaseException as error:
        returned = _Raised(error)
    if not outcome.done():
        outcome.set_result(returned)


async def _cancelled(task: asyncio.Task[None], error: asyncio.CancelledError) -> None:
    """Cancel a task, and again each time the waiting caller is cancelled; return when it has ended."""
    while not task.done():
        task.cancel(*error.args)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as again:
            error = again


def correlated(event: str, payload: Payload) -> Payload:
    """Return an event's payload with the id of the call of a model that it belongs to, if it belongs to one."""
    if event not in CORRELATED_EVENTS or not payload.is_mapping:
        return payload
    request_id = resolve_request_id(event, payload.shared.get(REQUEST_ID_FIELD))
    return payload if request_id is None else payload.with_field(REQUEST_ID_FIELD, request_id)


def _replaced(data: object) -> Payload:
    try:
        return Payload.of(data)
    except Exception as error:
        raise InvalidAnswerError(str(error)) from error


def _continue_with(payload: Payload) -> HookResult:
    return hook_result_class()(action="continue", data=payload.data() if payload.is_mapping else {})


def _refusal(registration: HandlerRegistration, event: str, error: InvalidAnswerError) -> HookResult:
    _log.error(
        "SECURITY: hook handler %r returned an invalid response to %r, which counts as deny: %s",
        registration.name,
        event,
        error,
    )
    return hook_result_class()(action="deny", reason="Hook handler returned invalid response")


class InvalidAnswerError(Exception):
    """Raised when a handler returned something that is not a hook result."""


# Kept, because an import statement inside a function costs about as much as the rest of a short emit's bookkeeping.
@cache
def hook_result_class() -> type[HookResult]:
    """Return the contract's class, importing it on the first call."""
    from paddock_sdk.contract.models import HookResult

    return HookResult


def read_answer(returned: object) -> HookResult:
    """Return a handler's answer as a hook result; an invalid one never counts as a "yes".

    A handler answers with nothing, a `HookResult`, another model or a mapping of the same fields. The contract's own
    class is taken as it is. Everything else is converted to JSON types and validated strictly, so that a result never
    shares data with its handler.

    Raises:
        InvalidAnswerError: it is invalid.
    """
    model = hook_result_class()
    if isinstance(returned, model):
        # Models do not validate assignments, so the two fields the registry acts on are looked at.
        if returned.action not in _ACTIONS:
            raise InvalidAnswerError(f"action {returned.action!r} is unknown")
        if returned.data is not None and not isinstance(returned.data, dict):
            raise InvalidAnswerError(f"data is a {type(returned.data).__name__}, not a mapping")
        return returned
    if not isinstance(returned, dict) and not hasattr(type(returned), "model_dump"):
        raise InvalidAnswerError(f"it is a {type(returned).__name__}, not a hook result")
    try:
        return model.model_validate(Payload.of(returned).shared, strict=True)
    except Exception as error:
        raise InvalidAnswerError(str(error)) from error
