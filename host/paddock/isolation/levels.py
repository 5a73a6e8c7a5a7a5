"""The isolation level of a module, and what the weaker levels leave open.

A module gets the strongest available level, and none below the floor unless a person accepted it; a policy's floor is
never lowered. If a plan names a level, the module gets exactly that level, or does not start. No isolation at all is
never chosen without being named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from paddock.errors import (
    IsolationUnavailableError,
    KindError,
    LevelFailure,
    PolicyRefusedError,
)
from paddock.plan.model import ModuleEntry
from paddock.plan.problems import path_text
from paddock.policy.rule import Floor
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel

_BUILT_IN: Final = Floor()

_BY_STRENGTH: Final = tuple(level for level in ISOLATION_LEVELS if level != "none")


def choose_level(
    entry: ModuleEntry,
    *,
    reachable: Collection[IsolationLevel],
    failures: Mapping[IsolationLevel, LevelFailure],
    trusted: bool,
    named: IsolationLevel | None = None,
    floor: Floor = _BUILT_IN,
) -> IsolationLevel:
    """Return the level to run a plan entry's module at.

    `trusted` means that the operator accepted the plan, and `named` is a level that the operator accepted by its name,
    for all entries that name none. Only then may the level be below the floor, and never below one that is fixed.

    Raises:
        IsolationUnavailableError: no acceptable level works, with the steps that failed.
        KindError: the plan asks for less than the floor and no one accepted that.
        PolicyRefusedError: a policy sets a minimum above the requested level.
    """
    wanted = entry.isolation or named
    accepted = floor.levels if floor.is_fixed else (*floor.levels, *((named,) if named else ()))
    may_lower = trusted and not floor.is_fixed
    if floor.is_fixed and wanted is not None and wanted not in accepted:
        raise PolicyRefusedError([floor.refusal(wanted, path_text(entry.path, "isolation") if entry.isolation else "")])
    if wanted is not None and wanted not in accepted and not may_lower:
        raise _refused(wanted, path_text(entry.path, "isolation"), floor)
    if wanted == "none":
        return wanted
    place = path_text(entry.path, "isolation") if entry.isolation else "" if named else entry.path
    acceptable = [wanted] if wanted is not None else [one for one in _BY_STRENGTH if one in floor.levels or may_lower]
    for level in acceptable:
        if level in reachable:
            return level
    weaker = [level for level in _BY_STRENGTH if wanted is None and level in reachable and level not in acceptable]
    by_plan = ", or `--trust-plan`," if entry.path else ""  # a call has no plan
    raise IsolationUnavailableError(
        acceptable,
        place=place,
        failures={level: failures[level] for level in acceptable if level in failures},
        hints=[
            "`paddock doctor` says what is missing, and what would help",
            *(
                [f"the minimum is set by {floor.rule.describe()}"]
                if floor.is_fixed
                else (f"`--isolation {level}`{by_plan} accepts the weaker level `{level}`" for level in weaker)
            ),
        ],
    )


def _refused(level: IsolationLevel, place: str, floor: Floor) -> KindError:
    """Return the error for a level below the floor that a plan asks for and no one accepted."""
    weaker = f"isolation level `{level}` is weaker than {' and '.join(f'`{one}`' for one in floor.levels)}"
    return KindError(
        "IsolationRefusedError",
        f"{place}: {weaker}" if place else weaker,
        exit_code=4,
        detail=[f"not given: {sentence}" for sentence in guarantees_missing(level)],
        hints=[f"`--trust-plan` accepts what the plan says, `--isolation {level}` this level alone"],
    )


def guarantees_missing(level: IsolationLevel) -> tuple[str, ...]:
    """Return the guarantees of `ns` that a level lacks, as sentences for people."""
    return _MISSING[level]


_NOT_NOEXEC: Final = "code may be mapped into memory from granted folders"
_WITHOUT_NAMESPACES: Final = (
    "names, sizes and dates of files outside the grants can be seen, though not what is in them",
    "what other programs run by themselves (git hooks, start-up files) can be written inside a granted folder",
    "a folder cannot be granted for writing where the module's code, the plan or Paddock lies in it",
    "programs that set modes, owners or dates of files fail: that is refused everywhere, also in granted folders",
    "the private folder is one of the host's, and its size is not bounded",
    "sockets are refused, but there is no network of its own behind that, and so no `net: [self]`",
    "with a `net` grant, that one port can be connected to which the host's own proxy has, on any host",
    "names are not looked up, so that only clients that go by the proxy variables reach what was granted",
    "that a process exists can be found out, though it can be neither signalled nor traced",
    _NOT_NOEXEC,
)
_MISSING: Final[Mapping[IsolationLevel, tuple[str, ...]]] = {
    "ns": (),
    "bwrap": (
        _NOT_NOEXEC,
        "the number of files in the private folder is bounded only by memory, of which each counts 1.5 KiB",
        "control groups limit nothing: the host watches memory instead, and `cpu_quota` cannot be enforced",
    ),
    "landlock": _WITHOUT_NAMESPACES,
    "none": (
        "nothing is refused: a module can do all that the user who runs it can do",
        "of its limits only those are kept that the host watches from outside",
    ),
}
