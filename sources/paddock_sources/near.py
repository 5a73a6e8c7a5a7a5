"""Find the names that a mistyped one may stand for, for hints such as "did you mean …?".

A hint that is far from what was typed misleads. Near is a name that differs by case, by `_` for `-`, by the kind that a
module's id begins with, by what follows a `-` or `.`, or by a few slips of the fingers: one in a word of three letters,
two from eight on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_FEW: Final = 3  # letters; in a shorter word each slip makes another word
_LETTERS_A_SLIP: Final = 4
_KINDS: Final = ("tool-", "hooks-", "provider-", "loop-", "context-")


def near(name: str, known: Iterable[str], *, limit: int = 1, is_vocabulary: bool = False) -> list[str]:
    """Return the names in `known` that are near `name`, the nearest first.

    In a vocabulary, a few words for a purpose, a word is also near a longer form of it, as `network` for `net`.
    """
    typed = _plain(name)
    if len(typed) < _FEW:
        return [one for one in known if _plain(one) == typed][:limit]
    most = max(1, len(typed) // _LETTERS_A_SLIP)
    found: list[tuple[int, str]] = []
    for one in dict.fromkeys(known):
        plain = _plain(one)
        if plain.removesuffix(typed) in _KINDS or plain.startswith((f"{typed}-", f"{typed}.")):
            found.append((1, one))
        elif is_vocabulary and len(plain) >= _FEW and typed.startswith(plain):
            found.append((1, one))
        elif abs(len(plain) - len(typed)) <= most and (slips := _slips(typed, plain)) <= most:
            # In a short word the first letter is rarely the wrong one.
            if len(typed) > _LETTERS_A_SLIP or plain[:1] == typed[:1] or sorted(plain) == sorted(typed):
                found.append((slips, one))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])][:limit]


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")


def _slips(first: str, second: str) -> int:
    """Return how many letters were left out, added, exchanged or swapped with their neighbour."""
    before, row = [0] * (len(second) + 1), list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        earlier, before, row = before, row, [i]
        for j, other in enumerate(second, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
