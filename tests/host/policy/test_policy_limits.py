"""Every limit has a number: what was written, or the default of the module's kind and grants."""

from __future__ import annotations

import math

import pytest

from paddock.plan.limits import Limits
from paddock.plan.load import load_plan
from paddock.plan.model import Kind, MountPlan
from paddock.policy.files.policy import Policy
from paddock.policy.limits import Cap, ResourceLimits, judge_totals, share_of_tasks
from paddock.policy.rule import PolicyFindings
from paddock.workers import capacity
from paddock.workers.capacity import TaskBound
from support.rows import each_row

from .entries import entry

MIB = 1024**2


def test_a_module_that_says_nothing_gets_the_defaults() -> None:
    assert ResourceLimits.of(entry()) == ResourceLimits(
        memory_max=256 * MIB,
        cpu_quota=1.0,
        tasks_max=32,
        open_files_max=256,
        file_size_max=1024 * MIB,
        tmp_max=64 * MIB,
        runtime_max=120.0,
        call_max=1200.0,
        start_max=60.0,
        output_max=None,
        frame_max=4 * MIB,
        calls_max=2048,
        written=frozenset(),
    )


@each_row(
    ("kind", "runtime_max", "frame_max"),
    [
        ("tool", 120, 4 * MIB),
        ("hook", 30, 4 * MIB),
        ("context", 60, 16 * MIB),
        ("provider", 600, 16 * MIB),
        ("orchestrator", math.inf, 16 * MIB),
    ],
)
def test_the_time_of_a_call_and_the_size_of_a_frame_depend_on_the_kind(
    kind: Kind, runtime_max: float, frame_max: int
) -> None:
    limits = ResourceLimits.of(entry(kind))
    assert (limits.runtime_max, limits.frame_max) == (runtime_max, frame_max)


@each_row(
    ("permissions", "has_programs"),
    [({"run": ["git"]}, True), ("shell", True), ("workspace", False), ({"write": ["."]}, False)],
)
def test_programs_are_given_more_memory_and_tasks(permissions: object, has_programs: bool) -> None:
    limits = ResourceLimits.of(entry(permissions=permissions))
    assert (limits.memory_max, limits.tasks_max) == ((1024 * MIB, 512) if has_programs else (256 * MIB, 32))
    assert limits.open_files_max == (1024 if has_programs else 256)


@each_row(
    ("modules", "bounds", "share"),
    [
        (["workspace"], [32768], 16384),
        (["shell"], [32768, 3000, 4000], 1500),
        (["shell", "shell", "workspace", "workspace"], [2048], 480 - 32 + 32),
        (["shell"] * 5, [100], 32),
        (["shell", {"call": ["spawn"]}], [1 << 15], 16384 // 17 - 32),
    ],
)
def test_all_modules_have_half_of_what_the_machine_has(modules: list[object], bounds: list[int], share: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = [TaskBound(f"bound {most}", most, int, "raise it to {0}") for most in bounds]
        patch.setattr(capacity, "task_bounds", lambda: iter(found))
        cap = share_of_tasks([entry(permissions=permissions) for permissions in modules])
    assert (cap.name, cap.value) == ("tasks_max", share)
    assert cap.rule.location.file == f"bound {min(bounds)}"


def test_the_bound_that_a_refusal_proposes_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [entry(permissions="shell", limits={"tasks_max": 10_000}), *map(entry, ("hook", "context"))]

    def share(most: int) -> Cap:
        monkeypatch.setattr(capacity, "task_bounds", lambda: iter([TaskBound("it", most, int, "{0}")]))
        return share_of_tasks(asked)

    few = share(4096)
    assert few.value < 10_000
    assert share(int(few.raised)).value == 10_000


def test_what_is_written_counts_and_is_known_to_have_been_written() -> None:
    limits = ResourceLimits.of(
        entry(permissions="shell", limits={"memory_max": "9M", "runtime_max": "5s", "output_max": "1K", "calls_max": 2})
    )
    assert (limits.memory_max, limits.runtime_max, limits.output_max, limits.calls_max) == (9 * MIB, 5.0, 1024, 2)
    assert limits.written == {"memory_max", "runtime_max", "output_max", "calls_max"}
    assert limits.tasks_max == 512


def test_there_is_a_number_for_every_limit_that_a_plan_can_set() -> None:
    assert set(Limits.model_fields) | {"written", "capped"} == set(ResourceLimits.__dataclass_fields__)


@each_row(
    ("written", "policy", "totals"),
    [
        ({}, "", []),
        ({"tasks_total": 30}, "", [("tasks_total", 30, False)]),
        ({}, "max_limits = {tasks_total = 20}", [("tasks_total", 20, False)]),
        ({"tasks_total": 30}, "max_limits = {tasks_total = 40}", [("tasks_total", 30, False)]),
        (
            {"memory_total": "1G"},
            "user_limits = {memory_total = '2G'}",
            [("memory_total", 1 << 30, False), ("memory_total", 2 << 30, True)],
        ),
    ],
)
def test_a_session_has_the_totals_of_its_plan_and_of_the_policy(
    written: dict[str, object], policy: str, totals: list[tuple[str, int, bool]]
) -> None:
    findings = PolicyFindings()
    found = judge_totals(_plan(written), Policy.parse(policy), [entry()], findings)
    assert [(one.name, one.most, one.is_of_user) for one in found] == totals and findings == PolicyFindings()
    assert all(one.raised for one in found)


def test_a_total_beyond_the_policy_or_too_little_is_refused() -> None:
    findings, policy = PolicyFindings(), Policy.parse("max_limits = {tasks_total = 20}", "the policy")
    judge_totals(_plan({"tasks_total": 30}), policy, [entry()], findings)
    (refusal,) = findings.refusals
    assert (refusal.path, refusal.rule_line) == ("limits.tasks_total", 1)
    assert (refusal.message, refusal.hint) == (
        "30 is more than 20, which is the most there is",
        "ask for less, or have the rule changed: the policy",
    )
    findings = PolicyFindings()
    judge_totals(_plan({"tasks_total": 1}), Policy(), [entry(), entry()], findings)
    assert "1 is too little for 2 modules" in findings.problems[0].message


def _plan(limits: dict[str, object]) -> MountPlan:
    return load_plan({"session": {"orchestrator": "loop-x", "context": "context-x"}, "limits": limits})
