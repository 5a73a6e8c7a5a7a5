"""Show the model the open items of the todo list, now and then.

The list is `coordinator.todo_state`, as the todo tool keeps it. A model that has just changed the list knows it. So a
reminder comes with the first request of a prompt, and then after every so many requests without a change. It is
ephemeral: it goes into that one request and is not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_core import events
from amplifier_core.models import HookResult

from .settings import Settings

NAME = "hooks-todo-reminder"
_MAX_CHARACTERS = 200  # of an item; a reminder is a line, the whole text is in the list
_OPEN = {"in_progress": "activeForm", "pending": "content"}  # the statuses shown, and which text of an item for each


class TodoReminder:
    """The reminders of one session."""

    def __init__(self, coordinator: Any, settings: Settings) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._is_first_request = True
        self._unchanged_requests = 0
        self._seen: list[Any] = []

    def start(self) -> Callable[[], None]:
        """Register the handlers; return a function that takes them away."""
        register = self._coordinator.hooks.register
        priority = self._settings.priority
        registered = (
            register(events.PROMPT_SUBMIT, self.on_prompt, priority=priority, name=NAME),
            register(events.PROVIDER_REQUEST, self.on_request, priority=priority, name=NAME),
        )

        def stop() -> None:
            for unregister in registered:
                unregister()

        return stop

    async def on_prompt(self, event: str, data: Any) -> HookResult:
        """Note that a prompt begins."""
        self._is_first_request = True
        return HookResult(action="continue")

    async def on_request(self, event: str, data: Any) -> HookResult:
        """Inject the reminder, if there are open items and it is time."""
        state = getattr(self._coordinator, "todo_state", None)
        todos = [item for item in state if isinstance(item, dict)] if isinstance(state, list) else []
        if not self._is_due(todos):
            return HookResult(action="continue")
        text = reminder_of(todos, self._settings.max_items)
        if not text:
            return HookResult(action="continue")
        return HookResult(
            action="inject_context",
            context_injection=text,
            context_injection_role="user",
            ephemeral=True,
            suppress_output=True,
        )

    def _is_due(self, todos: list[Any]) -> bool:
        changed, self._seen = todos != self._seen, todos
        is_first, self._is_first_request = self._is_first_request, False
        self._unchanged_requests = 0 if changed or is_first else self._unchanged_requests + 1
        if is_first:
            return True
        if self._unchanged_requests < self._settings.every:
            return False
        self._unchanged_requests = 0
        return True


def reminder_of(todos: list[dict[str, Any]], max_items: int) -> str:
    """Return the reminder for a list, empty where no item is open."""
    # Those in progress first: the model should go on with them.
    lines = [
        f"- [{status.replace('_', ' ')}] {_line(item.get(text) or item.get('content') or '(no text)')}"
        for status, text in _OPEN.items()
        for item in todos
        if item.get("status") == status
    ]
    if not lines:
        return ""
    more = len(lines) - max_items
    shown = lines[:max_items] + ([f"- … and {more} more; `todo` with action `list` shows all"] if more > 0 else [])
    return "\n".join(
        [
            f"Reminder of the todo list, added automatically and not by the person: {len(lines)} of {len(todos)} open.",
            *shown,
            "Go on with them, and keep the list up to date with the `todo` tool. If they no longer matter, clear them.",
        ]
    )


def _line(text: Any) -> str:
    """Return a text of the list as one line that can be printed."""
    words = " ".join(str(text).split())
    line = "".join(character if character.isprintable() else "�" for character in words)
    return line if len(line) <= _MAX_CHARACTERS else f"{line[:_MAX_CHARACTERS]}…"
