"""Emit events with the ids of their span, and act on hooks' answers.

With a coordinator, persisting injections, showing messages and asking for approval are its job; without one, the gate
persists injections itself and treats a question as denied. Ephemeral injections wait here for the next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amplifier_core.models import HookResult

from .spans import Span


@dataclass(frozen=True, slots=True)
class Injection:
    """Text a hook or the loop itself wants the model to read; an ephemeral one is never stored."""

    content: str
    role: str = "system"
    ephemeral: bool = True
    to_last_tool_result: bool = False


class HookGate:
    """The one way this orchestrator speaks to hooks."""

    def __init__(self, hooks: Any, coordinator: Any | None, context: Any) -> None:
        self._hooks = hooks
        self._coordinator = coordinator
        self._context = context
        self._pending: list[Injection] = []

    def is_heard(self, event: str) -> bool:
        """Return whether a hook handles the event, as far as the registry says so."""
        return bool(getattr(self._hooks, "has_handlers", lambda event: True)(event))

    async def announce(self, event: str, span: Span, data: Mapping[str, Any]) -> None:
        """Emit an event whose answer changes nothing."""
        await self._hooks.emit(event, {**span.fields(), **data})

    async def ask(self, event: str, span: Span, data: Mapping[str, Any]) -> HookResult:
        """Emit an event and return the answer after it was acted on: continue, or deny with a reason.

        Raises:
            ValueError: an injection is larger than the session allows.
        """
        result: HookResult = await self._hooks.emit(event, {**span.fields(), **data})
        if self._coordinator is not None:
            result = await self._coordinator.process_hook_result(result, event, event)
        else:
            result = await self._process(result, event)
        if result.action == "inject_context":
            # Persistent injections are in the context already; older kernels still return them as they came.
            self._pending += [injection for injection in _injections(result) if injection.ephemeral]
        return result

    def remember(self, injection: Injection) -> None:
        """Add the orchestrator's own text to the next request."""
        self._pending.append(injection)

    def take_injections(self) -> list[Injection]:
        """Return the injections for the next request, and forget them."""
        taken, self._pending = self._pending, []
        return taken

    async def _process(self, result: HookResult, event: str) -> HookResult:
        if result.action == "ask_user":
            return HookResult(action="deny", reason="A hook asked for approval, and no person can be asked.")
        if result.action == "inject_context":
            for injection in _injections(result):
                if not injection.ephemeral:
                    metadata = {"source": "hook", "event": event}
                    message = {"role": injection.role, "content": injection.content, "metadata": metadata}
                    await self._context.add_message(message)
        return result


def _injections(result: HookResult) -> list[Injection]:
    """Return the injections of a result, whether it lists them or is one itself."""
    listed = getattr(result, "context_injections", None)
    if listed:
        found = [Injection(item.content, item.role, item.ephemeral, item.append_to_last_tool_result) for item in listed]
    else:
        role, text = result.context_injection_role, result.context_injection or ""
        found = [Injection(text, role, result.ephemeral, result.append_to_last_tool_result)]
    return [injection for injection in found if injection.content]
