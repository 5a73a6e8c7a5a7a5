"""What became of a task: one line of JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Status = Literal["done", "failed", "lost"]
"""`failed`: the session ended with an error. `lost`: its place is gone, and it may have acted."""


class Act(BaseModel):
    """The first call of a module, in one attempt, that could act outside the task's folder."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    attempt: int
    module: str
    tool: str


class TaskResult(BaseModel):
    """The one result of a task. A place leaves `repeatable` and `acted` to the run, which has the ledger.

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
        acted: what may have acted there, of all attempts: one with an earlier attempt's says that it was repeated.
        notes: for people, which files of the task's folder were not taken, and why.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    id: str
    attempt: int
    node: str
    status: Status
    response: str | None = None
    error: dict[str, Any] | None = None
    modules: list[dict[str, Any]] = []
    usage: dict[str, int] = {}
    repeatable: bool = True
    acted: list[Act] = []
    notes: list[str] = []
