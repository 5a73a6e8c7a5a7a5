"""A module's preference for the provider and model of a sub-session that it starts.

A module chooses among the providers of the session. It can set a provider's model and the parts of its configuration
that shape answers. The destination of requests and their key are up to the plan.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from paddock.plan.model import ModuleEntry

_log = logging.getLogger(__name__)

TUNING: Final = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "max_output_tokens",
        "reasoning_effort",
        "reasoning",
        "thinking_budget",
        "thinking_budget_tokens",
        "verbosity",
    }
)
_PATTERN: Final = frozenset("*?[")  # of models: which there are only the provider knows, so that it takes its own
_MAX_TEXT: Final = 1000  # characters of each; the host keeps them with the session
_FIRST: Final = 0  # as priority; the lowest is asked first


@dataclass(frozen=True, slots=True)
class ProviderWish:
    """One wish of several, the most wanted first."""

    provider: str
    model: str
    config: Mapping[str, Any]

    @classmethod
    def read(cls, written: object) -> Self:
        """Return the wish in a table, or in an object with such attributes.

        Raises:
            ValueError: it is no such thing.
        """
        values = [
            written.get(key) if isinstance(written, Mapping) else getattr(written, key, None)
            for key in ("provider", "model", "config")
        ]
        match values:
            case [str() as provider, (None | str()) as model, (None | Mapping()) as config]:
                preference = cls(provider, model or "", config or {})
                if any(isinstance(text, str) and len(text) > _MAX_TEXT for text in preference.overrides.values()):
                    raise ValueError(f"a provider preference has texts of {_MAX_TEXT} characters at most")
                return preference
        raise ValueError("a provider preference names a `provider` and a `model`, and may have a table `config`")

    def is_of(self, entry: ModuleEntry) -> bool:
        """Whether the wish names an entry's provider."""
        return self.provider in (entry.instance_id, entry.module, entry.module.removeprefix("provider-"))

    @property
    def overrides(self) -> dict[str, Any]:
        """Return the overrides for the configuration of the named provider."""
        tuning = {
            key: value
            for key, value in self.config.items()
            if key in TUNING and isinstance(value, (str, int, float, bool))
        }
        model = {"default_model": self.model} if self.model and not _PATTERN & set(self.model) else {}
        return {**tuning, **model, "priority": _FIRST}


def preferred(
    providers: Sequence[ModuleEntry], preferences: Iterable[ProviderWish]
) -> tuple[ModuleEntry, dict[str, Any]] | None:
    """Return the most wanted of the available providers, with the overrides of its configuration, if any is wanted."""
    wanted = list(preferences)
    for preference in wanted:
        for entry in providers:
            if preference.is_of(entry):
                return entry, preference.overrides
    if wanted:
        _log.warning("none of the wanted providers is in the plan: %s", ", ".join(one.provider for one in wanted))
    return None
