"""The denials of one module over its session: each once, with its count and last time; audited and logged.

The log is bounded in number and size: a repeated denial is counted, and a new one beyond the bound counts as left out.
What the module reported has a bound of its own. Such a report is kept if something exists behind it, so no act that the
host refused itself may be kept, counted or left out because of it: the module reads these back (session/decisions.md,
0001). The same act refused by another layer is another denial: an unknown name hides no refused connection to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from paddock.audit import AuditLog
from paddock.errors import Denial, DenialLayer

_Witness = Literal["host", "module"]
_Act = tuple[str, str, DenialLayer]  # operation, target, and the layer that refused

_KEPT: Final = 100  # of those that the host saw, and of those that the module reported
_CHARACTERS: Final = 500  # of one text; a module chooses the names that it asks for
_LINE: Final = 4000  # characters; it repeats what the plan grants the module, which people wrote

_log = logging.getLogger(__name__)


class _Noted(NamedTuple):
    """A denial with the time of the last such act."""

    denial: Denial
    last: float


class DenialLog:
    """The denials of one module, the earliest first, written to the audit log as they come; `now` is the loop's time.

    The same act again is written the 10th, the 100th, the 1000th time and so on.
    """

    def __init__(self, kind: str, name: str, audit: AuditLog, now: Callable[[], float]) -> None:
        self.left_out = 0  # acts that were refused, or perhaps were, and are noted nowhere
        self._kind = kind
        self._name = name
        self._audit = audit
        self._now = now
        self._seen: dict[_Witness, dict[_Act, _Noted]] = {"host": {}, "module": {}}
        self._order: dict[_Act, None] = {}

    def note(self, denial: Denial, now: float) -> Denial | None:
        """Count a refused act; return its denial, None for one that is left out.

        An act that the host saw itself counts as seen by the host, also if the module reported it as well.
        """
        act = (denial.operation, _cut(denial.target), denial.layer)
        seen = self._seen[denial.seen_by]
        known = seen.get(act)
        if known is not None:
            denial = replace(known.denial, times=known.denial.times + 1)
        elif len(seen) < _KEPT:
            denial = replace(denial, target=act[1], grant=_line(denial.grant), reason=_cut(denial.reason))
        else:
            self.left_out += 1
            return None
        seen[act] = _Noted(denial, now)
        self._order[act] = None
        return denial if denial.seen_by == "host" else self._of(act).denial

    @property
    def all(self) -> tuple[Denial, ...]:
        """Every denial that was kept."""
        return tuple(self._of(act).denial for act in self._order)

    def since(self, when: float, *, only_by_host: bool = False) -> tuple[Denial, ...]:
        """Return those of acts that were refused at or after `when`, the first time or again.

        If `only_by_host`, nothing that a module reported changes the answer.
        """
        noted = self._seen["host"].values() if only_by_host else map(self._of, self._order)
        return tuple(denial for denial, last in noted if last >= when)

    def _of(self, act: _Act) -> _Noted:
        """Return the denial of an act for people, from both sides."""
        by_host, by_module = (self._seen[witness].get(act) for witness in ("host", "module"))
        if by_host is None or by_module is None:
            one = by_host or by_module
            assert one is not None
            return one
        times = by_host.denial.times + by_module.denial.times
        return _Noted(replace(by_host.denial, times=times), max(by_host.last, by_module.last))

    def record(self, denial: Denial, is_urgent: bool = True) -> None:
        """Note a refused act; only one that is urgent is logged by default."""
        noted = self.note(denial, self._now())
        if noted is None:
            self._record_left_out()
        if noted is None or not _is_round(noted.times):
            return
        self._audit.record("denial", module=self._name, **noted.as_dict(), seen_by=noted.seen_by)
        if noted.times == 1:
            level = logging.INFO if is_urgent else logging.DEBUG
            _log.log(level, "%s %s; %s", self._kind, noted.describe(), noted.hint)

    def leave_out(self) -> None:
        """Count an act that may or may not have been refused."""
        self.left_out += 1
        self._record_left_out()

    def _record_left_out(self) -> None:
        if _is_round(self.left_out):
            self._audit.record("denials.left_out", module=self._name, count=self.left_out)
            message = "%s `%s` tries more than is noted: so far %d denials are left out"
            _log.info(message, self._kind, self._name, self.left_out)


def _is_round(times: int) -> bool:
    """Whether this is one of 1, 10, 100 and so on."""
    return set(str(times)[1:]) <= {"0"} and str(times)[0] == "1"


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + "…"


def _line(grant: str) -> str:
    # Half a line of a plan would be another one, or none.
    return grant if len(grant) <= _LINE else ""
