"""Of trees that are beyond a total together, the one that is furthest beyond its part ends."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from paddock.errors import LaunchError
from paddock.plan.limits import Limits, Total, Totals
from paddock.workers.exit_report import ExitReason, LimitHit
from paddock.workers.limits import totals
from paddock.workers.limits.totals import KINDS, SharedTotal, TotalsWatch, room_in
from paddock.workers.limits.tree_limits import TreeLimits
from paddock_sandbox.cgroup import CgroupHome, CgroupPlace, CgroupUse
from support.rows import each_row

_FILES = {"memory.limit_in_bytes": "{own}", "memory.usage_in_bytes": "{used}", "memory.stat": "inactive_file 0"}


class Tree:
    """A tree that uses what it is told to, of which `cached` can be dropped."""

    def __init__(self, used: int, own: int = 100, cached: int = 0, group_name: str = "") -> None:
        self.tree_limits = TreeLimits(memory_max=own, tasks_max=own)
        self.used, self.cached, self.group_name = used, cached, group_name
        self.ends: list[tuple[ExitReason, LimitHit]] = []

    def use(self) -> CgroupUse:
        return CgroupUse(memory_bytes=self.used + self.cached, tasks=self.used)

    def held_bytes(self) -> int:
        return self.used

    def end(self, reason: ExitReason, limit: LimitHit | None = None, *, detail: str = "") -> None:
        assert limit is not None
        self.ends.append((reason, limit))


def shared(name: str, most: int, *trees: Tree, groups: CgroupHome | None = None) -> SharedTotal:
    total = SharedTotal(Total(name, most, "to allow more, pay", is_of_user=groups is not None), groups)
    for number, tree in enumerate(trees):
        total.add(f"tool-{number}", tree, tree.end)
    return total


def judged(total: SharedTotal) -> None:
    shares = total.shares(exactly=True)
    if total.is_watched and total.is_beyond(shares):
        total.end_one(shares)


def test_of_each_total_it_is_known_how_it_is_counted() -> None:
    assert set(KINDS) == set(Totals.model_fields)
    assert {own for own, _, _ in KINDS.values()} < set(Limits.model_fields)


@each_row(
    ("uses", "ended"),
    [
        ([(50, 100), (50, 100)], None),
        ([(40, 100), (61, 100)], 1),
        ([(60, 200), (45, 60)], 1),  # it has most of what it may have
        ([(90, 900), (20, 20)], 1),
        ([(30, 30), (30, 30), (41, 41)], 2),
    ],
)
def test_the_one_furthest_beyond_its_part_ends(uses: list[tuple[int, int]], ended: int | None) -> None:
    trees = [Tree(used, own) for used, own in uses]
    judged(shared("memory_total", 100, *trees))
    assert [number for number, tree in enumerate(trees) if tree.ends] == ([] if ended is None else [ended])


def test_nothing_else_ends_until_what_was_ended_is_gone() -> None:
    first, second = Tree(90), Tree(60)
    total = shared("tasks_total", 100, first, second)
    judged(total)
    judged(total)
    ((reason, limit),) = first.ends
    assert (reason, limit.name, limit.observed, limit.raised) == (
        ExitReason.TASKS,
        "tasks_total",
        "150",
        "to allow more, pay",
    )
    assert limit.among == "all modules of this session, most in tool-0 90, tool-1 60"
    total.remove(first)
    judged(total)
    assert not second.ends
    second.used = 101
    judged(total)
    assert second.ends


def test_a_tree_is_started_only_where_a_task_is_left_for_it() -> None:
    total = shared("tasks_total", 4, Tree(2))
    with room_in((total,), "a"), room_in((total,), "b"):
        with pytest.raises(LaunchError, match="4 processes and threads are in all modules") as caught:
            total.check_room("c")
    assert caught.value.hints == ("to allow more, pay",)
    total.check_room("c")


@pytest.mark.parametrize(("theirs", "mine", "is_mine"), [(30, 40, False), (80, 40, False), (70, 80, True)])
def test_a_host_ends_a_tree_of_its_own_alone(tmp_path: Path, theirs: int, mine: int, is_mine: bool) -> None:
    home = CgroupHome((CgroupPlace(1, str(tmp_path), frozenset({"memory"})),))
    for name, used in {"paddock-7-1-worker-a": theirs, f"{home.owner.prefix}worker-b": mine, "other": 1000}.items():
        (tmp_path / name).mkdir()
        for file, text in _FILES.items():
            (tmp_path / name / file).write_text(text.format(own=100, used=used))
    tree = Tree(mine, group_name=f"{home.owner.prefix}worker-b")
    total = shared("memory_total", 100, tree, groups=home)
    assert sum(one.used for one in total.shares()) == theirs + mine
    judged(total)
    assert bool(tree.ends) == is_mine
    assert all(limit.among == "all sessions of this user" for _, limit in tree.ends)


async def test_what_the_kernel_can_drop_does_not_count() -> None:
    reads, over = Tree(40, cached=200), Tree(50)
    total, watch = shared("memory_total", 100, reads, over), TotalsWatch()
    await watch.judge(total)
    assert not reads.ends and not over.ends
    over.used = 70
    await watch.judge(total)
    assert over.ends and not reads.ends


async def test_a_tree_that_cannot_be_measured_is_judged_by_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "_MEASURE_SECONDS", 0.01)
    locked, gate = Tree(80), threading.Event()
    monkeypatch.setattr(locked, "held_bytes", gate.wait)
    await TotalsWatch().judge(shared("memory_total", 70, locked))
    gate.set()
    assert locked.ends


def test_a_total_of_a_user_is_for_all_sessions_and_one_of_a_session_for_it() -> None:
    watch, of_user, of_session = (
        TotalsWatch(),
        Total("tasks_total", 9, "", is_of_user=True),
        Total("tasks_total", 9, ""),
    )
    first, second = watch.shared([of_user, of_session]), watch.shared([of_user, of_session])
    assert first[0] is second[0] and first[1] is not second[1]
