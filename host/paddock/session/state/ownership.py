"""Whose it is what is left for everyone under a name, and who may put something else in its place (adr/0002).

What is or holds a function or another live object is called by those who find it, and belongs to who left it: the
application, or a module with all its lives. Plain data is anybody's to leave anew, as modules that share a list do; but
what the application wrote into `session_state` or attached to the coordinator, data included, is no tool's, provider's
or context's to change, and stays the application's when it is gone. The keys that steer the session are the
application's from the start.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final, Literal, NamedTuple

from paddock.errors import Denial
from paddock.policy.authority import STEERING_KEYS, Authority

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")  # what stands in a line to be copied, and no more
_APPLICATION: Final = "the application"


class SharedItem(NamedTuple):
    """A thing that is left for everyone: of which sort, and under which name or key."""

    sort: Literal["capability", "attribute", "state"]
    name: Hashable

    def __str__(self) -> str:
        return f"session_state[{self.name!r}]" if self.sort == "state" else f"the {self.sort} {self.name}"


class Ownership:
    """Who left what for everyone in one session; the application is None."""

    def __init__(self) -> None:
        self._live: dict[SharedItem, Authority | None] = {}
        self._written: set[SharedItem] = set()  # by the application, whatever is there by now

    def note_left(self, thing: SharedItem, by: Authority | None, *, is_live: bool = False) -> None:
        """Take note that something was left, in the place of what was there before."""
        if is_live:
            self._live[thing] = by
        else:
            self._live.pop(thing, None)
        if by is None and thing.sort != "capability":
            self._written.add(thing)

    def gone(self, thing: SharedItem) -> None:
        """Take note that something is there no more."""
        self._live.pop(thing, None)

    def owner_of(self, thing: SharedItem) -> Authority | None:
        """Return the module that left a live object, None for the application or nothing."""
        return self._live.get(thing)

    def is_written_by_the_application(self, thing: SharedItem) -> bool:
        """Whether the application ever wrote it."""
        return thing in self._written

    def refusal(self, thing: SharedItem, module: Authority) -> Denial | None:
        """Return why a module may not put something else in the place of what is there, None if it may."""
        owner = self._owner_against(thing, module)
        if owner is None or module.replaces(thing.name):
            return None
        grant = ""
        if isinstance(thing.name, str) and _PLAIN_NAME.fullmatch(thing.name):
            grant = module.replaces_line(thing.name)
        operation = "change" if thing.sort == "state" else "replace"
        return Denial(operation, str(thing), module.name, grant=grant, reason=f"it belongs to {owner}")

    def _owner_against(self, thing: SharedItem, module: Authority) -> str | None:
        if thing in self._live:
            owner = self._live[thing]
            if owner is None:
                return _APPLICATION
            if not module.may_take_over(owner):
                return f"module `{owner.name}`"
        is_reserved = thing.sort == "state" and thing.name in STEERING_KEYS
        is_the_applications = is_reserved or self.is_written_by_the_application(thing)
        return _APPLICATION if is_the_applications and not module.acts_for_the_session else None
