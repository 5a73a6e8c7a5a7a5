"""The configuration of the status, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from amplifier_core import events

EVENTS = (events.PROMPT_SUBMIT, events.PROVIDER_REQUEST)
FACTS = ("date", "working_dir", "platform", "git")


@dataclass(frozen=True, slots=True)
class Settings:
    """The facts that the model gets, when, and how much of git.

    `max_status_lines` bounds the shown changed files, `git_timeout` (seconds) the time of git: in a large repository it
    takes long, and the prompt waits for it.
    """

    event: str = events.PROMPT_SUBMIT
    include: tuple[str, ...] = ("date", "working_dir", "git")
    max_status_lines: int = 20
    git_timeout: float = 5.0
    priority: int = 10

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings that a mount plan's `config` describes.

        Raises:
            ValueError: a key is unknown, or its value is not one that it takes.
        """
        known = [field.name for field in fields(cls)]
        for key in config:
            if key not in known:
                raise ValueError(f"hooks-status-context: there is no setting `{key}`; there are {', '.join(known)}")
        given = dict(config)
        if isinstance(given.get("include"), list):
            given["include"] = tuple(given["include"])
        settings = cls(**given)
        settings._check()
        return settings

    def _check(self) -> None:
        if self.event not in EVENTS:
            raise _wrong("event", f"one of {', '.join(EVENTS)}", self.event)
        if not isinstance(self.include, tuple) or not all(fact in FACTS for fact in self.include):
            raise _wrong("include", f"a list of some of {', '.join(FACTS)}", self.include)
        if not _is_number(self.max_status_lines, int) or self.max_status_lines < 0:
            raise _wrong("max_status_lines", "a whole number, 0 or more", self.max_status_lines)
        if not _is_number(self.git_timeout, int, float) or not 0 < self.git_timeout <= 25:
            # Below the host's limit for a hook's answer to one event, usually half a minute.
            raise _wrong("git_timeout", "a number of seconds above 0, 25 at most", self.git_timeout)
        if not _is_number(self.priority, int):
            raise _wrong("priority", "a whole number", self.priority)


def _is_number(value: Any, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _wrong(key: str, accepted: str, value: Any) -> ValueError:
    return ValueError(f"hooks-status-context: `{key}` must be {accepted}, not {value!r}")
