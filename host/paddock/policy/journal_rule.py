"""Which journals of sessions a user keeps, as policy files say it; of several files, the strictest counts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Literal

from paddock.plan.problems import NotAcceptedError, StrictModel
from paddock.plan.units import parse_age

_WORDS: Final = {"off": 0.0, "forever": math.inf}


class JournalRule(StrictModel):
    """What `[journal]` says: for how many seconds a session is kept after its end, and the bytes of all together.

    None stands for what is not said. With `required`, a session does not go on where its journal cannot be written.
    `durability` says what the beginnings and ends of turns, and the beginnings of tool calls, outlive: the host, or a
    power failure too.
    """

    keep: float | None = None
    size: int | None = None
    durability: Literal["host", "power"] = "host"
    required: bool = False

    @classmethod
    def strictest(cls, rules: Iterable[JournalRule]) -> JournalRule:
        """Return the rule that keeps no more than each of these does."""
        rules = tuple(rules)
        return cls(
            keep=min((one.keep for one in rules if one.keep is not None), default=None),
            size=min((one.size for one in rules if one.size is not None), default=None),
            durability="power" if any(one.outlives_power for one in rules) else "host",
            required=any(one.required for one in rules),
        )

    @property
    def is_off(self) -> bool:
        """Whether no session is kept."""
        return self.keep == _WORDS["off"]

    @property
    def is_forever(self) -> bool:
        """Whether each session is kept, however old, unless a size is said."""
        return self.keep == _WORDS["forever"]

    @property
    def outlives_power(self) -> bool:
        """Whether what counts outlives a power failure."""
        return self.durability == "power"


def read_keep(written: object) -> float:
    """Return `keep` in seconds: 0 for `off`, infinity for `forever`.

    Raises:
        NotAcceptedError: it is none of these, and no age.
    """
    if isinstance(written, str) and written in _WORDS:
        return _WORDS[written]
    try:
        return parse_age(written)
    except NotAcceptedError as error:
        raise NotAcceptedError(error.problem, f'{error.accepted}, "forever" or "off"') from error
