"""Watch that the trees of a session, and those of a user, keep to totals, though each is within its own limits.

At a total, one tree is ended, and all others go on: the one that is furthest beyond its part. The parts of a total are
in proportion to the trees' own limits, so one of them is beyond its part whenever all are beyond the total.

Five times a second the watch asks each tree what it uses: its control group, else `/proc`. The total of a user also
counts the control groups of the user's other hosts in the same place; each host ends only trees of its own, and all
come to the same choice. Where no groups can be made, it counts this host's trees.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol
from weakref import WeakSet

import anyio
import anyio.to_thread

from paddock.errors import LaunchError
from paddock.plan.limits import Total, limit_text
from paddock.workers.exit_report import ExitReason, LimitHit
from paddock_sandbox.cgroup import Cgroup, CgroupHome, CgroupUse, Controller

_logger = logging.getLogger(__name__)

_INTERVAL: Final = 0.2  # seconds
_SECOND_LOOK_SECONDS: Final = 0.02  # a child that borrows its parent's memory is done by then
_MEASURE_SECONDS: Final = 0.5  # where a tree keeps its memory locked for longer, the estimates count
_NAMED: Final = 3  # of the largest, in an exit report

KINDS: Final[Mapping[str, tuple[str, Controller, ExitReason]]] = {
    "memory_total": ("memory_max", "memory", ExitReason.MEMORY),
    "tasks_total": ("tasks_max", "pids", ExitReason.TASKS),
}
"""Of each total: the limit of one tree that it is about, the controller that counts it, and why a tree is ended."""


class CountedTree(Protocol):
    """A tree with limits of its own, whose use can be read; its control group may have a name."""

    @property
    def tree_limits(self) -> object: ...

    @property
    def group_name(self) -> str: ...

    def use(self) -> CgroupUse: ...

    def held_bytes(self) -> int: ...


@dataclass(eq=False, slots=True)
class _Member:
    name: str
    tree: CountedTree
    end: Callable[[ExitReason, LimitHit], None]
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class _Share:
    """What one tree uses of a total, and its own limit; one of another host is no member."""

    used: int
    own: int
    member: _Member | None = None


class SharedTotal:
    """One total, and the trees that keep to it together; `starting` are those that begin meanwhile."""

    def __init__(self, total: Total, groups: CgroupHome | None = None) -> None:
        """`groups` is where other hosts of the user may have trees that count as well."""
        self.total = total
        self.starting = 0
        self._own_limit, self._controller, self._reason = KINDS[total.name]
        self._groups = groups
        self._members: list[_Member] = []

    def add(self, name: str, tree: CountedTree, end: Callable[[ExitReason, LimitHit], None]) -> None:
        """Count a tree from now on; `end` ends it, and must not raise."""
        self._members = [*self._members, _Member(name, tree, end)]  # a thread may read the list

    def remove(self, tree: CountedTree) -> None:
        """Count a tree no longer."""
        self._members = [one for one in self._members if one.tree is not tree]

    @property
    def is_watched(self) -> bool:
        """Whether there is anything to end, and nothing that was ended is yet to go."""
        return bool(self._members) and not any(one.is_ending for one in self._members)

    def shares(self, *, exactly: bool = False) -> list[_Share]:
        """Return what each tree uses; memory is too much by cached files, unless it is asked for `exactly`."""
        members, most = self._members, self.total.most
        found = [
            _Share(self._used(one.tree, exactly), getattr(one.tree.tree_limits, self._own_limit) or most, one)
            for one in members
        ]
        counted = {one.tree.group_name for one in members}
        for group in () if self._groups is None else self._groups.of_this_user():
            if group.name not in counted:
                own = group.most(self._controller) or most
                found.append(_Share(self._used(group, exactly), min(own, most)))
        return found

    def is_beyond(self, shares: Iterable[_Share]) -> bool:
        """Return whether the trees use more than the total."""
        return sum(one.used for one in shares) > self.total.most

    def check_room(self, name: str) -> None:
        """Refuse the start of a further tree.

        Raises:
            LaunchError: there is no task left for it.
        """
        if self._controller == "pids":
            used = sum(one.used for one in self.shares()) + self.starting
            if used >= self.total.most:
                message = f"{used} processes and threads are in {self._whose}, and `tasks_total` is {self.total.most}"
                raise LaunchError(name, "limits", message, hints=[self.total.raised])

    def end_one(self, shares: list[_Share]) -> None:
        """End the tree that is furthest beyond its part, if it is one of this host."""
        part = self.total.most / sum(one.own for one in shares)
        worst = max(shares, key=lambda one: one.used - one.own * part).member
        if worst is not None and worst in self._members:
            worst.is_ending = True
            worst.end(self._reason, self._hit(shares))

    def _hit(self, shares: list[_Share]) -> LimitHit:
        total, among = self.total, self._whose
        if not total.is_of_user:  # a module may read it, and is told nothing of other sessions
            largest = sorted(shares, key=lambda one: one.used, reverse=True)[:_NAMED]
            named = (f"{one.member.name} {limit_text(total.name, one.used)}" for one in largest if one.member)
            among += f", most in {', '.join(named)}"
        observed = limit_text(total.name, sum(one.used for one in shares))
        return LimitHit(total.name, total.most, observed, "watchdog", among=among, raised=total.raised)

    def _used(self, tree: CountedTree | Cgroup, exactly: bool) -> int:
        if self._controller == "pids":
            return tree.use().tasks or 0
        return (tree.held_bytes() if exactly else tree.use().memory_bytes) or 0

    @property
    def _whose(self) -> str:
        return "all sessions of this user" if self.total.is_of_user else "all modules of this session"


@contextmanager
def room_in(totals: tuple[SharedTotal, ...], name: str) -> Iterator[None]:
    """Count a further tree while it is started.

    Raises:
        LaunchError: totals leave no room for it.
    """
    for one in totals:
        one.check_room(name)
    for one in totals:
        one.starting += 1
    try:
        yield
    finally:
        for one in totals:
            one.starting -= 1


class TotalsWatch:
    """Looks at the totals of all sessions of a host in turn, while `run` runs."""

    def __init__(self, groups: CgroupHome | None = None) -> None:
        self._groups = groups
        self._of_user: dict[Total, SharedTotal] = {}
        self._all: WeakSet[SharedTotal] = WeakSet()
        self._wanted = asyncio.Event()
        self._measuring = anyio.CapacityLimiter(1)

    def shared(self, totals: Iterable[Total]) -> tuple[SharedTotal, ...]:
        """Return the totals for one more session, watched as long as they are in use; a user's are one for all."""
        found = tuple(
            self._of_user.setdefault(one, SharedTotal(one, self._groups)) if one.is_of_user else SharedTotal(one)
            for one in totals
        )
        self._all.update(found)
        self._wanted.set()
        return found

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            for one in list(self._all):
                if one.is_watched:
                    await self.judge(one)
            if self._all:
                await anyio.sleep(_INTERVAL)
            else:
                self._wanted.clear()
                await self._wanted.wait()

    async def judge(self, total: SharedTotal) -> None:
        """End one tree if all are beyond the total, and again a moment later."""
        exactly = partial(total.shares, exactly=True)
        try:
            shares = await anyio.to_thread.run_sync(total.shares)
            for _ in range(2):
                if not total.is_beyond(shares):
                    return
                with anyio.move_on_after(_MEASURE_SECONDS):
                    shares = await anyio.to_thread.run_sync(exactly, abandon_on_cancel=True, limiter=self._measuring)
                await anyio.sleep(_SECOND_LOOK_SECONDS)
        except OSError as error:
            _logger.warning("%s cannot be watched at this look: %s", total.total.name, error)
            return
        if total.is_beyond(shares):
            total.end_one(shares)
