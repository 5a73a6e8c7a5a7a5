"""Find the names that a mistyped one may stand for, for hints such as "did you mean …?".

A hint that is far from what was typed misleads. Near is a name that differs by case, by `_` for `-`, by the kind that a
module's id begins with, by what follows a `-` or `.`, or by a few slips of the fingers: one in a word of three letters,
two from eight on, at most three. Both the name and the known ones may be an attacker's: the work is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_FEW: Final = 3  # letters; in a shorter word each slip makes another word
_LETTERS_A_SLIP: Final = 4
_MAX_SLIPS: Final = 3
_MAX_LETTERS: Final = 64  # longer names are not compared
_MAX_COMPARED: Final = 200  # letter by letter
_KINDS: Final = ("tool-", "hooks-", "provider-", "loop-", "context-")


def near(name: str, known: Iterable[str], *, limit: int = 1, is_vocabulary: bool = False) -> list[str]:
    """Return the names in `known` that are near `name`, the nearest first.

    In a vocabulary, a few words for a purpose, a word is also near a longer form of it, as `network` for `net`.
    """
    if len(name) > _MAX_LETTERS or len(typed := _plain(name)) > _MAX_LETTERS:
        return []
    if len(typed) < _FEW:
        return [one for one in known if _plain(one) == typed][:limit]
    most = min(max(1, len(typed) // _LETTERS_A_SLIP), _MAX_SLIPS)
    found: list[tuple[int, str]] = []
    similar: list[tuple[bool, str, str]] = []
    for one in dict.fromkeys(known):
        if len(one) > _MAX_LETTERS:
            continue
        plain = _plain(one)
        if plain.removesuffix(typed) in _KINDS or plain.startswith((f"{typed}-", f"{typed}.")):
            found.append((1, one))
        elif is_vocabulary and len(plain) >= _FEW and typed.startswith(plain):
            found.append((1, one))
        elif abs(len(plain) - len(typed)) <= most:
            similar.append((plain[:1] != typed[:1], plain, one))
    similar.sort(key=lambda each: each[0])
    for is_other_letter, plain, one in similar[:_MAX_COMPARED]:
        # In a short word the first letter is rarely the wrong one.
        if is_other_letter and len(typed) <= _LETTERS_A_SLIP and sorted(plain) != sorted(typed):
            continue
        if (slips := _slips(typed, plain, most)) <= most:
            found.append((slips, one))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])][:limit]


def meant(name: str, known: Iterable[str], otherwise: str, *, is_vocabulary: bool = False) -> str:
    """Return the hint at the name in `known` that `name` may stand for, or `otherwise` if none is near."""
    close = near(name, known, is_vocabulary=is_vocabulary)
    return f"did you mean `{close[0]}`?" if close else otherwise


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")


def _slips(first: str, second: str, most: int) -> int:
    """Return how many letters were left out, added, exchanged or swapped with their neighbour, exactly up to `most`."""
    before, row = [0] * (len(second) + 1), list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        earlier, before, row = before, row, [i, *[most + 1] * len(second)]
        # Farther from the diagonal there are more slips than `most`.
        for j in range(max(1, i - most), min(len(second), i + most) + 1):
            other = second[j - 1]
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, earlier[j - 2] + 1)
            row[j] = cost
        if min(row) > most:  # no later row has fewer
            break
    return row[-1]
