"""Decide which paths a module may be granted: rules judge the real place of a path, and never its spelling.

A path is judged when a plan is evaluated, and again when the module is about to see it: its target may have changed in
between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paddock.errors import PolicyRefusedError, Refusal
from paddock.plan.model import ModuleEntry
from paddock.plan.problems import path_text
from paddock.policy.grant_request import RequestedGrant
from paddock.policy.grants import Grants
from paddock.policy.guarded_paths import runner_opened
from paddock.policy.path_walk import GrantedPath
from paddock.policy.programs import Program
from paddock.policy.rule import BUILT_IN, Rule, refusal_by
from paddock_sandbox.profile import ANY_PROGRAM


@dataclass(frozen=True, slots=True)
class GrantPathRule:
    """Grants of these `families` lie below `roots`; `said` describes one that does not, and `hint` is the fix.

    `binds` says which grants the rule applies to: all of them, those that the plan states, or those that the operator
    gave as places inside the working directory. With `keeps_guarded_for`, a user's home, a grant may also not open to a
    module any file in the first root that this user's own programs run by themselves.
    """

    families: frozenset[str]
    roots: tuple[Path, ...]
    rule: Rule
    said: str
    hint: str
    binds: Literal["all", "stated", "given"] = "all"
    keeps_guarded_for: Path | None = None

    def concerns(self, grant: RequestedGrant) -> bool:
        """Whether the rule applies to a grant; of programs, to those granted by their paths."""
        return grant.is_path and self._binds(grant)

    def lets_see(self, grant: RequestedGrant, path: Path) -> bool:
        """Whether a grant of every program may make the one at `path` visible."""
        return not self._binds(grant) or covers_path(self.roots, path)

    def refusal(self, grant: RequestedGrant, granted: GrantedPath) -> Refusal | None:
        """Return why a grant that leads to `granted` is refused; None: it is permitted."""
        if not self.concerns(grant) or (covers_path(self.roots, granted.path) and not self._opens(granted.path)):
            return None
        leads = ""
        if granted.written != grant.value:
            leads = f", which needs `{granted.path}`,"
        elif str(granted.path) != granted.written:
            leads = f", which is `{granted.path}`,"
        return refusal_by(self.rule, grant.path, f"{grant.text}{leads} {self.said}", self.hint)

    def _binds(self, grant: RequestedGrant) -> bool:
        if grant.family not in self.families:
            return False
        if self.binds == "given":
            return grant.stays_inside
        return self.binds == "all" or grant.given is None

    def _opens(self, path: Path) -> bool:
        inside = self.roots[0]
        home = self.keeps_guarded_for
        return home is not None and path.is_relative_to(inside) and bool(runner_opened(path, inside, home))


@dataclass(frozen=True, slots=True)
class PathRules:
    """The rules about the paths of one module, and the grants that were judged by them."""

    entry: ModuleEntry
    rules: tuple[GrantPathRule, ...] = ()
    asked: tuple[RequestedGrant, ...] = ()

    def check(self, grants: Grants) -> None:
        """Refuse paths that a module would see and that differ from those judged when its plan was evaluated.

        Raises:
            PolicyRefusedError: one lies outside the places that may be granted.
        """
        paths = [("read", path.written, path) for path in grants.reads]
        paths += [("write", path.written, path) for path in grants.writes]
        paths += [("read", path.written, path) for path in grants.brought.folders]
        paths += [("run", program.name, path) for program in grants.located for path in program.judged]
        refusals = list(self._refusals(paths))
        if refusals:
            raise PolicyRefusedError(refusals)

    def lets_see(self, program: Program) -> bool:
        """Return whether a module that may run every program may see this one, with all it needs."""
        asked = [one for one in self.asked if one.family == "run" and one.value == ANY_PROGRAM]
        grants = [one for one in asked if one.given is not None] or asked or [RequestedGrant("run", ANY_PROGRAM)]
        return all(
            rule.lets_see(grant, path.path) for rule in self.rules for grant in grants for path in program.judged
        )

    def _refusals(self, paths: Iterable[tuple[str, str, GrantedPath]]) -> Iterator[Refusal]:
        for family, written, path in paths:
            known = [one for one in self.asked if one.family == family and one.value == written]
            # A path that both the plan and the operator ask for counts as the operator's.
            grant = next((one for one in known if one.given is not None), None) or next(iter(known), None)
            if grant is None:
                grant = RequestedGrant(family, written, path_text(self.entry.path, "permissions"))
            if grant.given is not None and grant.given.location == BUILT_IN and path.links:
                # No person granted it, and none was in its path when it was found.
                yield refusal_by(grant.given, grant.path, f"{grant.text} is a link by now", "start again")
            for rule in self.rules:
                refusal = rule.refusal(grant, path)
                if refusal is not None:
                    yield refusal


def covers_path(roots: Iterable[Path], path: Path) -> bool:
    """Whether a path without links is one of these, or below one."""
    return any(path.is_relative_to(root) for root in roots)
