"""What is done to a session, drawn from a seed: the same acts at the same moments each time.

All acts lie in one deck, which is shuffled for each seed and dealt to its steps; a longer session shuffles it again. So
four seeds of ten steps do every act of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

FRAME: Final = "frame"  # the moment at which the host reads from a module
MODULES: Final = ("context", "provider", "tool", "orchestrator", "hook")

# What is done, to what, and how often it is in the deck.
_DECK: Final = (
    *(("kill", kind, 1) for kind in MODULES),
    *(("stop", kind, 1) for kind in MODULES),
    *(("garbage", kind, 1) for kind in MODULES),
    *(("slow", kind, 1) for kind in MODULES),
    ("cancel", "the turn", 1),
    ("cancel at once", "the turn", 1),
    ("abandon", "the turn", 1),
    ("second", "host", 1),
    ("jump", "clock", 1),
    ("quarantine and lift", "tool", 1),
    ("revoke", "tool", 1),
    ("revoke", "hook", 1),
    ("fill the disk", "journal", 1),
    ("fill the disk", "audit", 1),
    ("kill", "host", 4),
)
# At which moments of a turn, and how many of each every turn has.
_MOMENTS: Final = (
    ("prompt:submit", 1),
    ("provider:request", 3),
    ("provider:response", 3),
    ("tool:pre", 4),
    ("tool:post", 4),
    (FRAME, 60),
    (FRAME, 60),
)
_SHUFFLE: Final = "deck 187198 of seed"  # the first four seeds do every act in their first ten steps
_LOOPS: Final = ("loop-basic", "loop-streaming", "loop-events")
_CONTEXTS: Final = ("context-simple", "context-simple", "context-persistent")


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that is done, at the `count`th of such a moment in a turn; what `amount` is for depends on the act."""

    name: str
    target: str
    moment: str
    count: int
    amount: int

    def __str__(self) -> str:
        return f"{self.name} {self.target} at {self.moment} {self.count}"


@dataclass(frozen=True, slots=True)
class Script:
    """The session of a seed: its modules, whether a policy requires its journal, and an act for each step."""

    seed: int
    loop: str
    context: str
    is_required: bool
    acts: tuple[Act, ...]

    @classmethod
    def of(cls, seed: int, steps: int) -> Script:
        """Return the session of so many steps; a shorter one begins as a longer one does."""
        draw = random.Random(f"{_SHUFFLE} {seed}")
        setting = draw.choice(_LOOPS), draw.choice(_CONTEXTS), draw.random() < 0.5
        return cls(seed, *setting, tuple(islice(_dealt(draw), steps)))

    def told(self, steps: int) -> str:
        """Return, in a line, what is done in the first steps."""
        setting = f"{self.loop}, {self.context}{', its journal required' if self.is_required else ''}"
        return f"seed {self.seed} ({setting}): {'; '.join(map(str, self.acts[:steps]))}"


def _dealt(draw: random.Random) -> Iterator[Act]:
    deck = [(name, target) for name, target, times in _DECK for _ in range(times)]
    while True:
        draw.shuffle(deck)
        for name, target in deck:
            moment, most = draw.choice(_MOMENTS)
            if name == "quarantine and lift":
                moment, most = "tool:pre", 1  # each of a turn's four calls costs a life of the tool
            yield Act(name, target, moment, draw.randint(1, most), draw.randrange(1 << 16))
