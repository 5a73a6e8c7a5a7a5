"""The list as plain data, `[{"content", "status", "activeForm"}, …]`: read a model's list, and count it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from .settings import Settings

STATUSES = ("pending", "in_progress", "completed")

Item = dict[str, str]


class InvalidTodos(ValueError):
    """Raised for an invalid list; its text names the item and the accepted values, for the model."""


def read_todos(given: Any, settings: Settings) -> list[Item]:
    """Return a model's list, each item with all its keys.

    An item without a status is pending; without an `activeForm`, its content stands for it. Other keys are left out.

    Raises:
        InvalidTodos: it is no list of items, or larger than the settings allow.
    """
    if not isinstance(given, list | tuple):
        raise InvalidTodos('`todos` must be the whole list: [{"content": "…", "status": "pending"}, …].')
    if len(given) > settings.max_items:
        raise InvalidTodos(
            f"`todos` has {len(given)} items, and the list holds {settings.max_items}: put several into one item."
        )
    return [_item(item, f"todos[{number}]", settings) for number, item in enumerate(given)]


def stored_todos(state: Any) -> list[Item]:
    """Return the valid items of the stored list: any module may have written it."""
    if not isinstance(state, list):
        return []
    return [item for item in state if isinstance(item, dict) and item.get("status") in STATUSES]


def counts(todos: list[Item]) -> dict[str, int]:
    """Return how many items there are, and how many in each status."""
    by_status = Counter(item["status"] for item in todos)
    return {"count": len(todos), **{status: by_status[status] for status in STATUSES}}


def _item(given: Any, place: str, settings: Settings) -> Item:
    if not isinstance(given, Mapping):
        raise InvalidTodos(f"`{place}` must be an object with `content` and `status`.")
    content = _text(given.get("content"), f"{place}.content", settings)
    status = given.get("status", "pending")
    if status not in STATUSES:
        raise InvalidTodos(f"`{place}.status` must be one of {', '.join(STATUSES)}.")
    active = given.get("activeForm")
    active_form = content if active in (None, "") else _text(active, f"{place}.activeForm", settings)
    return {"content": content, "status": status, "activeForm": active_form}


def _text(value: Any, place: str, settings: Settings) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidTodos(f"`{place}` must be a text that is not empty.")
    if len(value) > settings.max_characters:
        raise InvalidTodos(f"`{place}` has {len(value)} characters; {settings.max_characters} are accepted.")
    return value
