"""Examine the machine: take every step of every isolation level for real, in a child, with the code of a session.

It leaves nothing behind. A failure is a finding, with the step, the kernel's answer and what would help; only errors
that have nothing to do with the machine's abilities are raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from paddock.doctor.diagnosis import (
    CgroupFinding,
    Diagnosis,
    LevelFinding,
    LimitFinding,
    settings_that_matter,
    strongest,
)
from paddock.isolation.enforcement import Enforcement, enforcement
from paddock.isolation.machine import Machine
from paddock.isolation.remedies import cgroup_remedy, proc_remedy
from paddock.isolation.sandbox_host import SandboxHost, failure_of
from paddock.plan.limits import LIMITS, Limits, Totals, limit_text
from paddock.plan.model import EntryPlace, Kind, ModuleEntry
from paddock.plan.units import size_text
from paddock.policy.limits import OUTPUT_PER_SECOND, ResourceLimits
from paddock.workers.limits.totals import KINDS
from paddock.workers.probe import Available, Unavailable
from paddock_sandbox import landlock
from paddock_sandbox.cgroup import CgroupHome, CgroupProblem, Controller
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel

_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)[::-1]  # tools and hooks first: there are most of them
_WATCHED: Final = "looks from outside, several times a second; in between, it can be overrun"
_UNMAPPED: Final = "what no process maps is counted every two seconds; what is not takes 64M at most"
_COMMON: Final = "counts every host of this user whose control groups are in {}"
_ALONE: Final = "each host counts its own sessions alone, so several hosts have several times as much"
_NO_CONTROLLER: Final = "it takes a control group, and none with that controller can be made here"


async def examine(environ: Mapping[str, str]) -> Diagnosis:
    """Return the findings; `environ` is the environment that a session would be started in."""
    machine = Machine.look(environ)
    async with SandboxHost.started() as host:
        sandbox_support = await host.try_levels(ISOLATION_LEVELS)
        groups = host.workers.groups
    levels = tuple(_level(sandbox_support.findings[level], machine) for level in ISOLATION_LEVELS)
    problems = tuple(_cgroup(problem, machine) for problem in groups.problems)
    lacks_proc = any("/proc" in found.lacks for found in levels)
    return Diagnosis(
        machine=machine,
        levels=levels,
        limits=_limits(strongest(levels), groups, {one.problem.controller: one.fix for one in problems}),
        places=groups.places,
        problems=problems,
        settings=settings_that_matter(machine),
        landlock_abi=_landlock_abi(),
        proc_fix=proc_remedy(machine) if lacks_proc else "",
    )


def _level(found: Available | Unavailable, machine: Machine) -> LevelFinding:
    if isinstance(found, Available):
        return LevelFinding(found.level, None, found.protections, found.missing)
    return LevelFinding(found.level, failure_of(found, machine))


def _cgroup(problem: CgroupProblem, machine: Machine) -> CgroupFinding:
    folder, _, name = problem.tried.rpartition("/")
    if name.startswith("paddock-"):  # this path is a group that was tried; its folder matters
        problem = replace(problem, tried=folder)
    return CgroupFinding(problem, cgroup_remedy(problem, machine))


def _limits(level: IsolationLevel, groups: CgroupHome, fixes: Mapping[Controller, str]) -> tuple[LimitFinding, ...]:
    defaults = default_texts()
    by_controller = {str(controller): fix for controller, fix in fixes.items()}
    of_modules = tuple(
        _limit(found, defaults[found.limit], by_controller.get(LIMITS[found.limit].controller, ""))
        if LIMITS[found.limit].controller
        else LimitFinding(found.limit, defaults[found.limit], found.mechanism, found.why, found.fix)
        for found in enforcement(level, groups.controllers).values()
    )
    return (*of_modules, *totals(level, groups, fixes))


def totals(level: IsolationLevel, groups: CgroupHome, fixes: Mapping[Controller, str]) -> Iterator[LimitFinding]:
    """Yield the findings about totals, first of a session and then of a user."""
    for name in Totals.model_fields:
        yield LimitFinding(name, "none", "watchdog")
    places = {one: place.directory for place in groups.places for one in place.controllers if level != "bwrap"}
    for name, (_, controller, _) in KINDS.items():
        place = places.get(controller)
        counts = _ALONE if place is None else _COMMON.format(place)
        fix = fixes.get(controller, "") if place is None else ""
        yield LimitFinding(f"user_limits.{name}", "none", "watchdog", counts, fix)


def _limit(found: Enforcement, default: str, fix: str) -> LimitFinding:
    """Return the finding about a limit that control groups enforce best."""
    why = {"watchdog": _WATCHED, "": _NO_CONTROLLER}.get(found.mechanism, "")
    if found.limit == "memory_max" and why:
        why = f"{why}; {_UNMAPPED}"
    return LimitFinding(found.limit, default, found.mechanism, why, (fix or found.fix) if why else "")


def _landlock_abi() -> int | None:
    try:
        return landlock.abi()
    except OSError:
        return None


def default_texts() -> dict[str, str]:
    """Return the default of each limit, by the kind of module where it differs."""
    by_kind = {kind: _limits_of(kind) for kind in _KINDS}
    with_programs = _limits_of("tool", {"run": ["*"]})
    return {name: _text(name, by_kind, with_programs) for name in Limits.model_fields}


def _limits_of(kind: Kind, permissions: object = None) -> ResourceLimits:
    entry = {"module": f"{kind}-x", "permissions": permissions}
    return ResourceLimits.of(ModuleEntry.read(entry, EntryPlace(kind, "", Path("/"))))


def _text(name: str, by_kind: dict[Kind, ResourceLimits], with_programs: ResourceLimits) -> str:
    kinds_by_text: dict[str, list[Kind]] = {}
    for kind, limits in by_kind.items():
        kinds_by_text.setdefault(_quantity(name, getattr(limits, name)), []).append(kind)
    if len(kinds_by_text) == 1:
        text = next(iter(kinds_by_text))
    else:
        text = ", ".join(f"{text} ({', '.join(kinds)})" for text, kinds in kinds_by_text.items())
    more = _quantity(name, getattr(with_programs, name))
    return text if more == _quantity(name, getattr(by_kind["tool"], name)) else f"{text}, {more} with `run`"


def _quantity(name: str, value: float | None) -> str:
    if name == "output_max" and value is None:
        return f"{size_text(OUTPUT_PER_SECOND)} a second, the rest left out"
    if value is None or value == math.inf:
        return "none"
    text = limit_text(name, value)
    return f"{text} of a CPU" if name == "cpu_quota" else text
