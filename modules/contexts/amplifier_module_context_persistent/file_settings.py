"""Where the conversation is kept and how safely, checked once at mount."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from amplifier_module_context_simple import Settings

MODULE: Final = "context-persistent"

Fsync = Literal["always", "close"]

_SESSION = "{session_id}"
_LONGEST = 120  # characters of a session's id in a file's name; those of sub-sessions grow with their depth


class MemorySettings(Settings):
    """The settings of the conversation in memory, which are those of context-simple."""

    module: ClassVar[str] = MODULE


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The path of the file, and when it is synced to the disk.

    `{session_id}` in `path` stands for the session's id. `fsync` is `always`, so that an added message survives a power
    failure, or `close`, which leaves the time to the system.
    """

    path: str = "~/.amplifier/conversations/{session_id}.jsonl"
    fsync: Fsync = "always"

    @classmethod
    def names(cls) -> list[str]:
        """Return the keys of a configuration that are read here."""
        return [field.name for field in fields(cls)]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> FileSettings:
        """Return the settings a mount plan's `config` describes; other keys are read elsewhere.

        Raises:
            ValueError: a value has the wrong shape; the message names it.
        """
        return cls(**{name: config[name] for name in cls.names() if name in config})

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ValueError(f"{MODULE}: `path` must be the name of a file, not {self.path!r}")
        if self.fsync not in get_args(Fsync):
            raise ValueError(f"{MODULE}: `fsync` must be always or close, not {self.fsync!r}")

    def file_of(self, session_id: str, parent_id: str | None, working_dir: Path) -> Path:
        """Return the file of a session: relative paths start at its working folder.

        A sub-session never has the file of its parent: without `{session_id}`, its id is put before the suffix.
        """
        name = _as_name(session_id)
        path = Path(self.path.replace(_SESSION, name)).expanduser()
        if parent_id is not None and _SESSION not in self.path:
            path = path.with_name(f"{path.stem}.{name}{path.suffix}")
        return working_dir / path


def _as_name(session_id: str) -> str:
    """Return a session's id as part of a file's name, different for different ids."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", session_id)[:_LONGEST]
    if name == session_id:
        return name
    return f"{name}-{hashlib.sha256(session_id.encode()).hexdigest()[:8]}"
