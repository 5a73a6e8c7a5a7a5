"""The limits that one module runs under: those of its plan entry, defaults for the rest, all within the rules' caps.

Every limit has a number, also where nothing can enforce it; see `enforcement` for what does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from paddock.plan.limits import Limits, Total, Totals, limit_text, raised_limit_line
from paddock.plan.model import Kind, ModuleEntry, MountPlan
from paddock.plan.permissions import grants_of
from paddock.plan.problems import NotAcceptedError, path_text
from paddock.plan.source_map import Location
from paddock.policy.files.policy import Policy
from paddock.policy.rule import PolicyFindings, Rule
from paddock_sdk.protocol import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from paddock.policy.files.policy_file import ModuleRule, PolicyFile

_MIB: Final = 1 << 20

_TASKS_MAX: Final = 32
# A compiler, a test run or a large repository; `npm install` opens more than 256 files at a time.
_WITH_PROGRAMS: Final[Mapping[str, int]] = {"memory_max": 1024 * _MIB, "tasks_max": 512, "open_files_max": 1024}
SUB_SESSIONS_MAX: Final = 16  # at one time; each has workers of its own for all modules
_RUNTIME_MAX: Final[dict[Kind, float]] = {
    "tool": 120.0,
    "hook": 30.0,
    "context": 60.0,
    "provider": 600.0,
    "orchestrator": math.inf,  # a call to it lasts a whole turn
}
_CALL_SHARES: Final = 10  # of `runtime_max`, which a call and all that it waits for may take together
_SMALL_FRAME_MAX: Final = 4 * _MIB  # of kinds that do not handle a whole conversation
_CONVERSATION_SHARE: Final = (
    8  # 1/8 of a context's memory is for messages; measured: they need up to 6 times their size
)
OUTPUT_PER_SECOND: Final = _MIB  # bytes that a module prints; far above any log that a person reads
_OPEN_FRAMES: Final = 4  # messages of the largest size that all open requests take together


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Sizes are bytes, durations seconds, `cpu_quota` a fraction of one CPU; `output_max` None: unlimited.

    `written` names those that a plan chose, and `capped` those that a policy chose, by rule: all of these are enforced,
    or the module does not start.
    """

    memory_max: int = 256 * _MIB
    cpu_quota: float = 1.0
    tasks_max: int = _TASKS_MAX
    open_files_max: int = 256
    # A file of this size is more often a runaway log than a result. Where the private folder cannot be bounded, only
    # this bounds it.
    file_size_max: int = 1024 * _MIB
    tmp_max: int = 64 * _MIB
    runtime_max: float = math.inf
    call_max: float = math.inf
    start_max: float = 60.0  # from launch to mounted; importing a vendor's SDK on a busy machine takes ten
    output_max: int | None = None
    frame_max: int = MAX_FRAME_BYTES
    calls_max: int = 2048  # a busy orchestrator has tens of requests open
    written: frozenset[str] = frozenset()
    capped: tuple[tuple[str, Rule], ...] = ()

    @property
    def by_name(self) -> dict[str, float | None]:
        """Each limit by its name in a plan; None: unlimited."""
        values = {name: getattr(self, name) for name in Limits.model_fields}
        return {name: None if value is None or value == math.inf else float(value) for name, value in values.items()}

    @property
    def open_bytes_max(self) -> int:
        """The bytes of all its requests that wait for an answer, however small each has to be."""
        return _OPEN_FRAMES * max(self.frame_max, _SMALL_FRAME_MAX)

    @property
    def conversation_max(self) -> int:
        """The bytes of messages that a context may get: it holds them, copies them, and makes more of them."""
        return self.memory_max // _CONVERSATION_SHARE

    @classmethod
    def of(cls, entry: ModuleEntry) -> ResourceLimits:
        """Return the limits of a plan entry's module."""
        defaults: dict[str, Any] = {"runtime_max": _RUNTIME_MAX[entry.kind]}
        if grants_of(entry.permissions).run or entry.brings_server:
            defaults |= _WITH_PROGRAMS
        if entry.kind in ("tool", "hook"):
            defaults["frame_max"] = _SMALL_FRAME_MAX
        written = {name: value for name, value in entry.limits if value is not None}
        defaults["call_max"] = _CALL_SHARES * written.get("runtime_max", defaults["runtime_max"])
        return cls(**{**defaults, **written}, written=frozenset(written))


@dataclass(frozen=True, slots=True)
class Cap:
    """The highest limit that a rule permits; `may_fail`: it may go unenforced. `raised` says how to get more."""

    name: str
    value: float
    rule: Rule
    may_fail: bool
    raised: str = ""


def share_of_tasks(entries: Sequence[ModuleEntry]) -> Cap:
    """Return the most processes and threads that each of a plan's modules may have.

    All of them together, also in sub-sessions that they may start, get no more than half of what this user, this
    machine and the control groups around this process may have. Each gets as many as one without programs needs.
    """
    from paddock.workers.capacity import task_bounds  # only where modules are judged

    bound = min(task_bounds(), key=lambda one: one.most)
    grants = [grants_of(entry.permissions) for entry in entries]
    sessions = 1 + SUB_SESSIONS_MAX * any(not {"spawn", "*"}.isdisjoint(one.call) for one in grants)
    asked = [ResourceLimits.of(entry).tasks_max for entry in entries]
    greedy = sum(one > _TASKS_MAX for one in asked)
    spare = bound.most // 2 // sessions - _TASKS_MAX * len(entries)
    most = _TASKS_MAX + max(0, spare) // max(1, greedy)
    rule = Rule(Location(bound.whose), f"at most {bound.most} processes and threads, of which modules may have half")
    enough = 2 * sessions * (greedy * (max(asked) - _TASKS_MAX) + len(entries) * _TASKS_MAX)
    return Cap("tasks_max", most, rule, may_fail=True, raised=bound.raised.format(enough))


