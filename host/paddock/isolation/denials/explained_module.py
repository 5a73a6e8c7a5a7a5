"""A module, and all that decides what it may do: what explanations are about.

It is made for each module that starts; the explanations, which few need, are loaded with the first refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.fixed_paths import FixedPaths
from paddock.isolation.private_places import is_cover
from paddock.plan.families import EXCLUDED_SECRETS, EXCLUSION, is_exclusion
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import Permissions, by_preset, grants_of, with_grant
from paddock.policy.authority import Authority
from paddock.policy.outer_repository import OuterRepository
from paddock.policy.owner import Owner
from paddock_sandbox.profile import Mount, SandboxProfile


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
    def rights(self) -> Authority:
        """What it may do through the host."""
        return Authority(self.entry)

    @property
    def programs_text(self) -> str:
        """Which programs it may run, as a clause for people."""
        granted = self.permissions.run
        if not granted and self.profile.programs:
            return "of programs it may run only those that come with its source"
        return f"of programs it may run only {', '.join(granted)}" if granted else "it may run no program at all"

    @property
    def has_namespaces(self) -> bool:
        """Whether it has a file system of its own."""
        return self.profile.level in LEVELS_WITH_NAMESPACES

    def mounts_around(self, place: Path) -> Iterator[Mount]:
        """Yield the mounts that a place, without links in it, is at or below."""
        return (mount for mount in self.profile.mounts if place.is_relative_to(mount.target))

    def mount_at(self, place: Path) -> Mount | None:
        """Return the mount that decides what it may do at a place: the deepest, but rules of Landlock add up."""
        if not self.has_namespaces:
            return max(self.mounts_around(place), key=lambda mount: mount.writable, default=None)
        return max(self.mounts_around(place), key=lambda mount: len(Path(mount.target).parts), default=None)

    def why_covered(self, place: Path) -> str | None:
        """Return why no grant lets it have what is at a place outside; None if one may. Nothing is looked up."""
        mount = self.mount_at(place)
        if mount is None or not is_cover(mount):
            return None
        return f"it is in `{mount.target}`, which is Paddock's own: modules find an empty folder in its place"

    def excluded(self, path: Path) -> Path | None:
        """Return the closed place that a path, without links in it, is at or below; None where it is in none."""
        found = (
            one for one in self.profile.closed if path.is_relative_to(one.target) or path.is_relative_to(one.source)
        )
        return next((Path(one.source) for one in found), None)

    def opened(self, family: str, place: Path) -> Permissions:
        """Return its grants with one more, of a closed place, and without a word that excludes this place alone."""
        others = [Path(one.source) for one in self.profile.closed if Path(one.source) != place]
        kept = tuple(
            word for word in self.permissions.read if not self._excludes(word, place) or self._has(word, others)
        )
        opened = with_grant(self.permissions.model_copy(update={"read": kept}), family, self.written_as(place))
        return by_preset(opened, (self.entry.permissions.preset,))

    def _has(self, word: str, places: Iterable[Path]) -> bool:
        return any(self._excludes(word, place) for place in places)

    def _excludes(self, word: str, place: Path) -> bool:
        """Whether a person excluded a place by this very word; of secret files nobody wrote a name."""
        name = word.removeprefix(EXCLUSION)
        if not is_exclusion(word) or word == EXCLUDED_SECRETS:
            return False
        return self.owner.expanded(name, self.working_dir) == place if "/" in name else fnmatchcase(place.name, name)

    def written_as(self, path: Path) -> str:
        """Return a path as a plan would spell it: relative to the working directory if below it."""
        if not path.is_relative_to(self.working_dir):
            return str(path)
        inside = path.relative_to(self.working_dir)
        return f"./{inside}" if inside.parts else "."
