"""The mechanism that enforces each limit at an isolation level on this machine, and a fix where none does.

One table serves plans, whose limits must hold, and people who want to know the mechanism. Defaults use the best
mechanism there is, which may be none; a limit that a person wrote is enforced, or the module does not start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from paddock.errors import PlanError, PlanProblem, PolicyRefusedError, Refusal
from paddock.plan.families import EXCLUDED_SECRETS, is_exclusion
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import grants_of
from paddock.plan.problems import path_text
from paddock.policy.limits import ResourceLimits
from paddock.policy.rule import refusal_by
from paddock.workers.exit_report import Mechanism
from paddock_sandbox.profile import IsolationLevel

LEVELS_WITH_NAMESPACES: Final = frozenset[IsolationLevel]({"ns", "bwrap"})


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How a limit is enforced: by `mechanism`, or by none, and then why not and what would help."""

    limit: str
    mechanism: Mechanism | Literal[""]
    why: str = ""
    fix: str = ""

    @property
    def holds(self) -> bool:
        """Whether anything enforces the limit."""
        return bool(self.mechanism)


def enforcement(level: IsolationLevel, cgroups: Collection[str]) -> dict[str, Enforcement]:
    """Return how each limit is enforced at `level`, where groups with the controllers `cgroups` can be made."""
    if level == "bwrap":
        cgroups = ()  # in bubblewrap's namespaces no group can be made
    found = (
        Enforcement("memory_max", "cgroup memory" if "memory" in cgroups else "watchdog"),
        _processor_share(level, cgroups),
        _tasks(level, cgroups),
        _own_limit("open_files_max", "RLIMIT_NOFILE", level),
        _own_limit("file_size_max", "RLIMIT_FSIZE", level),
        _private_folder(level),
        Enforcement("runtime_max", "host timer"),
        Enforcement("call_max", "host timer"),
        Enforcement("start_max", "host timer"),
        Enforcement("output_max", "host count"),
        Enforcement("frame_max", "protocol"),
        Enforcement("calls_max", "protocol"),
    )
    return {one.limit: one for one in found}


def unenforced(
    entry: ModuleEntry, limits: ResourceLimits, level: IsolationLevel, cgroups: Collection[str]
) -> tuple[PlanProblem, ...]:
    """Return a problem for each limit or exclusion that a person wrote and nothing enforces, in the plan's words."""
    limited = (
        PlanProblem(
            path_text(entry.path, "limits", one.limit),
            f"cannot be enforced at isolation level `{level}`: {one.why}",
            f"{one.fix}, or leave the limit out" if one.fix else "leave the limit out",
        )
        for one in enforcement(level, cgroups).values()
        if one.limit in limits.written and not one.holds
    )
    return (*_unheld_exclusions(entry, level), *limited)


def _unheld_exclusions(entry: ModuleEntry, level: IsolationLevel) -> Iterator[PlanProblem]:
    """Yield a problem for each exclusion of an entry that takes mounts, but for the presets' own."""
    if level in LEVELS_WITH_NAMESPACES:
        return
    for number, word in enumerate(grants_of(entry.permissions).read):
        if is_exclusion(word) and word != EXCLUDED_SECRETS:
            yield PlanProblem(
                path_text(entry.path, "permissions", "read", number),
                f"`{word}` cannot be enforced at isolation level `{level}`, which leaves nothing out of a folder",
                f"{_stronger('ns')} or `bwrap`, or grant the folders beside it and not the one around it",
            )


def require_enforced(
    entry: ModuleEntry, limits: ResourceLimits, level: IsolationLevel, cgroups: Collection[str]
) -> None:
    """Refuse limits from the plan or a policy, and exclusions, that would not hold.

    Raises:
        PolicyRefusedError: a policy sets a limit that no mechanism enforces here.
        PlanError: with the place of each, why, and what to do.
    """
    problems = unenforced(entry, limits, level, cgroups)
    refusals = tuple(_beyond_policy(entry, limits, level, cgroups))
    if refusals:
        raise PolicyRefusedError(refusals, problems=problems)
    if problems:
        raise PlanError(problems, code="UnenforcedLimitError")


def _beyond_policy(
    entry: ModuleEntry, limits: ResourceLimits, level: IsolationLevel, cgroups: Collection[str]
) -> Iterator[Refusal]:
    table = enforcement(level, cgroups)
    for name, rule in limits.capped:
        one = table[name]
        if not one.holds:
            excuse = f'name it in the rule\'s file: allow_unenforced = ["{name}"]'
            is_written = name in limits.written
            yield refusal_by(
                rule,
                path_text(entry.path, "limits", name) if is_written else entry.path,
                f"{'' if is_written else f'`{name}` '}is capped by a policy, and cannot be enforced at isolation level "
                f"`{level}`: {one.why}",
                f"{one.fix}, or {excuse}" if one.fix else excuse,
            )


def _processor_share(level: IsolationLevel, cgroups: Collection[str]) -> Enforcement:
    if "cpu" in cgroups:
        return Enforcement("cpu_quota", "cgroup cpu")
    if level == "bwrap":
        fix = f"{_stronger('ns')}, where control groups can be made"
        return Enforcement("cpu_quota", "", "in bubblewrap's namespaces no control group can be made", fix)
    return Enforcement(
        "cpu_quota",
        "",
        "it takes the cpu controller of control groups, and none can be made here",
        "have a group delegated, as `systemd-run --user --scope -p Delegate=yes` does (`paddock doctor` says more)",
    )


def _tasks(level: IsolationLevel, cgroups: Collection[str]) -> Enforcement:
    if "pids" in cgroups:
        return Enforcement("tasks_max", "cgroup pids")
    # Counted per user, and not at all for root: only where a worker's user is in a namespace of its own is it its own.
    return Enforcement("tasks_max", "RLIMIT_NPROC" if level in LEVELS_WITH_NAMESPACES else "watchdog")


def _own_limit(limit: str, mechanism: Mechanism, level: IsolationLevel) -> Enforcement:
    if level != "none":
        return Enforcement(limit, mechanism)
    return Enforcement(limit, "", "a module without isolation does nothing to limit itself", _stronger("landlock"))


def _private_folder(level: IsolationLevel) -> Enforcement:
    if level in LEVELS_WITH_NAMESPACES:
        return Enforcement("tmp_max", "tmpfs size")
    return Enforcement("tmp_max", "", "its private folder is an ordinary one of the host's", _stronger("ns"))


def _stronger(level: IsolationLevel) -> str:
    return f"run the module at isolation level `{level}`"
