"""One attack as a value: what it tries, its arguments, where it has to be refused, and the sign of its success.

The act itself is a function of the attacking module, which no code of the host can import. It is performed outside,
where nothing stops it, and inside, as a module at some level of isolation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal

from paddock.selftest.expected_failures import CONFINED, ExpectedFailure
from paddock.selftest.testbed.testbed import AttackTestbed
from paddock.workers.exit_report import ExitReason
from paddock_sandbox.profile import IsolationLevel
from paddock_sandbox.syscall_numbers import numbers_here

Family = Literal[
    "files",
    "processes",
    "kernel",
    "programs",
    "network",
    "way out",
    "keys",
    "resources",
    "endings",
    "messages",
    "identity",
]
Arguments = Callable[[AttackTestbed], Mapping[str, Any]]
Grants = Callable[[AttackTestbed], Mapping[str, list[Any]]]

REFUSALS: Final = frozenset(("EPERM", "EACCES", "EROFS", "ENOENT", "ESRCH", "ENOSYS", "EXDEV", "EAFNOSUPPORT"))
"""The kernel's words for a refusal: forbidden, not writable, not there. Other errors mean that it examined the call."""


class Sign(Enum):
    """The sign of an attack's success."""

    WAYS = "one of its ways worked"
    MARKS = "the stage bears a mark"  # where the attacker itself cannot know
    KEPT = "the host kept what it was flooded with"
    LAG = "the host stood still"
    LIFE = "something of it lives on"


class Outside(Enum):
    """The proof, outside, that the act is possible."""

    ANSWERS = "each of its ways works"
    ANSWERS_ONCE = "one of its ways works"
    RUNS_ON = "it has no end"
    LIVES_ON = "something of it lives on"


def _nothing(testbed: AttackTestbed) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    `body` is the function that performs it, as `file.function` below the attacking module's package. `tries` describes
    the module's act in the third person. `own_name` is the name where several attacks have one body. `arguments` are
    those of the body; `outside_arguments` replace some of them outside, with smaller ones, so that the machine is not
    harmed. `refusals` are the words that count as a refusal, `ends` the reasons for which the module may be ended
    instead. `known` names the levels that do not refuse it, each with the documented reason; `only_at` the levels at
    which it means anything, where not all do. `marks`: outside, the stage must show a mark of it, which proves that the
    stage notices one. `before` is a function, written like `body`, that runs in a separate call beforehand, which comes
    with a provider to call. `saves` is a file that another program replaces first, by renaming; the module acts once
    the host has reported it.
    """

    body: str
    tries: str
    family: Family
    own_name: str = ""
    arguments: Arguments = _nothing
    outside_arguments: Arguments = _nothing
    grants: Grants = _nothing
    limits: Mapping[str, str | int] = field(default_factory=dict)
    sign: Sign = Sign.WAYS
    outside: Outside = Outside.ANSWERS
    refusals: frozenset[str] = REFUSALS
    ends: frozenset[ExitReason] = frozenset()
    expected_failures: tuple[ExpectedFailure, ...] = ()
    known: Mapping[IsolationLevel, str] = field(default_factory=dict)
    only_at: tuple[IsolationLevel, ...] = ("ns", "bwrap", "landlock")
    marks: bool = False
    before: str = ""
    saves: Callable[[AttackTestbed], Path] | None = None

    @property
    def name(self) -> str:
        """Its name for people: that of the body's function, if it has none of its own."""
        return self.own_name or self.body.partition(".")[2]

    def order(self, testbed: AttackTestbed, **others: object) -> dict[str, object]:
        """Return what the attacking module is told; `others` replace some of the arguments."""
        arguments = {**self.arguments(testbed), **others}
        return {"body": self.body, "arguments": arguments, "numbers": dict(numbers_here())}

    def reason_for(self, word: str) -> str:
        """Return why this machine may refuse the act by `word` to everybody; empty if it may not."""
        return next((one.reason for one in (*self.expected_failures, CONFINED) if one.covers(word)), "")
