"""One table says what enforces a limit; a limit that somebody wrote holds, or its module does not start."""

from __future__ import annotations

from failures import failing
from paddock.isolation.enforcement import enforcement, require_enforced
from paddock.plan.limits import Limits
from paddock.policy.limits import ResourceLimits
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel
from support.rows import each_row

from ..policy.entries import entry, problems_of

ALL = frozenset({"memory", "pids", "cpu"})
NONE: frozenset[str] = frozenset()
EVERYWHERE = {
    "runtime_max": "host timer",
    "call_max": "host timer",
    "start_max": "host timer",
    "output_max": "host count",
    "frame_max": "protocol",
    "calls_max": "protocol",
}
IN_CGROUPS = {"memory_max": "cgroup memory", "cpu_quota": "cgroup cpu", "tasks_max": "cgroup pids"}
ITS_OWN = {"open_files_max": "RLIMIT_NOFILE", "file_size_max": "RLIMIT_FSIZE"}
WATCHED = {"memory_max": "watchdog", "cpu_quota": ""}


@each_row(
    ("level", "cgroups", "mechanisms"),
    [
        ("ns", ALL, {**IN_CGROUPS, **ITS_OWN, "tmp_max": "tmpfs size"}),
        ("bwrap", ALL, {**WATCHED, **ITS_OWN, "tasks_max": "RLIMIT_NPROC", "tmp_max": "tmpfs size"}),
        ("landlock", ALL, {**IN_CGROUPS, **ITS_OWN, "tmp_max": ""}),
        ("none", ALL, {**IN_CGROUPS, "open_files_max": "", "file_size_max": "", "tmp_max": ""}),
        ("ns", NONE, {**WATCHED, **ITS_OWN, "tasks_max": "RLIMIT_NPROC", "tmp_max": "tmpfs size"}),
        ("bwrap", NONE, {**WATCHED, **ITS_OWN, "tasks_max": "RLIMIT_NPROC", "tmp_max": "tmpfs size"}),
        ("landlock", NONE, {**WATCHED, **ITS_OWN, "tasks_max": "watchdog", "tmp_max": ""}),
        ("none", NONE, {**WATCHED, "tasks_max": "watchdog", "open_files_max": "", "file_size_max": "", "tmp_max": ""}),
    ],
)
def test_each_limit_is_enforced_by_the_best_mechanism_there_is(
    level: IsolationLevel, cgroups: frozenset[str], mechanisms: dict[str, str]
) -> None:
    found = {limit: one.mechanism for limit, one in enforcement(level, cgroups).items()}
    assert found == {**mechanisms, **EVERYWHERE}


@each_row("level", ISOLATION_LEVELS)
def test_every_limit_has_a_line_with_reason_and_remedy(level: IsolationLevel) -> None:
    table = enforcement(level, NONE)
    assert set(table) == set(Limits.model_fields)
    assert all(one.holds or (one.why and one.fix) for one in table.values())


def test_a_written_limit_that_cannot_hold_is_refused_with_its_place() -> None:
    one = entry(limits={"cpu_quota": "50%", "tmp_max": "1M", "memory_max": "64M"})
    limits = ResourceLimits.of(one)
    problems = problems_of(lambda: require_enforced(one, limits, "landlock", NONE))
    assert set(problems) == {"tools[0].limits.cpu_quota", "tools[0].limits.tmp_max"}
    assert "isolation level `landlock`" in problems["tools[0].limits.cpu_quota"]
    assert "delegated" in problems["tools[0].limits.cpu_quota"]
    assert problems["tools[0].limits.tmp_max"].endswith("isolation level `ns`, or leave the limit out")
    with failing("UnenforcedLimitError") as caught:
        require_enforced(one, limits, "landlock", NONE)
    assert caught.value.exit_code == 1


def test_a_default_that_cannot_hold_keeps_nothing_from_starting() -> None:
    for level in ISOLATION_LEVELS:
        require_enforced(entry(), ResourceLimits.of(entry()), level, NONE)


def test_a_limit_of_a_call_that_is_in_no_plan_is_named_by_itself() -> None:
    one = entry(path="", limits={"cpu_quota": "50%"})
    assert set(problems_of(lambda: require_enforced(one, ResourceLimits.of(one), "ns", NONE))) == {"limits.cpu_quota"}
