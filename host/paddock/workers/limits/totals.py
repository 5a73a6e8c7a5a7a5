"""Watch that the trees of a session, and those of a user, keep to totals, though each is within its own limits.

At a total, one tree is ended, and all others go on: the one that is furthest beyond its part. The parts of a total are
in proportion to the trees' own limits, so one of them is beyond its part whenever all are beyond the total.

There is one watch for a host. Five times a second it asks each tree what it uses: its control group, else `/proc`. The
total of a user also counts the control groups of the user's other hosts in the same place; each host ends trees of its
own alone, and all come to the same choice. Where no groups can be made, it counts this host's trees.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

import anyio
import anyio.to_thread

from paddock.errors import LaunchError
from paddock.plan.limits import Total, limit_text
from paddock.workers.exit_report import ExitReason, LimitHit
from paddock_sandbox.cgroup import Cgroup, CgroupHome, CgroupUse, Controller

if TYPE_CHECKING:
    from paddock.workers.launcher import Launcher, LaunchSpec
    from paddock.workers.limits.tree_limits import OnOverrun, TreeLimits
    from paddock.workers.process import ModuleProcess

_logger = logging.getLogger(__name__)

_INTERVAL: Final = 0.2  # seconds
_SECOND_LOOK_SECONDS: Final = 0.02  # a child that borrows its parent's memory is done by then
_NAMED: Final = 3  # of the largest, in an exit report


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one total is counted: the limit of one tree that it is about, its controller, and why a tree is ended."""

    own: str
    controller: Controller
    reason: ExitReason


_KINDS: Final[Mapping[str, _Kind]] = {
    "memory_total": _Kind("memory_max", "memory", ExitReason.MEMORY),
    "tasks_total": _Kind("tasks_max", "pids", ExitReason.TASKS),
}

CONTROLLER_OF: Final = {name: kind.controller for name, kind in _KINDS.items()}
"""The controller of control groups that counts each total best."""


class CountedTree(Protocol):
    """A tree whose use can be read; its control group is named `group_name`, if it has one."""

    tree_limits: TreeLimits
    group_name: str

    def use(self) -> CgroupUse:
        """Return what it uses, cached files included."""
        ...

    def held_bytes(self) -> int:
        """Return its memory without those; may take long."""
        ...


@dataclass(slots=True)
class _Member:
    name: str
    tree: CountedTree
    on_overrun: OnOverrun
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class _Share:
    """What one tree uses of a total, and its own limit; one of another host is no member."""

    used: int
    own: int
    member: _Member | None = None


