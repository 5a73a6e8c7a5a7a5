"""Act on a hook's result: inject into the context, show a message, ask the person.

The order is: check the injection before anything else, show the message, write the context, ask for approval. A refused
injection leaves nothing behind. Exceptions of the context, and of the approval system except its timeout, go to the
caller. An injection that the conversation has no room for is left out.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from paddock_sdk.contract.approval import ApprovalTimeoutError
from paddock_sdk.contract.boundary_errors import OverLimitError
from paddock_sdk.kernel.injections import injection_of, scalar_fields
from paddock_sdk.kernel.settle import settled

if TYPE_CHECKING:
    from paddock_sdk.contract.models import ContextInjection, HookResult

_log = logging.getLogger(__name__)

_CHARACTERS_PER_TOKEN: Final = 4
_DEFAULT_PROMPT: Final = "Allow this operation?"
_DEFAULT_OPTIONS: Final = ("Allow", "Deny")
_ALLOWING: Final = frozenset({"allow", "allow once", "allow always"})
_SHOWN_PROMPT_CHARACTERS: Final = 200  # a prompt may quote a whole file; a reason is one line of a log


class HookedSession(Protocol):
    """The target of a hook's result: a session's coordinator, of the host, of a worker or of a test."""

    _current_turn_injections: int

    @property
    def injection_size_limit(self) -> int | None: ...

    @property
    def injection_budget_per_turn(self) -> int | None: ...

    @property
    def display_system(self) -> object: ...

    @property
    def approval_system(self) -> object: ...

    def get(self, mount_point: str) -> Any: ...

    def _leave_out(self, item: ContextInjection, error: OverLimitError) -> None: ...


async def process_hook_result(
    coordinator: HookedSession, result: HookResult, event: str, hook_name: str = "unknown"
) -> HookResult:
    """Return the rest of the result that the orchestrator must act on.

    Raises:
        ValueError: the injected text exceeds the session's size limit.
        TypeError: the approval system's reply is not text.
    """
    action = result.action
    injected = _injections(result, event, hook_name) if action == "inject_context" else []
    if injected:
        _account_for(coordinator, injected, event, hook_name)
    if action != "ask_user" and result.user_message:
        await _show(coordinator, result, hook_name)
    if result.suppress_output:
        _log.debug("Hook %r asked to suppress output on %r", hook_name, event)
    if action == "inject_context":
        for item in injected:
            if not item.ephemeral:
                await _persist(coordinator, item)
        return _without_persisted(result, [item for item in injected if item.ephemeral])
    if action == "ask_user":
        return await _ask(coordinator, result, hook_name)
    return result


def as_hook_result(result: Any) -> HookResult:
    """Return an object with a result's attributes as the contract's own class.

    Raises:
        AttributeError: it has no action, as a mapping has none.
    """
    from paddock_sdk.contract.models import HookResult

    return result if isinstance(result, HookResult) else _revised(result, action=result.action)


def _injections(result: HookResult, event: str, hook_name: str) -> list[ContextInjection]:
    """Return every text the result injects, cleaned; those that are empty inject nothing."""
    from paddock_sdk.contract.models import _sanitize_for_llm

    listed = list(getattr(result, "context_injections", None) or ())
    if not listed and result.context_injection:
        listed = [injection_of(result, hook_name, event)]
    cleaned = [item.model_copy(update={"content": _sanitize_for_llm(item.content)}) for item in listed]
    return [item for item in cleaned if item.content]


def _account_for(coordinator: HookedSession, injected: list[ContextInjection], event: str, hook_name: str) -> None:
    characters = sum(len(item.content) for item in injected)
    limit = coordinator.injection_size_limit
    if limit is not None and characters > limit:
        _log.error("Hook %r may not inject %d characters on %r: the limit is %d", hook_name, characters, event, limit)
        raise ValueError(f"Context injection exceeds {limit} characters")
    tokens = characters // _CHARACTERS_PER_TOKEN
    budget = coordinator.injection_budget_per_turn
    spent = coordinator._current_turn_injections + tokens
    if budget is not None and spent > budget:
        _log.warning(
            "Hook %r exceeds the turn's injection budget on %r: %d of %d tokens", hook_name, event, spent, budget
        )
    coordinator._current_turn_injections = spent


async def _show(coordinator: HookedSession, result: HookResult, hook_name: str) -> None:
    message, source = result.user_message, f"hook:{result.user_message_source or hook_name}"
    display: Any = coordinator.display_system
    if display is None:
        _log.debug("No display system for a message of %s (%s): %s", source, result.user_message_level, message)
        return
    try:
        await settled(display.show_message(message, result.user_message_level, source))
    except Exception as error:  # the application's code; a message is not worth a turn
        _log.error("The display system failed to show a message of %s", source, exc_info=error)


async def _persist(coordinator: HookedSession, item: ContextInjection) -> None:
    add_message = getattr(coordinator.get("context"), "add_message", None)
    if add_message is None:
        return
    message = {
        "role": item.role,
        "content": item.content,
        "metadata": {
            "source": "hook",
            "hook_name": item.hook_name,
            "event": item.event,
            "timestamp": datetime.now(UTC).isoformat(),
            "requested_role": item.role,
            "ephemeral": False,
            "persisted": True,
        },
    }
    try:
        await settled(add_message(message))
    except OverLimitError as error:  # a hook's words are not worth a turn
        coordinator._leave_out(item, error)


def _without_persisted(result: HookResult, ephemeral: list[ContextInjection]) -> HookResult:
    """Return the result with only the injections that the orchestrator has to apply itself."""
    if ephemeral:
        return _revised(result, context_injections=ephemeral, **scalar_fields(ephemeral))
    return _revised(
        result,
        action="continue",
        context_injection=None,
        context_injection_role="system",
        ephemeral=False,
        append_to_last_tool_result=False,
        context_injections=[],
    )


def _revised(result: HookResult, **changes: Any) -> HookResult:
    # Not `model_copy`: anything with the attributes of a result is accepted here.
    from paddock_sdk.contract.models import HookResult

    fields = {name: getattr(result, name) for name in HookResult.model_fields if hasattr(result, name)}
    return HookResult(**{**fields, **changes})


async def _ask(coordinator: HookedSession, result: HookResult, hook_name: str) -> HookResult:
    from paddock_sdk.contract.models import HookResult

    approval_system: Any = coordinator.approval_system
    if approval_system is None:
        _log.error("Hook %r asks for approval, and there is no approval system", hook_name)
        return HookResult(action="deny", reason="No approval system available")

    prompt = result.approval_prompt or _DEFAULT_PROMPT
    options = list(result.approval_options or _DEFAULT_OPTIONS)
    try:
        reply = await approval_system.request_approval(
            prompt, options, result.approval_timeout, result.approval_default
        )
    except ApprovalTimeoutError:
        if result.approval_default.lower() in _ALLOWING:
            return HookResult(action="continue")
        return HookResult(action="deny", reason=f"Approval timeout - denied by default: {prompt}")
    if not isinstance(reply, str):
        raise TypeError(f"the approval system replied with a {type(reply).__name__} instead of an option's text")
    if reply.lower() in _ALLOWING:
        return HookResult(action="continue")
    if reply.lower() != "deny":
        _log.warning("The approval system replied %r to hook %r, which counts as deny", reply, hook_name)
    return HookResult(action="deny", reason=f"User denied: {prompt[:_SHOWN_PROMPT_CHARACTERS]}")
