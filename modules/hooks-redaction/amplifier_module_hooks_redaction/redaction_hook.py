"""Pass an event's data without secrets and personal data to later hooks, and to the emitter.

If the data cannot be searched, only its ids are passed on: unchecked data is not shown. Modules may announce events of
their own until the session begins, so the list of events is completed then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from amplifier_core import events
from amplifier_core.models import HookResult

from .redactor import Redactor
from .settings import Settings

logger = logging.getLogger(__name__)

# Bounds on announced events, so that no module can keep this hook from an event: a host registers each handler by
# itself, and accepts no longer names.
_MAX_EVENTS = 500
_MAX_NAME = 200

NAME = "hooks-redaction"
_ANNOUNCEMENTS = "observability.events"  # the capability and the contribution channel share the name
_BEGINNINGS = (events.SESSION_START, events.SESSION_RESUME, events.SESSION_FORK)
_KEPT_ON_FAILURE = ("session_id", "parent_id", "turn_id", "timestamp")


class RedactionHook:
    """The hook: one handler registered for every selected event that is known."""

    def __init__(self, coordinator: Any, settings: Settings) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._redactor = Redactor(settings.found, settings.allow)
        self._registered: dict[str, Callable[[], None]] = {}

    async def start(self) -> None:
        """Register for the known events, and for the session's beginning, which completes the list."""
        for event in (*_BEGINNINGS, *self._settings.plain_names, *events.ALL_EVENTS):
            if event in _BEGINNINGS or self._settings.wants(event):
                self._register(event)
        await self._discover()

    async def handle(self, event: str, data: Any) -> HookResult:
        """Return `modify` with the redacted data, or `continue` if there was nothing to redact."""
        if event in _BEGINNINGS:
            await self._discover()
        if not self._settings.wants(event) or not isinstance(data, Mapping):
            return HookResult(action="continue")
        try:
            redacted = self._redactor.event(data)
        except Exception as problem:
            # Not the problem's text, which may contain the secret.
            logger.error(
                "hooks-redaction: cannot go through %s, and keeps its data back: %s", event, type(problem).__name__
            )
            kept = {key: data[key] for key in _KEPT_ON_FAILURE if key in data}
            redacted = {**kept, "redaction_error": type(problem).__name__}
        if redacted == data:
            return HookResult(action="continue")
        return HookResult(action="modify", data=redacted)

    def close(self) -> None:
        """Stop. May be called again."""
        registered, self._registered = self._registered, {}
        for unregister in registered.values():
            unregister()

    async def _discover(self) -> None:
        """Register for the events that other modules announced."""
        try:
            lookup = getattr(self._coordinator, "get_capability", None)
            announced = list(_names(lookup(_ANNOUNCEMENTS)) if lookup is not None else ())
            collect = getattr(self._coordinator, "collect_contributions", None)
            for contribution in (await collect(_ANNOUNCEMENTS)) if collect is not None else ():
                announced += _names(contribution)
        except Exception:
            logger.warning("hooks-redaction: cannot ask the modules for their own events", exc_info=True)
            return
        new = dict.fromkeys(
            event for event in announced if event not in self._registered and self._settings.wants(event)
        )
        room = max(0, _MAX_EVENTS - len(self._registered))
        for event in list(new)[:room]:
            self._register(event)
        if len(new) > room:
            logger.warning(
                "hooks-redaction: modules announce %d events too many, which are not redacted; "
                "name those that matter in `events`",
                len(new) - room,
            )

    def _register(self, event: str) -> None:
        if event not in self._registered:
            register = self._coordinator.hooks.register
            self._registered[event] = register(event, self.handle, priority=self._settings.priority, name=NAME)


def _names(announced: Any) -> Iterable[str]:
    if isinstance(announced, str):
        announced = [announced]
    if isinstance(announced, list | tuple | set | frozenset):
        return [name for name in announced if isinstance(name, str) and 0 < len(name) <= _MAX_NAME]
    return ()