class SharedTotal:
    """One total, and the trees that keep to it together."""

    def __init__(self, total: Total, groups: CgroupHome | None = None) -> None:
        """`groups` is where other hosts of the user may have trees that count as well."""
        self.total = total
        self._kind = _KINDS[total.name]
        self._groups = groups
        self._members: list[_Member] = []
        self._starting = 0

    def add(self, name: str, tree: CountedTree, on_overrun: OnOverrun) -> None:
        """Count a tree from now on; the callback ends it, and must not raise."""
        self._members = [*self._members, _Member(name, tree, on_overrun)]  # a thread may read the list

    def remove(self, tree: CountedTree) -> None:
        """Count a tree no longer."""
        self._members = [one for one in self._members if one.tree is not tree]

    @property
    def is_watched(self) -> bool:
        """Whether there is anything to end, and nothing that was ended is yet to go."""
        return bool(self._members) and not any(one.is_ending for one in self._members)

    @contextmanager
    def starting(self, name: str) -> Iterator[None]:
        """Count a further tree while it is started.

        Raises:
            LaunchError: there is no task left for it.
        """
        if self.total.name == "tasks_total":
            used = sum(one.used for one in self.shares()) + self._starting
            if used >= self.total.most:
                message = f"{used} processes and threads are in {self._whose}, and `tasks_total` is {self.total.most}"
                raise LaunchError(name, "limits", message, hints=[self.total.raised])
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    def shares(self, *, exactly: bool = False) -> list[_Share]:
        """Return what each tree uses; memory is too much by cached files, unless it is asked for `exactly`."""
        members, most = self._members, self.total.most
        found = [
            _Share(self._used(one.tree, exactly), getattr(one.tree.tree_limits, self._kind.own) or most, one)
            for one in members
        ]
        counted = {one.tree.group_name for one in members}
        for group in () if self._groups is None else self._groups.of_this_user():
            if group.name not in counted:
                own = group.most(self._kind.controller) or most
                found.append(_Share(self._used(group, exactly), min(own, most)))
        return found

    def is_beyond(self, shares: Iterable[_Share]) -> bool:
        """Return whether the trees use more than the total."""
        return sum(one.used for one in shares) > self.total.most

    def end_one(self, shares: list[_Share]) -> None:
        """End the tree that is furthest beyond its part, if it is one of this host."""
        parts = self.total.most / sum(one.own for one in shares)
        worst = max(shares, key=lambda one: one.used - one.own * parts)
        if worst.member not in self._members or worst.member is None:
            return
        worst.member.is_ending = True
        worst.member.on_overrun(self._kind.reason, self._hit(shares))

    def _hit(self, shares: list[_Share]) -> LimitHit:
        largest = sorted(shares, key=lambda one: one.used, reverse=True)[:_NAMED]
        named = ", ".join(f"{one.member.name} {self._text(one.used)}" for one in largest if one.member is not None)
        # A module may read it, and is told nothing of other sessions.
        among = self._whose if self.total.is_of_user else f"{self._whose}, most in {named}"
        observed = self._text(sum(one.used for one in shares))
        return LimitHit(self.total.name, self.total.most, observed, "watchdog", among=among, raised=self.total.raised)

    def _used(self, tree: CountedTree | Cgroup, exactly: bool) -> int:
        if self._kind.controller == "pids":
            return tree.use().tasks or 0
        return (tree.held_bytes() if exactly else tree.use().memory_bytes) or 0

    def _text(self, used: int) -> str:
        return limit_text(self.total.name, used)

    @property
    def _whose(self) -> str:
        return "all sessions of this user" if self.total.is_of_user else "all modules of this session"


class TotalsWatch:
    """Looks at the totals of all sessions in turn, while `run` runs."""

    def __init__(self, groups: CgroupHome | None = None) -> None:
        self._groups = groups
        self._of_user: dict[Total, SharedTotal] = {}
        self._all: WeakSet[SharedTotal] = WeakSet()
        self._wanted = asyncio.Event()

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
        limiter = anyio.CapacityLimiter(1)
        while True:
            for one in list(self._all):
                if one.is_watched:
                    await self._judge(one, limiter)
            if self._all:
                await anyio.sleep(_INTERVAL)
            else:
                self._wanted.clear()
                await self._wanted.wait()

    async def _judge(self, total: SharedTotal, limiter: anyio.CapacityLimiter) -> None:
        """End one tree if all are beyond the total, and again a moment later."""
        try:
            for exactly in (False, True):
                shares = await anyio.to_thread.run_sync(partial(total.shares, exactly=exactly), limiter=limiter)
                if not total.is_beyond(shares):
                    return
            await anyio.sleep(_SECOND_LOOK_SECONDS)
            shares = await anyio.to_thread.run_sync(partial(total.shares, exactly=True), limiter=limiter)
        except OSError as error:
            _logger.warning("%s cannot be watched at this look: %s", total.total.name, error)
            return
        if total.is_beyond(shares):
            total.end_one(shares)


@dataclass(frozen=True, slots=True)
class LauncherWithinTotals:
    """A launcher that starts nothing for which the totals of its trees leave no room."""

    launcher: Launcher

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        """Return a process that is entering its entry; see `Launcher.launch`."""
        with ExitStack() as starts:
            for total in spec.tree_limits.totals:
                starts.enter_context(total.starting(spec.name))
            return await self.launcher.launch(spec)

    async def aclose(self) -> None:
        """Release the launcher's own means; see `Launcher.aclose`."""
        await self.launcher.aclose()
