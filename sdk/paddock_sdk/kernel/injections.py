"""Fold the context injections of several handlers into the one result their emitter sees.

The list `context_injections` is complete, one item per injection with the handler and event it came from; the scalar
fields are for older orchestrators. Origins are written here and never taken from a handler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paddock_sdk.contract.models import ContextInjection, HookResult

INJECTION_SEPARATOR: Final = "\n\n"


def carries_injection(result: HookResult) -> bool:
    """Return whether an `inject_context` result holds anything to inject; an empty text counts."""
    return result.context_injection is not None or bool(result.context_injections)


def merged_injections(collected: list[tuple[str, HookResult]], event: str) -> HookResult:
    """Return one `inject_context` result for (handler name, result) pairs in the order they answered.

    A single result keeps its fields, and gets the list; of several, only the fields about injections are kept.
    """
    from paddock_sdk.contract.models import HookResult

    if len(collected) == 1:
        name, only = collected[0]
        items = _items(only, name, event)
        derived = scalar_fields(items) if only.context_injections else {}
        return only.model_copy(update={"context_injections": items, **derived})

    items = [item for name, result in collected for item in _items(result, name, event)]
    return HookResult(
        action="inject_context",
        suppress_output=collected[0][1].suppress_output,
        context_injections=items,
        **scalar_fields(items),
    )


def scalar_fields(items: list[ContextInjection]) -> dict[str, Any]:
    """Return the scalar fields that describe a whole list as far as possible; the list is not empty."""
    return {
        "context_injection": INJECTION_SEPARATOR.join(item.content for item in items),
        "context_injection_role": items[0].role,
        "ephemeral": any(item.ephemeral for item in items),
        "append_to_last_tool_result": any(item.append_to_last_tool_result for item in items),
    }


def _items(result: HookResult, name: str, event: str) -> list[ContextInjection]:
    if result.context_injections:
        return [item.model_copy(update={"hook_name": name, "event": event}) for item in result.context_injections]
    return [injection_of(result, name, event)]


def injection_of(result: HookResult, name: str, event: str) -> ContextInjection:
    """Return the injection in the scalar fields of a hook's result."""
    from paddock_sdk.contract.models import ContextInjection

    return ContextInjection(
        content=result.context_injection or "",
        role=result.context_injection_role,
        ephemeral=result.ephemeral,
        append_to_last_tool_result=result.append_to_last_tool_result,
        hook_name=name,
        event=event,
    )
