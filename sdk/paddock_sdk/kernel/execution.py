"""Two steps of a session's turn, for code outside of one.

They do the same as the session classes, given a coordinator instead of a session.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from paddock_sdk.kernel.redaction import redact_secrets

if TYPE_CHECKING:
    from paddock_sdk.kernel.coordinator import ModuleCoordinator

_CONFIG_EVENT = "session:config"


async def run_orchestrator(coordinator: ModuleCoordinator, prompt: str) -> Any:
    """Return the mounted orchestrator's answer to a prompt.

    Raises:
        RuntimeError: no orchestrator or no context manager is mounted.
    """
    orchestrator = coordinator.get("orchestrator")
    if orchestrator is None:
        raise RuntimeError("No orchestrator mounted")
    context = coordinator.get("context")
    if context is None:
        raise RuntimeError("No context manager mounted")
    execute = orchestrator.execute
    return await execute(
        prompt=prompt,
        context=context,
        providers=_mapping(coordinator.get("providers")),
        tools=_mapping(coordinator.get("tools")),
        hooks=coordinator.hooks,
        **coordinator_for(execute, coordinator),
    )


def coordinator_for(execute: Callable[..., Any], coordinator: Any) -> dict[str, Any]:
    """Return the coordinator as an orchestrator's `execute` is passed it, which the contract's first edition is not."""
    return {"coordinator": coordinator} if takes_keyword(execute, "coordinator") else {}


def _mapping(mounted: Any) -> Any:
    # The live dict itself, also while it is empty: an orchestrator sees later mounts.
    return {} if mounted is None else mounted


async def emit_raw_field_if_configured(
    coordinator: ModuleCoordinator, config: Mapping[str, Any], session_id: str, event_base: str
) -> None:
    """Emit the configuration without its secrets, if it has `session.raw` set.

    `event_base` is the event that it goes with; its own name is the same for all.
    """
    session = config.get("session")
    if isinstance(session, Mapping) and session.get("raw"):
        await coordinator.hooks.emit(_CONFIG_EVENT, {"session_id": session_id, "raw": redact_secrets(dict(config))})


def takes_keyword(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function accepts `name=`; one with unreadable parameters is assumed to.

    Editions of the contract pass different ones.
    """
    try:
        taken = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = taken.get(name)
    if named is not None and named.kind in keyword:
        return True
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
