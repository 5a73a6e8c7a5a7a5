"""The configuration of the context, checked once at mount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from .tokens import AUTO, TOKENIZERS


@dataclass(frozen=True, slots=True)
class Settings:
    """When to leave things out of a request, and how much.

    Sizes are in tokens, counted by `tokenizer`. `max_tokens` is the budget where neither the caller nor the provider
    names one. Compaction starts above `compaction_threshold` of the budget and aims at `compaction_target` of it, so
    that it is not needed again at once. `keep_recent_turns` exchanges at the end stay whole as long as that is
    possible. `safety_margin` covers what the estimate misses. `tool_result_max_chars` is what a shortened tool result
    keeps. `module` is named in messages; a module that builds on this one has its own.
    """

    module: ClassVar[str] = "context-simple"

    max_tokens: int = 100_000
    compaction_threshold: float = 0.8
    compaction_target: float = 0.6
    keep_recent_turns: int = 3
    safety_margin: int = 1_000
    tool_result_max_chars: int = 500
    tokenizer: str = AUTO

    @classmethod
    def of(cls, config: Mapping[str, Any], *, others: Sequence[str] = ()) -> Settings:
        """Return the settings a mount plan's `config` describes; `others` are keys that are read elsewhere.

        Raises:
            ValueError: a key is unknown, or a value has the wrong shape; the message names it.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(str(key) for key in config if key not in known and key not in others)
        if unknown:
            raise ValueError(
                f"{cls.module}: there is no setting `{unknown[0]}`; there are {', '.join(sorted([*known, *others]))}"
            )
        return cls(**{name: value for name, value in config.items() if name in known})

    def __post_init__(self) -> None:
        for name, least in (
            ("max_tokens", 1),
            ("keep_recent_turns", 1),
            ("safety_margin", 0),
            ("tool_result_max_chars", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{self.module}: `{name}` must be a whole number, {least} or more, not {value!r}")
        for name in ("compaction_threshold", "compaction_target"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
                raise ValueError(f"{self.module}: `{name}` must be above 0 and at most 1, not {value!r}")
        if self.tokenizer not in TOKENIZERS:
            raise ValueError(
                f"{self.module}: `tokenizer` must be one of {', '.join(TOKENIZERS)}, not {self.tokenizer!r}"
            )
        if self.compaction_target > self.compaction_threshold:
            # A threshold lowered on its own brings the target down with it.
            object.__setattr__(self, "compaction_target", self.compaction_threshold)
