"""Owners of shared items, and who may replace them (session/decisions.md, 0002).

An item that is or contains a function or another live object is called by those who find it. It belongs to its author:
the application, or a module with all its lives. Any module may replace plain data, as modules that share a list do.
There is an exception: what the application wrote into `session_state` or attached to the coordinator, data included,
may not be changed by tools, providers or contexts. It stays the application's even after it is removed. The keys that
steer the session are the application's from the start.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final, Literal, NamedTuple

from paddock.errors import Denial
from paddock.policy.authority import STEERING_KEYS, Authority
from paddock_sdk.protocol.shared_state import STATE_ATTRIBUTE

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")  # only names that may stand in a line to be copied
_APPLICATION: Final = "the application"


class SharedItem(NamedTuple):
    """A shared item: its sort, and its name or key."""

    sort: Literal["capability", "attribute", "state"]
    name: Hashable

    def __str__(self) -> str:
        return f"session_state[{self.name!r}]" if self.sort == "state" else f"the {self.sort} {self.name}"


def attached(name: str) -> SharedItem:
    """Return what an attribute is: that of a key of `session_state` is the live object under the key."""
    if name.startswith(STATE_ATTRIBUTE):
        return SharedItem("state", name.removeprefix(STATE_ATTRIBUTE))
    return SharedItem("attribute", name)


class Ownership:
    """The owner of each shared item in one session; the application is None."""

    def __init__(self) -> None:
        self._live: dict[SharedItem, Authority | None] = {}
        self._written: set[SharedItem] = set()  # by the application, even if another value is there by now

    def note_left(self, thing: SharedItem, by: Authority | None, *, is_live: bool = False) -> None:
        """Note that an item was left, in place of the one before."""
        if is_live:
            self._live[thing] = by
        else:
            self._live.pop(thing, None)
        if by is None and thing.sort != "capability":
            self._written.add(thing)

    def gone(self, thing: SharedItem) -> None:
        """Note that an item was removed."""
        self._live.pop(thing, None)

    def owner_of(self, thing: SharedItem) -> Authority | None:
        """Return the module that left a live object; None for the application, or if there is none."""
        return self._live.get(thing)

    def is_written_by_the_application(self, thing: SharedItem) -> bool:
        """Whether the application ever wrote it."""
        return thing in self._written

    def refusal(self, thing: SharedItem, module: Authority) -> Denial | None:
        """Return why a module may not replace an item, None if it may."""
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
