"""Show a person, at the end of a command, what modules were refused and which lines would permit it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, cast

from paddock.cli.terminal.render import Screen
from paddock.errors import Denial
from paddock.lookalikes import marked
from paddock.plan.permissions import allow_option, grants_in_line

_STATE: Final = "state:"
_LIMIT: Final = re.compile(r"limits: \{(\w+): (\w+)\}")
_MAX_LINES: Final = 20  # a person reads them after the run; scripts get all


def tell_denials(
    screen: Screen, denials: Iterable[Mapping[str, object]], left_out: int = 0, *, of_call: bool = False
) -> None:
    """Write a line for each different denial; a denial has the facts of `Denial.as_dict`.

    The fix is written as a line of the plan or, for a call, as its options. `left_out` counts the denials that the host
    did not keep.
    """
    all_of_them = (Denial(**cast(Mapping[str, Any], denial)) for denial in denials)
    notes = (f"{marked(denial.describe())}; {_remedy(denial, of_call)}" for denial in _without_climbs(all_of_them))
    lines = list(dict.fromkeys(notes))
    for line in lines[:_MAX_LINES]:
        screen.warning(line)
    if len(lines) > _MAX_LINES:
        where = "the audit log" if of_call else "`--json`"  # the result of a call that succeeded has none
        screen.note(f"{len(lines) - _MAX_LINES} more denials are not shown; {where} has them")
    if left_out:
        screen.warning(f"{left_out} more acts were refused, or may have been: too many to note which")


def tell_programs(screen: Screen, module: str, level: str, programs: Sequence[str]) -> None:
    """Write a line about programs that a module started, whose refusals by the kernel are not reported."""
    if programs and level != "none":
        names = ", ".join(f"`{marked(name)}`" for name in programs)
        screen.note(
            f"module `{marked(module)}` started {names}: the kernel refuses a program in silence; "
            f"`paddock why {shlex.quote(module)} read PATH` (write, run, net) shows what it may"
        )


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


def _remedy(denial: Denial, of_call: bool) -> str:
    if not (of_call and denial.grant):
        return denial.hint
    if denial.grant.startswith(_STATE):
        return f"a call keeps nothing; in a plan, write in its entry: {denial.grant}"
    if (limit := _LIMIT.fullmatch(denial.grant)) is not None:
        return f"to allow more, add --limit {limit[1]}={limit[2]}"
    return f"to allow it, add {' '.join(allow_option(*grant) for grant in grants_in_line(denial.grant))}"
