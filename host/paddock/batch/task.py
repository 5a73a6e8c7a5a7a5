"""A task: one prompt for one session, with files and values of its own."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

OWN: Final = ".paddock"
"""The folder in a task's results that is Paddock's own; no file of the task has such a name."""

_VARIABLE: Final = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", re.ASCII)
_ID_MAX: Final = 128  # characters
_PROMPT_MAX: Final = 4 << 20  # characters: four bytes each fit into a frame
_FILES_MAX: Final = 1000


def _checked_id(id: str) -> str:
    if id.endswith(".jsonl"):
        raise ValueError("files of the run end in `.jsonl`; name the task otherwise")
    return id


def _checked_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ValueError("name a file in or below the folder, without `..` and not from the root")
    if parts[0] == OWN:
        raise ValueError(f"`{OWN}` is Paddock's own; name the file otherwise")
    return str(PurePosixPath(path))


TaskId = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=_ID_MAX), AfterValidator(_checked_id)
]
_Prompt = Annotated[str, StringConstraints(pattern=r"\S", max_length=_PROMPT_MAX)]
_FilePath = Annotated[str, StringConstraints(max_length=4096), AfterValidator(_checked_path)]


class Task(BaseModel):
    """A line of a file of tasks.

    Attributes:
        id: names the task, its folder and its result.
        prompt: what the session is asked; `{{name}}` stands for a value of `vars`.
        files: the files of the task's folder: their paths there, and where they are now, relative to the file of tasks.
        vars: values for the prompt.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    id: TaskId
    prompt: _Prompt
    files: Annotated[dict[_FilePath, _FilePath], Field(max_length=_FILES_MAX)] = {}
    vars: dict[str, str] = {}

    @property
    def asked(self) -> str:
        """The prompt with its values. One of a task without `vars` is taken as it is written."""
        return _VARIABLE.sub(lambda found: self.vars[found[1]], self.prompt) if self.vars else self.prompt

    @model_validator(mode="after")
    def _has_its_values(self) -> Self:
        names = _VARIABLE.findall(self.prompt) if self.vars else []
        for name in names:
            if name not in self.vars:
                itself = f"{{{{{name}}}}}"
                raise ValueError(f"the prompt has `{itself}`, and `vars` has no `{name}`")
        if len(self.prompt) + sum(len(self.vars[name]) for name in names) > _PROMPT_MAX:
            raise ValueError(f"with its values the prompt has more than {_PROMPT_MAX} characters; use `files`")
        return self
