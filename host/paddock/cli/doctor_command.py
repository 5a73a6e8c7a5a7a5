"""Examine the machine and show the findings, for people or for scripts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import click

from paddock.cli import failure, options
from paddock.cli.command_group import example
from paddock.cli.one_result import result_of
from paddock.cli.policy_command import show_files
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.render import Screen
from paddock.doctor import CgroupFinding, Diagnosis, LevelFinding, examine
from paddock.doctor.diagnosis import NAMES, names_of
from paddock.isolation.levels import guarantees_missing
from paddock.isolation.machine import Machine
from paddock.policy.files.file_status import FileStatus, statuses_of_files
from paddock.policy.rule import FLOOR

_Rows = Iterator[tuple[str, str]]


@click.command(epilog=example("paddock doctor"))
@options.JSON
def doctor(as_json: bool) -> int:
    """Show which isolation works on this machine, and how to get more.

    Tries every isolation level, and lists the operator's files. Exits with 0 if `ns` or `bwrap` works and none of the
    files is refused, else with 1.
    """
    screen = Screen(sys.stderr)
    diagnosis = result_of(lambda: examine(os.environ), screen, lambda: "trying every isolation level", as_json=as_json)
    if isinstance(diagnosis, int):
        return diagnosis
    files = statuses_of_files(os.environ)
    is_ok = diagnosis.ok and not any(one.error is not None for one in files)
    if as_json:
        print_json({**diagnosis.as_dict(), "ok": is_ok, "files": [one.as_dict() for one in files]})
    else:
        _show(diagnosis, files, Screen(sys.stdout))
    for one in files:
        if one.error is not None:
            screen.text(failure.text(one.error))
    return 0 if is_ok else 1


def _show(diagnosis: Diagnosis, files: Sequence[FileStatus], screen: Screen) -> None:
    screen.title("machine")
    screen.labelled([*_of_machine(diagnosis.machine)])
    screen.title("isolation")
    for found in diagnosis.levels:
        _show_level(screen, found, diagnosis)
    screen.labelled([*_of_what_stands_behind(diagnosis)])
    screen.title(f"limits at level {diagnosis.limited_level}")
    by = [(one, one.mechanism or "nothing") for one in diagnosis.limits]
    rows = [(one.limit, one.default, f"{how}: {one.why}" if one.is_best_effort else how) for one, how in by]
    screen.table(("limit", "by default", "enforced by"), rows)
    if not all(limit.mechanism for limit in diagnosis.limits):
        screen.labelled([("  ", "what nothing enforces is not kept, and refused to a plan or an option that sets it")])
    screen.title("control groups")
    screen.labelled([*_of_groups(diagnosis)])
    if diagnosis.settings:
        screen.title("settings of the kernel")
        for setting in diagnosis.settings:
            screen.labelled([(f"  {setting.name} = {setting.value}  ", setting.meaning)])
    screen.title("files of the operator")
    show_files(screen, files)
    screen.text(_verdict(diagnosis))


def _of_machine(machine: Machine) -> _Rows:
    yield "  kernel  ", f"{machine.kernel} on {machine.architecture}"
    yield "  user  ", "root" if machine.uid == 0 else f"uid {machine.uid}"
    yield "  capabilities  ", _capabilities(machine)
    engine = f"perhaps of {machine.engine}" if machine.engine not in ("", "other") else "perhaps"
    yield "  container  ", f"{engine}: {'; '.join(machine.signs)}" if machine.signs else "no sign of one"
    filtered = "set up by the program that started this (seccomp mode 2)"
    yield "  filter of system calls  ", filtered if machine.is_filtered else "none"
    if machine.label:
        yield "  security label  ", machine.label
    shared = "some 4 MiB from the fifth on: it shares what is loaded before it starts"
    own = "some 9 MiB: this Python writes to all that it uses; 3.12 and newer need less than half"
    yield "  memory of a module  ", f"{shared if machine.shares_objects else own} (Python {machine.python})"


def _capabilities(machine: Machine) -> str:
    missing = set(range(len(NAMES))) - machine.capabilities
    if not machine.capabilities:
        return "none"
    if not missing:
        return "all"
    if len(missing) < len(machine.capabilities):
        return f"all but {', '.join(names_of(missing))}"
    return ", ".join(names_of(machine.capabilities))


def _show_level(screen: Screen, found: LevelFinding, diagnosis: Diagnosis) -> None:
    label, below = f"  {found.level:10}", " " * 12
    if found.failure is not None:
        fix = found.failure.fix
        first = next(one.level for one in diagnosis.levels if one.failure is not None and one.failure.fix == fix)
        known = f"fix: {fix}" if first == found.level else f"fix: as for {first}"
        screen.labelled(
            [
                (label, f"unavailable: {found.failure.describe()}"),
                (below, known if fix else "what would help is not known"),
            ]
        )
        return
    screen.labelled([(label, _standing_of(found, diagnosis))])
    if found.level in (diagnosis.limited_level, "none"):
        screen.labelled([(f"{below}- ", sentence) for sentence in guarantees_missing(found.level)])


def _standing_of(found: LevelFinding, diagnosis: Diagnosis) -> str:
    is_told = bool(found.level == diagnosis.limited_level and guarantees_missing(found.level))
    not_given = "; not given:" if is_told else ""
    if found.level == diagnosis.level:
        return f"available; a session's modules get this one{not_given}"
    if found.level in FLOOR:
        return "available"
    by_plan = "`--trust-plan`" if found.level != "none" else "`isolation: none` in a plan and `--trust-plan`"
    return f"available, where it is accepted: `--isolation {found.level}`, or {by_plan}{not_given}"


def _of_what_stands_behind(diagnosis: Diagnosis) -> _Rows:
    if diagnosis.landlock_abi is None:
        yield "  Landlock  ", "unknown: the question was refused"
    elif diagnosis.landlock_abi == 0:
        yield "  Landlock  ", "the kernel has none, or it is switched off"
    else:
        reached = next((found.protections for found in diagnosis.levels if found.protections), ())
        later = f"; later kernels add {', '.join(diagnosis.later_protections)}" if diagnosis.later_protections else ""
        yield "  Landlock  ", f"ABI {diagnosis.landlock_abi}, protects {', '.join(reached) or 'nothing here'}{later}"
    if diagnosis.has_proc is True:
        yield "  /proc  ", "workers have one of their own, with nothing in it but their own processes"
    elif diagnosis.has_proc is False:
        yield "  /proc  ", "workers do without one, which some programs want, since parts of ours are covered"
        yield "", f"fix: {diagnosis.proc_fix}"


def _of_groups(diagnosis: Diagnosis) -> _Rows:
    for place in diagnosis.places:
        yield f"  {', '.join(sorted(place.controllers))}  ", f"version {place.version}, in {place.directory}"
    by_fix: dict[str, list[CgroupFinding]] = {}
    for found in diagnosis.problems:
        by_fix.setdefault(found.fix, []).append(found)
    for fix, findings in by_fix.items():
        for found in findings:
            _, _, why = str(found.problem).partition(": ")
            yield f"  {found.problem.controller}  ", f"unavailable: {why}"
        if fix:
            yield "", f"fix: {fix}"


def _verdict(diagnosis: Diagnosis) -> str:
    if diagnosis.level is not None:
        return f"sessions run here at level {diagnosis.level}"
    level = diagnosis.limited_level
    if level == "none":
        return "error: nothing here isolates modules\nhint: what would help is said above, at each level"
    return (
        "error: no session runs here without a weaker level being accepted\n"
        f"hint: what would help is said above; or `--isolation {level}` accepts level `{level}`"
    )
