"""Mount a hook that replaces secrets and personal data in events before other hooks see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .redaction_hook import RedactionHook
from .redactor import Redactor
from .settings import Settings

__all__ = ["RedactionHook", "Redactor", "Settings", "mount"]
__amplifier_module_type__ = "hook"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], None]:
    """Register for the configured events; return a function that stops the redaction.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    hook = RedactionHook(coordinator, Settings.of(config or {}))
    await hook.start()
    return hook.close
