"""The pins of a plan's sources in a lock file: as they were when the plan was accepted, and as they are now.

A pin stands for everything that the file states about one source: two pins with the same digest run the same code, with
the same dependencies. Sources that a plan does not take, the file's order and its comments do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from paddock.errors import PaddockError
from paddock.lookalikes import marked
from paddock_sources.errors import without_credentials
from paddock_sources.lock.locked_module import LockedDependency, LockedModule

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGITS: Final = 12  # of a commit or digest, where people compare two
_DEPENDENCIES_SHOWN: Final = 8  # that moved, of one source; a line that people still read


@dataclass(frozen=True, slots=True)
class Pin:
    """The pin of one source; `dependencies` are those of its code, by name and version, for people."""

    source: str
    commit: str
    digest: str
    dependencies: tuple[str, ...] = ()

    @classmethod
    def of(cls, locked: LockedModule) -> Self:
        """Return the pin of a locked source."""
        dependencies = tuple(sorted(map(_dependency, locked.dependencies)))
        return cls(locked.source, locked.commit, locked.digest, dependencies)

    def describe(self) -> str:
        """Return a short text that distinguishes this pin from another of the same source, for people."""
        if self.commit:
            return self.commit[:_DIGITS] if _COMMIT.fullmatch(self.commit) else self.commit
        return _short(self.digest)


Pins = Mapping[str, Pin | None]
"""The pins of the sources that a plan takes, by source; None for one that is not locked."""


@dataclass(frozen=True, slots=True)
class MovedPin:
    """A source whose pin differs from the accepted one; `old` or `new` is None where it is not pinned."""

    source: str
    old: Pin | None
    new: Pin | None

    def describe(self) -> str:
        """Describe the change as one line for people, with deceptive characters marked."""
        source = without_credentials(self.source)
        if self.new is None:
            was = f" (was {self.old.describe()})" if self.old is not None else ""
            return marked(f"{source}: no longer locked{was}, so that what is newest would be taken")
        if self.old is None:
            return marked(f"{source}: not known to be accepted -> {self.new.describe()}")
        before, after = self.old.describe(), self.new.describe()
        moved = f"{before} -> {after}"
        if before == after:
            moved = f"{before}, locked as {_short(self.old.digest)} -> {_short(self.new.digest)}"
        return marked("; ".join([f"{source}: {moved}", *_changes(self.old.dependencies, self.new.dependencies)]))

    def as_dict(self) -> dict[str, object]:
        """Return the change for scripts."""
        facts: dict[str, object] = {"source": without_credentials(self.source)}
        for name, pin in (("old", self.old), ("new", self.new)):
            facts[name] = None if pin is None else {"commit": pin.commit or None, "digest": pin.digest}
        return facts


def moved_dependencies(old: LockedModule, new: LockedModule) -> str:
    """Describe how the dependencies of two locks of a source differ, as one line; empty if they do not."""
    return "; ".join(_changes(Pin.of(old).dependencies, Pin.of(new).dependencies))


def moved_pins(accepted: Iterable[Pin] | None, now: Pins) -> tuple[MovedPin, ...]:
    """Return the pins that differ from the accepted ones; where `accepted` is unknown, each pin is new."""
    known = {pin.source: pin for pin in accepted or ()}
    return tuple(
        MovedPin(source, known.get(source), pin)
        for source, pin in sorted(now.items())
        if (pin.digest if pin is not None else None) != (known[source].digest if source in known else None)
    )


class LockMovedError(PaddockError):
    """Raised when `lock` pins sources of `plan` otherwise than was accepted, and no person could be asked."""

    exit_code = 4

    def __init__(self, plan: str, lock: Path, moved: Sequence[MovedPin]) -> None:
        self.plan = plan
        self.lock = lock
        self.moved = tuple(moved)
        super().__init__(
            f"nothing of plan `{plan}` was started: `{lock}` pins other code than was accepted with it",
            detail=[one.describe() for one in moved],
            hints=[
                "a pin chooses the code that runs: see who moved these, for example in the history of the lock file",
                "run it at a terminal to be asked once, or take plan and lock as they are, this time: `--trust-plan`",
            ],
        )

    def facts(self) -> dict[str, object]:
        """Return the changes for scripts."""
        return {"lock": str(self.lock), "moved": [one.as_dict() for one in self.moved]}


def _dependency(one: LockedDependency) -> str:
    return f"{one.name} {one.version}" + (f" at {one.commit[:_DIGITS]}" if one.commit else "")


def _short(digest: str) -> str:
    return digest.partition(":")[2][:_DIGITS]


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    before, after = _by_name(old), _by_name(new)
    moved = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    changes = [_change(name, before.get(name), after.get(name)) for name in moved[:_DEPENDENCIES_SHOWN]]
    if len(moved) > _DEPENDENCIES_SHOWN:
        changes.append(f"and {len(moved) - _DEPENDENCIES_SHOWN} more")
    if changes:
        yield f"dependencies: {', '.join(changes)}"


def _by_name(dependencies: Iterable[str]) -> dict[str, str]:
    return {name: version for name, _, version in (one.partition(" ") for one in dependencies)}


def _change(name: str, old: str | None, new: str | None) -> str:
    if old is None:
        return f"{name} {new} is new"
    return f"{name} {old} is gone" if new is None else f"{name} {old} -> {new}"