def judge_limits(
    entry: ModuleEntry,
    policy: Policy,
    held: Sequence[tuple[PolicyFile, ModuleRule]],
    findings: PolicyFindings,
    tasks: Cap,
) -> ResourceLimits:
    """Return the limits of an entry, and note those that exceed what it may have; `tasks` is its share of tasks.

    A default above a cap is lowered to it.
    """
    defaults = ResourceLimits.of(entry)
    excused = frozenset[str]().union(*(file.allow_unenforced for file in policy.files))
    caps = [tasks, *_caps(policy, held)]
    lowered: dict[str, Any] = {}
    demanded: dict[str, Rule] = {}
    for cap in sorted(caps, key=lambda one: one.value):
        if not cap.may_fail:
            demanded.setdefault(cap.name, cap.rule)
        value = getattr(defaults, cap.name)
        if cap is tasks and value <= cap.value:
            continue
        shown = limit_text(cap.name, value)
        if value is not None and value <= cap.value:
            findings.consult(cap.rule, f"{shown} is within it")
        elif cap.name not in defaults.written:
            lowered.setdefault(cap.name, type(value)(cap.value) if value is not None else int(cap.value))
            findings.consult(cap.rule, f"lowers the default, {shown}")
        else:
            findings.consult(cap.rule, f"refuses {shown}")
            more = cap.raised or f"have the rule changed: {cap.rule.location.file}"
            findings.refuse(
                path_text(entry.path, "limits", cap.name),
                f"{shown} is more than {limit_text(cap.name, cap.value)}, which is the most there is",
                f"ask for less, or {more}",
                cap.rule,
            )
    if "call_max" in defaults.written and defaults.call_max < defaults.runtime_max:
        said = f"{limit_text('call_max', defaults.call_max)} is less than runtime_max, which is"
        problem = f"{said} {limit_text('runtime_max', defaults.runtime_max)}"
        error = NotAcceptedError(
            problem, "write more: the whole call takes at least as long as the module's part of it"
        )
        findings.problem(path_text(entry.path, "limits", "call_max"), error)
    return replace(defaults, **lowered, written=defaults.written - excused, capped=tuple(demanded.items()))


def _caps(policy: Policy, held: Sequence[tuple[PolicyFile, ModuleRule]]) -> Iterator[Cap]:
    for file in policy.files:
        for name, value in file.max_limits:
            if value is not None and name in Limits.model_fields:
                rule = file.rule(f"max_limits.{name}", limit_text(name, value))
                yield Cap(name, value, rule, name in file.allow_unenforced)

    for file, module in held:
        for name, value in module.limits:
            if value is not None:
                rule = file.rule_of_module(module, f"limits.{name}", limit_text(name, value))
                yield Cap(name, value, rule, name in file.allow_unenforced)


def judge_totals(
    plan: MountPlan | None, policy: Policy, entries: Sequence[ModuleEntry], findings: PolicyFindings
) -> tuple[Total, ...]:
    """Return the totals of a session, and note those of its plan that cannot be; `entries` are those that run at once.

    A session has the lowest highest value of the policy where its plan writes none.
    """
    written = Totals() if plan is None else plan.totals
    found: list[Total] = []
    for name, asked in written:
        caps = [(value, file) for file in policy.files if (value := getattr(file.max_limits, name)) is not None]
        most, file = min(caps, key=lambda one: one[0], default=(math.inf, None))
        path = path_text("limits", name)
        if file is not None and (asked is None or asked > most):
            rule = file.rule(f"max_limits.{name}", limit_text(name, most))
            if asked is not None:
                said = f"{limit_text(name, asked)} is more than {limit_text(name, most)}, which is the most there is"
                findings.refuse(path, said, f"ask for less, or have the rule changed: {file.name}", rule)
            found.append(Total(name, int(most), f"to allow the session more, change {rule.describe()}"))
        elif asked is not None:
            line = raised_limit_line(name, asked, written)
            found.append(Total(name, asked, f"to allow the session more, write at the top of its plan: {line}"))
            if name == "tasks_total" and asked < len(entries):
                error = NotAcceptedError(f"{asked} is too little for {len(entries)} modules", "each has one at least")
                findings.problem(path, error)
        for one in policy.files:
            if (value := getattr(one.user_limits, name)) is not None:
                rule = one.rule(f"user_limits.{name}", limit_text(name, value))
                raised = f"end other sessions (`paddock top` shows them), or change {rule.describe()}"
                found.append(Total(name, value, raised, is_of_user=True))
    return tuple(found)


def with_lowered(entry: ModuleEntry, limits: ResourceLimits) -> ModuleEntry:
    """Return an entry that states the lowered limits, so that no reader of it applies higher ones."""
    defaults = ResourceLimits.of(entry)
    bounded = {
        name: getattr(limits, name) for name, _ in entry.limits if getattr(limits, name) != getattr(defaults, name)
    }
    return entry.model_copy(update={"limits": entry.limits.model_copy(update=bounded)}) if bounded else entry
