"""The configuration of the redaction, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from .patterns import OTHERS, PII, SECRETS
from .redactor import NAMED

_GROUPS = {"secrets": (*SECRETS, NAMED), "pii": tuple(PII)}
_NAMES = (*_GROUPS, *_GROUPS["secrets"], *_GROUPS["pii"], *OTHERS)


@dataclass(frozen=True, slots=True)
class Settings:
    """The categories to replace, the events, and the order among other hooks.

    `categories` are names of categories or of the groups `secrets` and `pii`. `allow` are values to leave, exactly or
    with `*` and `?`. Events are those that `events` names and `skip_events` does not, by name or pattern. Handlers of
    lower `priority` run earlier.
    """

    categories: tuple[str, ...] = ("secrets", "pii")
    allow: tuple[str, ...] = ()
    events: tuple[str, ...] = ("*",)
    skip_events: tuple[str, ...] = ("tool:pre",)
    priority: int = -100

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return the settings a mount plan's `config` describes.

        Raises:
            ValueError: a key is unknown, or a value has the wrong shape; the message names it.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(str(key) for key in config if key not in known)
        if unknown:
            raise ValueError(f"hooks-redaction: there is no setting `{unknown[0]}`; there are {', '.join(known)}")
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in config.items()
        }
        return cls(**given)

    def __post_init__(self) -> None:
        for name in ("categories", "allow", "events", "skip_events"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(item, str) and item for item in value):
                raise ValueError(f"hooks-redaction: `{name}` must be a list of texts, not {value!r}")
        strange = [name for name in self.categories if name not in _NAMES]
        if strange:
            raise ValueError(f"hooks-redaction: `categories` has {strange[0]!r}, which is none of {', '.join(_NAMES)}")
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise ValueError(f"hooks-redaction: `priority` must be a whole number, not {self.priority!r}")

    @property
    def found(self) -> tuple[str, ...]:
        """The categories to replace, groups taken apart."""
        return tuple(one for name in self.categories for one in _GROUPS.get(name, (name,)))

    @property
    def plain_names(self) -> list[str]:
        """The events selected by name, known or not."""
        return [name for name in self.events if not any(character in name for character in "*?[")]

    def wants(self, event: str) -> bool:
        """Return whether the event must be redacted."""
        return _is_one_of(event, self.events) and not _is_one_of(event, self.skip_events)


def _is_one_of(event: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(event, pattern) for pattern in patterns)
