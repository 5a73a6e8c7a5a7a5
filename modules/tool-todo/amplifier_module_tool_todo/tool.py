"""The tool `todo`: create, update and list the items.

The list is on the coordinator, as `todo_state`, so that hooks can show it. Every change puts a new list there.
"""

from __future__ import annotations

from typing import Any, ClassVar

from amplifier_core.models import ToolResult

from .settings import Settings
from .todo_list import STATUSES, InvalidTodos, counts, read_todos, stored_todos

_DONE = {"create": "created", "update": "updated", "list": "listed"}


class TodoTool:
    """The list of one session."""

    name = "todo"
    description = (
        "Keep the list of what is left to do in a task of several steps. `create` and `update` take the whole list in "
        "`todos` and put it in the place of the old one; `list` returns it. Mark an item in_progress before you begin "
        "it and completed as soon as it is done; have one item in_progress at a time."
    )
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": list(_DONE), "description": "What to do with the list."},
            "todos": {
                "type": "array",
                "description": "The whole list, for `create` and `update`.",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {"type": "string", "description": "What is to be done: `Run the tests`."},
                        "status": {"type": "string", "enum": list(STATUSES)},
                        "activeForm": {
                            "type": "string",
                            "description": "The same while it is being done: `Running the tests`.",
                        },
                    },
                    "required": ["content", "status"],
                },
            },
        },
        "required": ["action"],
    }

    def __init__(self, coordinator: Any, settings: Settings) -> None:
        self._coordinator = coordinator
        self._settings = settings

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Carry out the input, and return the resulting list; invalid input changes nothing."""
        action = input.get("action") if isinstance(input, dict) else None
        if not isinstance(action, str) or action not in _DONE:
            return _failed(f"`action` must be one of {', '.join(_DONE)}.")
        if action != "list":
            try:
                self._coordinator.todo_state = read_todos(input.get("todos"), self._settings)
            except InvalidTodos as problem:
                return _failed(str(problem))
        todos = stored_todos(getattr(self._coordinator, "todo_state", None))
        output: dict[str, Any] = {"status": _DONE[action], **counts(todos), "todos": todos}
        if output["in_progress"] > 1:
            output["advice"] = f"{output['in_progress']} items are in_progress; keep to one at a time."
        return ToolResult(success=True, output=output)


def _failed(message: str) -> ToolResult:
    return ToolResult(success=False, error={"type": "invalid_input", "message": message})
