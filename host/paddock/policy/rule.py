"""What a decision rests on: rules, as somebody wrote them, with the file and line they stand on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from paddock.plan.source_map import Location

__all__ = ["BUILT_IN", "ConsultedRule", "Location", "Rule", "written_list"]

BUILT_IN: Final = Location("built in")
"""Where the rules are that nobody had to write."""

_MAX_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it is written at `place`, or in words where none had to be."""

    location: Location
    text: str

    def describe(self) -> str:
        """Return it as one line of text."""
        return f"{self.location.text}: {self.text}"


@dataclass(frozen=True, slots=True)
class ConsultedRule:
    """A rule that was looked at on the way to a decision, and what it came to."""

    rule: Rule
    outcome: str


def written_list(values: Iterable[object]) -> str:
    """Return a list as a rule has it, cut where it goes on for long."""
    texts = [f'"{value}"' for value in values]
    rest = len(texts) - _MAX_SHOWN
    return f"[{', '.join(texts[:_MAX_SHOWN])}{f', and {rest} more' if rest > 0 else ''}]"
