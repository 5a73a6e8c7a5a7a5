"""Have a session's context tell the model the plan's instruction, as it was read when the session was made.

The context asks the host for it at each request, by the contract's factory of the system prompt, so that it is no part
of the stored conversation. A context without one gets it as a message, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio

from paddock.errors import PlanError, PlanProblem
from paddock.plan.model import MountPlan
from paddock.session.hosted_session import HostedSession
from paddock_sdk.kernel.coordinator import ModuleCoordinator

_PATIENCE: Final = 5.0  # seconds for a provider to name its window
_CHARACTERS_OF_TOKEN: Final = 4  # about


async def give_instruction(session: HostedSession) -> None:
    """Give a session's instruction, if it has one, to its context.

    Raises:
        PlanError: it leaves less than half of the model's window to the conversation.
    """
    coordinator, text = session.coordinator, session.instruction
    if not text:
        return
    problem = await over_half_a_window(coordinator, text)
    if problem:
        raise PlanError([PlanProblem("session.instruction", problem, "shorten it, or mention fewer files")])

    async def factory() -> str:
        return text

    context = coordinator.get("context")
    take_factory = getattr(context, "set_system_prompt_factory", None)
    if take_factory is not None:
        await take_factory(factory)
    elif (message := {"role": "system", "content": text}) not in await context.get_messages():
        await context.add_message(message)


async def over_half_a_window(coordinator: ModuleCoordinator, text: str) -> str:
    """Return that a text is larger than half of the window of the provider that loops ask; empty if it is not.

    A provider that does not name its window sets no bound.
    """
    window: Any = None
    provider = preferred_provider(coordinator)
    if provider is not None:
        with anyio.move_on_after(_PATIENCE):
            try:
                window = (await provider.get_info()).defaults["context_window"]
            except Exception:  # the module's own, also of a shape that the contract does not have
                window = None
    tokens = len(text) // _CHARACTERS_OF_TOKEN
    if not isinstance(window, int) or tokens <= window // 2:
        return ""
    return f"takes about {tokens} tokens, more than half of the model's window of {window}"


def preferred_provider(coordinator: ModuleCoordinator) -> Any:
    """Return the provider that loops ask, that with the lowest `priority`, the first one of several; None without."""
    providers: Mapping[str, Any] = coordinator.get("providers") or {}
    return min(providers.values(), key=_priority, default=None)


def _priority(provider: Any) -> float:
    value = getattr(provider, "priority", None)
    return value if isinstance(value, int | float) else 100


def changes_of_instruction(told: MountPlan, read: Callable[[], MountPlan]) -> tuple[str, ...]:
    """Return, for people, which files of a told instruction have other text, or none, when they are `read`; blocks."""
    before = dict(zip(told.instruction.files, told.instruction.texts, strict=True))
    try:
        after = dict(zip((now := read().instruction).files, now.texts, strict=True))
    except PlanError:  # the file of it is gone, which the next session reports
        after = {name: text for name, text in before.items() if name != told.instruction.file}
    files = ", ".join(name for name in {**before, **after} if before.get(name) != after.get(name))
    said = f"the instruction changed during the session, in {files}: the change counts from the next session on"
    return (said,) if files else ()
