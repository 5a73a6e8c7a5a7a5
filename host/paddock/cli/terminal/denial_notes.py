"""Show a person, at the end of a command, what modules were refused and which lines would permit it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, cast

from paddock.authorization.suggestions.pasted import merged
from paddock.cli.terminal.render import Screen
from paddock.errors import Denial
from paddock.isolation.denials.attempt import KEEP, SEE_VARIABLE
from paddock.lookalikes import marked
from paddock.plan.limits import limit_option_in_line
from paddock.plan.model import MountPlan
from paddock.plan.permissions import (
    Permissions,
    allow_option,
    grant_option,
    grants_in_line,
    permissions_in_line,
    permissions_line,
)
from paddock.text import escape

_MAX_TOGETHER: Final = 8  # acts that people weigh in one line
_MAX_LINES: Final = 20  # a person reads them after the run; scripts get all


def tell_denials(
    screen: Screen,
    denials: Iterable[Mapping[str, object]],
    left_out: int = 0,
    *,
    given: Permissions | None = None,
    plan: MountPlan | None = None,
) -> None:
    """Write a line for each different denial; a denial has the facts of `Denial.as_dict`.

    The fix of each is written as a line of the plan or, for a call, as its options, so that a person weighs one act at
    a time. A few lines for one entry are one line as well, as an entry has but one: pasted alone, each would take back
    the one before. A module that only a bundle of the `plan` names gets a whole entry. Options that a call was `given`
    already are not repeated. `left_out` counts the denials that the
    host did not keep.
    """
    different = _different(denials)
    for text, denial in different[:_MAX_LINES]:
        screen.warning(f"{text}; {_remedy(denial, given, plan)}")
    for name, line in () if given is not None else _together(denial for _, denial in different):
        screen.warning(f"to allow all of this, write {_in_plan(name, line, plan)}")
    if len(different) > _MAX_LINES:
        where = "the audit log" if given is not None else "`--json`"  # the result of a call that succeeded has none
        screen.note(f"{len(different) - _MAX_LINES} more denials are not shown; {where} has them")
    if left_out:
        screen.warning(f"{left_out} more acts were refused, or may have been: too many to note which")


def acts_and_options(
    denials: Iterable[Mapping[str, object]], given: Permissions
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a few different refused acts, a line each, and the options that allow them, as a command gets them.

    What was `given` already is not among the options.
    """
    acts, options = [], dict[str, None]()
    had = frozenset(grants_in_line(permissions_line(given)))
    for text, denial in _different(denials)[:_MAX_TOGETHER]:
        acts.append(text)
        limit = limit_option_in_line(denial.grant, denial.target.partition(":")[0])
        lacking = (grant_option(*grant) for grant in grants_in_line(denial.grant) if grant not in had)
        options |= dict.fromkeys(lacking if limit is None else [limit.replace(" ", "=", 1)])
    return tuple(acts), tuple(options)


def lines_to_paste(
    denials: Iterable[Mapping[str, object]], proposed: Mapping[str, Permissions]
) -> dict[str, Permissions]:
    """Return what each module lacked: a grant for what it is shown to be refused, and what was `proposed` in vain.

    A line that a person pastes grants nothing that `tell_denials` left out.
    """
    grants = {name: [permissions] for name, permissions in proposed.items()}
    for _, denial in _different(denials)[:_MAX_LINES]:
        if (permissions := _pasted(denial)) is not None:
            grants.setdefault(denial.caller, []).append(permissions)
    return {name: merged(several)[0] for name, several in grants.items()}


