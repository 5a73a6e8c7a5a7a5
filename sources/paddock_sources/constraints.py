"""Bounds on the versions of what modules depend on, as an operator or the author of a plan writes them.

A constraint is a package's name with versions, as in `mcp<2`. It narrows the versions that a resolution may choose. It
adds no package and names no source, so that also a plan that was not accepted may have some.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Self

from paddock_sources.errors import SourceError
from paddock_sources.kinds.package_uri import package_key

MAX_CONSTRAINTS: Final = 200  # in one list; a person writes a handful
_MAX_LENGTH: Final = 200  # characters of one
# The test for a common version takes time that grows with their product, and an unaccepted plan can ask for it.
_MAX_CLAUSES: Final = 8  # of one, such as `>=1` and `<2`
_MAX_OF_ONE_PACKAGE: Final = 8  # from a plan, its entry, the settings and a `uv.lock` together
_REMEMBERED: Final = 1024  # packages' constraints, judged before: every entry of a plan repeats the plan's
# In every worker, or needed in none. `paddock` is what `paddock-host` was called; on the index it is another project.
PROVIDED: Final = ("amplifier-core", "paddock", "paddock-host", "paddock-sdk")
_EXAMPLE: Final = "a constraint is a package and its versions, as in `mcp<2` or `httpx>=0.27,<1`"
_LISTED: Final = 8  # constraints that one message names


class ConstraintTextError(ValueError):
    """Raised for a text that is no constraint; `accepted` says what one looks like."""

    def __init__(self, problem: str, accepted: str = _EXAMPLE) -> None:
        self.problem = problem
        self.accepted = accepted
        super().__init__(problem)


@dataclass(frozen=True, slots=True, order=True)
class Constraint:
    """The versions of the package `name` that may be chosen; `place` is where it is written, for people."""

    name: str
    specifier: str
    place: str = ""

    @classmethod
    def parse(cls, text: object, place: str = "") -> Self:
        """Return the constraint that a text is.

        Raises:
            ConstraintTextError: it is none, or says more than a name and versions.
        """
        from packaging.requirements import InvalidRequirement, Requirement

        if not isinstance(text, str):
            raise ConstraintTextError("must be text")
        if len(text) > _MAX_LENGTH or not text.isprintable():
            raise ConstraintTextError(f"is longer than {_MAX_LENGTH} characters, or has an unprintable one")
        shown = f"`{text}`"
        try:
            requirement = Requirement(text)
        except (InvalidRequirement, RecursionError) as error:
            raise ConstraintTextError(f"{shown} is no package with versions") from error
        if requirement.url is not None:
            raise ConstraintTextError(f"{shown} has an address, and a constraint names no source")
        if requirement.extras:
            raise ConstraintTextError(f"{shown} has extras, and a constraint names only versions")
        if requirement.marker is not None:
            raise ConstraintTextError(f"{shown} has a condition after `;`")
        if not requirement.specifier:
            raise ConstraintTextError(f"{shown} names no versions")
        if len(requirement.specifier) > _MAX_CLAUSES:
            raise ConstraintTextError(f"{shown} has more than {_MAX_CLAUSES} conditions on one package")
        if any(one.operator == "===" for one in requirement.specifier):
            raise ConstraintTextError(f"{shown} compares text with `===`, and not versions")
        name = package_key(requirement.name)
        if name in PROVIDED:
            raise ConstraintTextError(f"{shown} has no effect: `{name}` is always Paddock's own", "leave it out")
        return cls(name, str(requirement.specifier), place)

    @property
    def text(self) -> str:
        """The constraint as uv takes it."""
        return f"{self.name}{self.specifier}"

    @property
    def shown(self) -> str:
        """The constraint and its place, for people."""
        return f"`{self.text}` ({self.place})" if self.place else f"`{self.text}`"

    def allows(self, version: str) -> bool:
        """Return whether a version is within it; a text that is no version is not."""
        from packaging.specifiers import SpecifierSet
        from packaging.version import InvalidVersion

        try:
            return SpecifierSet(self.specifier).contains(version, prereleases=True)
        except InvalidVersion:
            return False


@dataclass(frozen=True, slots=True)
class DependencyRules:
    """What decides the versions of what a module depends on, beside its own requirements.

    With `by_uv_lock`, they are those of the `uv.lock` in the module's folder or repository. For the package of an MCP
    server, `programs` are those of its programs that entries of the plan name, and `without_scripts` takes it although
    it has scripts for its installation, which are not run.
    """

    constraints: tuple[Constraint, ...] = field(default=())
    by_uv_lock: bool = False
    programs: frozenset[str] = frozenset()
    without_scripts: bool = False

    def joined(self, *others: DependencyRules) -> DependencyRules:
        """Return these rules together with others.

        Raises:
            SourceError: two constraints leave no version of a package.
        """
        joined = self.together(self, *others)
        by_text: dict[str, Constraint] = {}
        for one in joined.constraints:  # the agents of a plan repeat those of its entries, at other places
            by_text.setdefault(one.text, one)
        constraints = tuple(by_text.values())
        refuse_contradictions(constraints)
        return replace(joined, constraints=constraints)

    @classmethod
    def together(cls, *rules: DependencyRules) -> DependencyRules:
        """Return all of these rules, which may contradict each other."""
        return cls(
            tuple(constraint for one in rules for constraint in one.constraints),
            any(one.by_uv_lock for one in rules),
            frozenset[str]().union(*(one.programs for one in rules)),
            any(one.without_scripts for one in rules),
        )

    def broken_by(self, versions: Iterable[tuple[str, str]]) -> tuple[BrokenConstraint, ...]:
        """Return the constraints that these versions, by package, are not within."""
        if not self.constraints:
            return ()
        chosen = {package_key(name): version for name, version in versions}
        return tuple(
            BrokenConstraint(one, chosen[one.name])
            for one in self.constraints
            if one.name in chosen and not one.allows(chosen[one.name])
        )


NO_RULES: Final = DependencyRules()


@dataclass(frozen=True, slots=True)
class BrokenConstraint:
    """A constraint, and the version of its package that it does not allow."""

    constraint: Constraint
    version: str

    @property
    def shown(self) -> str:
        """The two in words."""
        return f"{self.constraint.name} {self.version}, where only {self.constraint.shown} is wanted"


def outside(version_of: Mapping[str, str], constraints: Collection[Constraint]) -> Iterator[str]:
    """Yield the names of those versions that a constraint does not allow."""
    for one in constraints:
        if one.name in version_of and not one.allows(version_of[one.name]):
            yield one.name


def listed(constraints: Collection[Constraint]) -> str:
    """Return constraints as part of a sentence."""
    shown = [one.shown for one in constraints][:_LISTED]
    more = [f"{len(constraints) - _LISTED} more"] if len(constraints) > _LISTED else []
    return " and ".join([*shown, *more])


def refuse_contradictions(constraints: Iterable[Constraint]) -> None:
    """Check that the constraints of each package have a version in common.

    Raises:
        SourceError: they have none, and it names the places of those that contradict each other; or one package has
            more than are compared.
    """
    by_name: dict[str, list[Constraint]] = {}
    for one in constraints:
        by_name.setdefault(one.name, []).append(one)
    for name, group in by_name.items():
        if len(group) > _MAX_OF_ONE_PACKAGE:
            raise SourceError(
                f"`{name}` has {len(group)} constraints: {listed(group)}",
                code="ConstraintsContradictError",
                hints=[f"join them to one, as in `{name}>=1,<2`; {_MAX_OF_ONE_PACKAGE} are taken for one package"],
            )
        if _leave_a_version(group):
            continue
        pairs = itertools.combinations(group, 2)
        culprits = next((pair for pair in pairs if not _leave_a_version(pair)), group)
        alone = next(((one,) for one in group if not _leave_a_version([one])), None)
        raise contradiction(name, alone or culprits)


def contradiction(name: str, constraints: Collection[Constraint]) -> SourceError:
    """Return the error for constraints that leave no version of a package."""
    return SourceError(
        f"no version of `{name}` is within all its constraints: {listed(constraints)}",
        code="ConstraintsContradictError",
        hints=["take one of them out, or widen it"],
    )


def _leave_a_version(constraints: Iterable[Constraint]) -> bool:
    """Return whether some version is within all of them."""
    return _have_a_version(frozenset(one.specifier for one in constraints))


@lru_cache(_REMEMBERED)
def _have_a_version(specifiers: frozenset[str]) -> bool:
    from packaging.specifiers import SpecifierSet

    return not SpecifierSet(",".join(sorted(specifiers)), prereleases=True).is_unsatisfiable()
