"""The parts of an attack: ways, each a name for people and an act that returns what it obtained or raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Way = tuple[str, Callable[[], object]]
"""An OSError of the act means that it was refused; so does a `RefusedError`. Every other exception is a defect."""


class RefusedActError(Exception):
    """Raised for a refusal without an OSError; `word` stands where its error number would."""

    def __init__(self, word: str, what: str) -> None:
        super().__init__(f"{word} {what}".rstrip())
        self.word = word


def in_one_way(name: str) -> Callable[[Callable[..., object]], Callable[..., Iterator[Way]]]:
    """Make an attack of the function that is the only way of it; people know the way by that name."""

    def attack_of(act: Callable[..., object]) -> Callable[..., Iterator[Way]]:
        def attack(*session: Any, **arguments: Any) -> Iterator[Way]:
            yield name, partial(act, *session, **arguments)

        return attack

    return attack_of
