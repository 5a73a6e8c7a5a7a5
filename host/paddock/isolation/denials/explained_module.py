"""A module, and all that decides what it may do: what explanations are about.

It is made for each module that starts; the explanations, which few need, are loaded with the first refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from paddock.isolation.fixed_paths import FixedPaths
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import Permissions, grants_of
from paddock.policy.outer_repository import OuterRepository
from paddock.policy.owner import Owner
from paddock_sandbox.profile import SandboxProfile


class Rights(Protocol):
    """What a module may do through the host."""

    def may_emit(self, event: str) -> bool:
        """Whether it may emit an event."""
        ...

    def may_call(self, point: str, name: str | None) -> bool:
        """Whether it may call the object mounted at a point, or all of it, without having been handed it."""
        ...

    def check_handler(self, event: str) -> None:
        """Raise `CallRefusedError` for an event that it may not handle."""
        ...

    def may_mount(self, point: str) -> bool:
        """Whether it may mount objects of its own at a point."""
        ...


@dataclass(frozen=True, slots=True)
class ExplainedModule:
    """A module, and what decides about it: `entry` has the permissions in effect, `written` its plan's.

    `fixed` are the paths that no module may change, its own code first; `protected` are other paths that stay as they
    are in its writable folders. `references` are the names for which its configuration and variables have a `${NAME}`,
    None where that is not known. `unseen` are repositories that git lacks.
    """

    entry: ModuleEntry
    profile: SandboxProfile
    working_dir: Path
    owner: Owner
    rights: Rights
    fixed: FixedPaths
    protected: tuple[Path, ...] = ()
    written: Permissions | None = None
    references: tuple[str, ...] | None = None
    unseen: tuple[OuterRepository, ...] = ()

    @property
    def name(self) -> str:
        """The module's name for people."""
        return self.entry.instance_id or self.entry.module

    @property
    def permissions(self) -> Permissions:
        """Its grants, family by family."""
        return grants_of(self.entry.permissions)

    @property
    def programs_text(self) -> str:
        """Which programs it may run, as a clause for people."""
        granted = self.permissions.run
        return f"of programs it may run only {', '.join(granted)}" if granted else "it may run no program at all"

    def written_as(self, path: Path) -> str:
        """Return a path as a plan would spell it: relative to the working directory if below it."""
        if not path.is_relative_to(self.working_dir):
            return str(path)
        inside = path.relative_to(self.working_dir)
        return f"./{inside}" if inside.parts else "."
