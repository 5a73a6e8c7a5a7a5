"""What became of a task: one line of JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Status = Literal["done", "failed", "lost"]
"""`failed`: the session ended with an error. `lost`: its place is gone, and it may have acted."""


class TaskResult(BaseModel):
    """The one result of a task.

    Attributes:
        id: the task's.
        attempt: which one this is, counted from 1.
        node: the name of the place that it ran at.
        status: what became of it.
        response: the answer of the turn.
        error: why there is none: `type` and `message`.
        modules: the status of each module, as `paddock run --json` has it.
        usage: what the providers counted: tokens of input and output.
        repeatable: whether nothing acted outside the task's folder, so that it can run again unseen.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    attempt: int
    node: str
    status: Status
    response: str | None = None
    error: dict[str, Any] | None = None
    modules: list[dict[str, Any]] = []
    usage: dict[str, int] = {}
    repeatable: bool = True
