"""A module's grants, and where each is stated: in its plan entry, or by the operator beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from paddock.errors import PlanProblem
from paddock.plan.families import is_exclusion, is_program_path
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import FAMILIES, Permissions, SecretGrant, grants_of, united
from paddock.plan.problems import path_text
from paddock.plan.source_map import Positions
from paddock.policy.rule import Rule
from paddock_sandbox.profile import IsolationLevel


@dataclass(frozen=True, slots=True)
class OperatorGrant:
    """The operator's grants to a module beyond its plan, and where they are stated: a flag, the grants file.

    `stays_inside`: the operator gave its relative paths as places inside the working directory only. `keeps`: its home
    stays from session to session.
    """

    permissions: Permissions
    rule: Rule
    stays_inside: bool = False
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class RequestedGrant:
    """One grant: `path` is its place in the plan, if it has one; `given` is the operator's way of granting it, if any.

    `stays_inside`: no plan states it, and it is a path that was given as a place inside the working directory only.
    """

    family: str
    value: str | SecretGrant
    path: str = ""
    given: Rule | None = None
    stays_inside: bool = False

    @property
    def is_path(self) -> bool:
        """Whether it is a path: to read, to write to, or of a program."""
        return (self.family in ("read", "write") and not self.excludes) or (
            self.family == "run" and is_program_path(str(self.value))
        )

    @property
    def excludes(self) -> bool:
        """Whether it grants nothing and excludes something from what is to be read."""
        return self.family == "read" and is_exclusion(str(self.value))

    @property
    def passes_on(self) -> bool:
        """Whether it is one of the operator's variables, passed on by its name."""
        return self.family == "env" and isinstance(self.value, str) and "=" not in self.value

    @property
    def text(self) -> str:
        """The grant in the form people know: `net api.example.org`."""
        value = self.value if isinstance(self.value, str) else self.value.name
        # A variable may be given a value that others should not read.
        shown = value.partition("=")[0] if self.family == "env" else value
        return f"{self.family} `{shown}`" + (f" (given by {self.given.describe()})" if self.given is not None else "")


def grants_asked(entry: ModuleEntry, given: Iterable[OperatorGrant]) -> Iterator[RequestedGrant]:
    """Yield all grants of a module: those of its entry, in its order, and then those given besides."""
    by_operator: dict[tuple[str, str | SecretGrant], OperatorGrant] = {}
    for one in given:
        for family in FAMILIES:
            for value in getattr(grants_of(one.permissions), family):
                by_operator.setdefault((family, value), one)
    written = grants_of(entry.permissions)
    is_preset = entry.permissions.preset is not None
    for family in FAMILIES:
        for index, value in enumerate(getattr(written, family)):
            path = path_text(entry.path, "permissions", *(() if is_preset else (family, index)))
            also_given = by_operator.pop((family, value), None)
            yield RequestedGrant(family, value, path, None if also_given is None else also_given.rule)
    for (family, value), one in by_operator.items():
        grant = RequestedGrant(family, value, given=one.rule)
        is_inside = one.stays_inside and grant.is_path and not str(value).startswith(("/", "~"))
        yield replace(grant, stays_inside=is_inside)


def union_of(entry: ModuleEntry, given: Iterable[OperatorGrant]) -> Permissions:
    """Return an entry's grants together with those given besides; the entry's own come first."""
    return united((entry.permissions, *(one.permissions for one in given)))


def contradictions(entry: ModuleEntry, asked: Iterable[RequestedGrant]) -> Iterator[PlanProblem]:
    """Yield a problem for each grant that contradicts an earlier one."""
    secrets: dict[str, SecretGrant] = {}
    variables: dict[str, str] = {}
    placed = [(grant.path or path_text(entry.path, "permissions"), grant) for grant in asked]
    for path, grant in placed:
        value = grant.value
        if isinstance(value, SecretGrant):
            first = secrets.setdefault(value.name, value)
            if first != value:
                problem = f"{grant.text} is granted twice, and not alike: {_use(first)} and {_use(value)}"
                yield PlanProblem(path, problem, "keep one of the two")
        elif grant.family == "env" and variables.setdefault(value.partition("=")[0], value) != value:
            problem = f"{grant.text} is granted twice, with different values"
            yield PlanProblem(path, problem, "keep one of the two")
    for path, grant in placed:
        name = grant.value if isinstance(grant.value, str) else ""
        if grant.family == "env" and name in secrets and secrets[name].inject is not None:
            yield PlanProblem(
                path,
                f"{grant.text} would show the module the secret `{name}`, which the host is to inject",
                f'write "{name}=${{{name}}}", which shows it a stand-in',
            )


def _use(secret: SecretGrant) -> str:
    return f"injected at `{secret.inject}`" if secret.inject is not None else "in the open"


def families_written(entry: ModuleEntry, positions: Positions | None) -> Iterator[tuple[Rule, str]]:
    """Yield each part of an entry's own grants as a rule, and its family."""
    if positions is None:
        return
    permissions = entry.permissions
    if permissions.preset is not None:
        path = path_text(entry.path, "permissions")
        yield Rule(positions.place_of(path), f"{path} = {permissions.preset}"), "all families"
    for family in FAMILIES:
        values = getattr(permissions, family)
        if values:
            path = path_text(entry.path, "permissions", family)
            shown = (RequestedGrant(family, value).text.removeprefix(f"{family} ") for value in values)
            yield Rule(positions.place_of(path), f"{path} = [{', '.join(shown)}]"), family


@dataclass(frozen=True, slots=True)
class ModuleRequest:
    """A module that is to be started: its entry, the source where it was found, and the operator's further grants.

    `source` is that of its resolution, not of its entry: a variable may have replaced it. `given` is granted beyond the
    entry; `named` is the level that a flag gives to entries that name none. `commit` and `tree` are those of its code;
    both can be empty.
    """

    entry: ModuleEntry
    source: str
    given: tuple[OperatorGrant, ...] = ()
    named: IsolationLevel | None = None
    commit: str = ""
    tree: str = ""

    def effective(self) -> ModuleEntry:
        """Return the entry with all its grants."""
        if not self.given:
            return self.entry
        changed: dict[str, object] = {"permissions": union_of(self.entry, self.given)}
        if any(one.keeps for one in self.given):
            changed["state"] = "keep"
        return self.entry.model_copy(update=changed)

    def grants(self) -> tuple[RequestedGrant, ...]:
        """Return all grants, and where each is stated."""
        return tuple(grants_asked(self.entry, self.given))
