"""A task: one prompt for one session, with files and values of its own."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Task(BaseModel):
    """A line of a file of tasks.

    Attributes:
        id: names the task, its folder and its result.
        prompt: what the session is asked; `{{name}}` stands for a value of `vars`.
        files: the files of the task's folder: their paths there, and where they are now, relative to the file of tasks.
        vars: values for the prompt.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str
    prompt: str
    files: dict[str, str] = {}
    vars: dict[str, str] = {}
