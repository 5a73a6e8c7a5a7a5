"""The configuration of the log, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

Detail = Literal["names", "summary", "full"]

_LEAST_LINE = 4096  # bytes; the longest a line gets once its data is left out


@dataclass(frozen=True, slots=True)
class Settings:
    """Where to log, which events, and how much of each.

    `events` are names or patterns (`tool:*`). `detail` is `names` (no data), `summary` (long texts cut) or `full`; none
    of them lets a line grow beyond `max_line_bytes`. The file is renamed before it exceeds `max_file_bytes`;
    `max_files` are kept, including the current one. Handlers of lower `priority` run earlier.
    """

    path: str = "./session.jsonl"
    events: tuple[str, ...] = ("*",)
    detail: Detail = "summary"
    max_line_bytes: int = 65_536
    max_file_bytes: int = 10_485_760
    max_files: int = 5
    priority: int = 100

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings a mount plan's `config` describes.

        Raises:
            ValueError: a key is unknown, or a value has the wrong shape; the message names it.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(str(key) for key in config if key not in known)
        if unknown:
            raise ValueError(f"hooks-logging: there is no setting `{unknown[0]}`; there are {', '.join(known)}")
        given = dict(config)
        if isinstance(given.get("events"), list):
            given["events"] = tuple(given["events"])
        return cls(**given)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ValueError(f"hooks-logging: `path` must be the name of a file, not {self.path!r}")
        if not isinstance(self.events, tuple) or not all(isinstance(name, str) and name for name in self.events):
            raise ValueError(f"hooks-logging: `events` must be a list of names or patterns, not {self.events!r}")
        if self.detail not in get_args(Detail):
            raise ValueError(f"hooks-logging: `detail` must be names, summary or full, not {self.detail!r}")
        for name, least in (
            ("max_line_bytes", _LEAST_LINE),
            ("max_file_bytes", _LEAST_LINE),
            ("max_files", 1),
            ("priority", None),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
                bound = "" if least is None else f", {least} or more"
                raise ValueError(f"hooks-logging: `{name}` must be a whole number{bound}, not {value!r}")

    @property
    def plain_names(self) -> list[str]:
        """The events selected by name, known or not."""
        return [name for name in self.events if not any(character in name for character in "*?[")]

    def wants(self, event: str) -> bool:
        """Return whether the event must be logged."""
        return any(fnmatchcase(event, pattern) for pattern in self.events)