def homes_to_keep(denials: Iterable[Mapping[str, object]], proposed: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that lost files below their home, and those for which a home that stays was `proposed`."""
    lost = (denial.caller for _, denial in _different(denials)[:_MAX_LINES] if denial.grant == KEEP)
    return tuple(dict.fromkeys([*proposed, *lost]))


def tell_lines_to_paste(
    screen: Screen,
    lines: Mapping[str, Permissions],
    keeps: Sequence[str] = (),
    *,
    is_complete: bool,
    plan: MountPlan | None = None,
) -> None:
    """Write the lines of each module's entry; those in `keeps` need a home that stays.

    Not `is_complete`: something may have been refused without a report.
    """
    for name in dict.fromkeys([*lines, *keeps]):
        written = [permissions_line(lines[name])] if name in lines else []
        written += [KEEP] if name in keeps else []
        where, _, one = _in_plan(name, ", ".join(written), plan).partition(": ")
        # Each alone, in rows that YAML takes as one, so that it can be pasted.
        pasted = [one] if one.startswith("- ") else written
        screen.text("\n".join([escape(marked(f"write {where}:")), *(f"  {escape(line)}" for line in pasted)]))
    if lines or keeps:
        return
    if is_complete:
        screen.note("no module was refused anything that a line of the plan would grant")
    else:
        screen.note("no line can be proposed: no refusal that a line would lift is known, and not all are reported")


def _pasted(denial: Denial) -> Permissions | None:
    """Return what a denial adds to a line to paste: nothing for a variable, of which a module only says the name."""
    return None if denial.operation == SEE_VARIABLE else permissions_in_line(denial.grant)


def tell_programs(screen: Screen, module: str, programs: Sequence[str]) -> None:
    """Write a line about programs that a module started, whose refusals by the kernel are not reported."""
    if programs:
        names = ", ".join(f"`{marked(name)}`" for name in programs)
        these = "this program" if len(programs) == 1 else "these programs"
        screen.note(
            f"module `{marked(module)}` started {names}: what the kernel refused {these} is not reported; "
            f"`paddock why {shlex.quote(module)} read PATH` (or write, run, net) shows what is granted"
        )


def tell_blindness(screen: Screen, module: str) -> None:
    """Write a line about the module of a call that may not see the working directory, and may have failed over that."""
    screen.note(
        f"no grant of module `{marked(module)}` covers the working directory; to let it read there, add --allow-read=."
    )


def _different(denials: Iterable[Mapping[str, object]]) -> list[tuple[str, Denial]]:
    """Return each denial that is worth a line, with its text, in the order in which they are shown."""
    all_of_them = _without_climbs(Denial(**cast(Mapping[str, Any], denial)) for denial in denials)
    return [*{marked(denial.describe()): denial for denial in all_of_them}.items()]


def _without_climbs(denials: Iterable[Denial]) -> Iterator[Denial]:
    """Leave out the folders above one that was refused: to make `a/b`, modules try `a/b`, then `a`, then its parents.

    The lines that would allow those grant far more than the module needs.
    """
    latest: dict[str, PurePath] = {}
    for denial in denials:
        if denial.operation == "write to":
            before, target = latest.get(denial.caller), PurePath(denial.target)
            latest[denial.caller] = target
            if before is not None and target in before.parents:
                continue
        yield denial


def _in_plan(name: str, line: str, plan: MountPlan | None) -> str:
    """Return where a line is to be written in the plan: in a module's entry, or with the entry that it lacks."""
    for entry in plan.own_entries() if plan is not None else ():
        section, is_item, _ = entry.path.partition("[")
        if (entry.instance_id or entry.module) == name and is_item:
            if plan is not None and plan.positions.spot_of(entry.path)[0]:
                named = f"module: {entry.module}" + (f", instance_id: {name}" if entry.instance_id else "")
                return f"in the plan, in `{section}`: - {{{named}, {line}}}"
            break
    return f"in the entry of `{marked(name)}` in the plan: {line}"


def _remedy(denial: Denial, given: Permissions | None, plan: MountPlan | None) -> str:
    if given is None and denial.grant and denial.layer != "destination":
        return f"to allow it, write {_in_plan(denial.caller, denial.grant, plan)}"
    if given is None or not denial.grant:
        return denial.hint
    if denial.grant == KEEP:
        return f"a call keeps nothing; in a plan, write in its entry: {denial.grant}"
    if (option := limit_option_in_line(denial.grant, denial.target.partition(":")[0])) is not None:
        return f"to allow more, add {option}"
    had = frozenset(grants_in_line(permissions_line(given)))
    lacking = (allow_option(*grant) for grant in grants_in_line(denial.grant) if grant not in had)
    return f"to allow it, add {' '.join(lacking)}"


def _together(denials: Iterable[Denial]) -> Iterator[tuple[str, str]]:
    """Yield each module with several denials, with the one line for them, where that may hold all that theirs do."""
    lines: dict[str, dict[str, Permissions]] = {}
    for denial in denials:
        if (permissions := _pasted(denial)) is not None:
            lines.setdefault(denial.caller, {})[denial.grant] = permissions
    for name, several in lines.items():
        if 1 < len(several) <= _MAX_TOGETHER:
            permissions, left = merged([*several.values()])
            if not left:
                yield name, permissions_line(permissions)
