"""Read, as the host, the files that a plan's instruction or a person's line mentions, within its writer's rights.

The host could read all that its user can, and what it reads is sent to a model. So a text of the working directory,
which may come from a stranger, mentions only plain files below it that the plan lets a module read, and no link leads
out. Only a plan's own text, and a line that a person types, may name other places; for the plan it has to be accepted.
Nothing of Paddock's own is ever read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from paddock.errors import PlanError, PlanProblem
from paddock.isolation.denials.attempted_path import AttemptedPath, open_within
from paddock.isolation.private_places import NO_PLACES, PrivatePlaces
from paddock.plan.instruction import MAX_FILE, MentioningText, NoSuchFileError, compose
from paddock.plan.model import MountPlan
from paddock.plan.permissions import Permissions, grants_of
from paddock.plan.problems import NotAcceptedError
from paddock.policy.exclusions import Exclusions, ExclusionSearch
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from paddock.text import reason_of
from paddock_sandbox.profile import Mount
from paddock_sdk.protocol.body import Record
from paddock_sources import SourceError
from paddock_sources.tree import SourceTree

_PLACE: Final = "session.instruction"
_ANOTHER: Final = "name another file"
_ELSEWHERE: Final = "a file may mention only what is in the working directory"


@dataclass(frozen=True, slots=True)
class MentionedFiles:
    """The files that may be mentioned in one working directory: there in `granted` alone, or, if it is None, in all.

    None of `excluded` may be mentioned, which no module may read, and nothing that is `private`. A module may have made
    any link in the folders that are `changeable`.
    """

    working_dir: Path
    owner: Owner
    granted: tuple[Path, ...] | None = None
    changeable: tuple[Path, ...] = ()
    excluded: tuple[Path, ...] = ()
    private: PrivatePlaces = NO_PLACES

    @classmethod
    def of_plan(cls, plan: MountPlan, working_dir: Path, owner: Owner, private: PrivatePlaces) -> MentionedFiles:
        """Return the files that texts of the working directory may mention under a plan; blocks."""
        granted = [grants_of(entry.permissions) for entry in plan.own_entries()]
        changeable = _resolved((text for one in granted for text in one.write), working_dir, owner)
        readers = [_readable(one, working_dir, owner) for one in dict.fromkeys(granted)]
        read = tuple(place for places, _ in readers for place in places)
        closed = (one.place for _, exclusions in readers for one in exclusions.found)
        excluded = tuple(
            place
            for place in closed
            if all(its.of(place) is not None or not _covers(places, place) for places, its in readers)
        )
        return cls(working_dir, owner, read, tuple(one.path for one in changeable), excluded, private)

    def typed(self, mention: str) -> MentioningText:
        """Return a file for a line that a person types, which itself may mention what such a file may."""
        return replace(replace(self, granted=None).own(mention), read=self.inside)

    def own(self, mention: str) -> MentioningText:
        """Return a file for the plan's own text; raises as `inside` does."""
        named = Path(os.path.normpath(self.owner.expanded(mention, self.working_dir)))
        if named.is_relative_to(self.working_dir):
            return self.inside(str(named.relative_to(self.working_dir)))
        found = GrantedPath.resolve(str(named), self.working_dir, self.owner)
        if any(link.is_relative_to(place) for link, _ in found.links for place in self.changeable):
            raise NotAcceptedError(
                f"`{mention}` is {found.describe()}, and a module may have made that link", "name the file itself"
            )
        if found.path.is_relative_to(self.working_dir):
            return self.inside(str(found.path.relative_to(self.working_dir)))
        if self.private.hold(found.path):
            raise NotAcceptedError(f"`{mention}` is Paddock's own", _ANOTHER)
        descriptor = open_within(found.path.parent, found.path.name)
        if descriptor is None:
            raise NotAcceptedError(f"`{mention}` is no plain file, or may not be read", "name a file")
        if os.readlink(f"/proc/self/fd/{descriptor}") != str(found.path):  # a folder on the way was replaced
            os.close(descriptor)
            raise NotAcceptedError(f"`{mention}` changed while it was read", "name it again")
        return MentioningText(_text(descriptor, mention), self.inside, mention, is_outside=True)

    def inside(self, mention: str) -> MentioningText:
        """Return a file for a text of the working directory.

        Raises:
            NotAcceptedError: there is none that such a text may mention.
        """
        return MentioningText(_text(self._opened(mention)[0], mention), self.inside, mention)

    def place_of(self, mention: str) -> Path:
        """Return where a file for a text of the working directory is; raises as `inside` does."""
        descriptor, place = self._opened(mention)
        os.close(descriptor)
        return place

    def _opened(self, mention: str) -> tuple[int, Path]:
        if mention.startswith(("/", "~")):
            raise NotAcceptedError(_ELSEWHERE)
        descriptor = open_within(self.working_dir, mention)
        if descriptor is None:
            raise self._refusal(mention)
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if self.private.hold(place):
            os.close(descriptor)
            raise NotAcceptedError(f"`{mention}` is Paddock's own", _ANOTHER)
        if self.granted is not None and (not _covers(self.granted, place) or _covers(self.excluded, place)):
            os.close(descriptor)
            raise NotAcceptedError(f"no module of the plan may read `{mention}`", f"grant one: read: [./{mention}]")
        return descriptor, place

    def _refusal(self, mention: str) -> NotAcceptedError:
        folder = str(self.working_dir)
        found = AttemptedPath.follow(self.working_dir / mention, [Mount(folder, folder)])
        if found is None or found.nearest is None:
            return NotAcceptedError(f"`{mention}` leads out of the working directory `{folder}`", "keep it in there")
        if found.is_there:
            named = folder if mention == "." else mention
            return NotAcceptedError(f"`{named}` is a folder, or may not be read", "name a file")
        return NoSuchFileError(f"there is no file `{mention}` in the working directory `{folder}`", "create it")


@dataclass(frozen=True, slots=True)
class MentionResolver:
    """What modules of the contract ask for the file of a mention; it answers them as a text of the working directory.

    So it names only what the plan has modules read, and of nothing else whether it is there. `@namespace:path` is a
    file or folder below that of a bundle in `_roots`, if it is pinned; else it is like any other of this machine.
    """

    _files: MentionedFiles
    _roots: Mapping[str, tuple[Path, bool]]

    @property
    def bundles(self) -> dict[str, Record]:
        """The folder `base_path` of each namespace that is pinned or that modules may read.

        Of pinned ones, a module sees the folder of its own repository.
        """
        readable = self._files.granted or ()
        shown = {name: root for name, (root, is_pinned) in self._roots.items() if is_pinned or _covers(readable, root)}
        return {name: Record(base_path=root) for name, root in shown.items()}

    def resolve(self, mention: str) -> Path | None:
        """Return the file of a mention, with its `@` or without; None if there is none that may be mentioned."""
        named = str(mention).removeprefix("@")
        space, has_space, path = named.partition(":")
        with suppress(NotAcceptedError, SourceError, ValueError):  # a path with a null character
            if not has_space or space not in self._roots:
                return self._files.place_of(named)
            root, is_pinned = self._roots[space]
            if is_pinned:
                return _in_bundle(SourceTree(root), path)
            return self._files.place_of(os.path.relpath(root / path, self._files.working_dir))
        return None


def with_instruction(
    plan: MountPlan, working_dir: Path, owner: Owner, private: Callable[[], PrivatePlaces] = PrivatePlaces
) -> MountPlan:
    """Return a plan with its instruction composed from files as they are now, which its digest then covers; blocks.

    None of the files may be in one of the `private` places, which are only looked up for an instruction.

    Raises:
        PlanError: the file that it names cannot be the instruction.
    """
    written = plan.instruction
    bundled = None if plan.bundles is None else plan.bundles.told  # the plan's digest covers its files already
    if not (written.text or written.file):
        return plan if bundled is None else replace(plan, instruction=replace(bundled, files=(), texts=(), notes=()))
    files = MentionedFiles.of_plan(plan, working_dir, owner, private())
    try:
        first = files.own(written.file) if written.file else MentioningText(written.text, files.own)
    except NotAcceptedError as error:
        problem = PlanError([PlanProblem(f"{_PLACE}.file", error.problem, error.accepted)])
        if plan.positions.has_lines:
            problem.locate(plan.positions.file, plan.positions.spot_of)
        raise problem from error
    composed = compose(first)
    if bundled is not None and bundled.text:
        composed = replace(composed, text=f"{composed.text}\n\n{bundled.text}")
    digest = hashlib.sha256(f"{plan.digest}\0{composed.text}".encode()).hexdigest()
    return replace(plan, instruction=composed, digest=f"sha256:{digest}" if composed.files else plan.digest)


def _in_bundle(tree: SourceTree, path: str) -> Path | None:
    if path.startswith(("/", "~")) or any(name.startswith(".") for name in path.split("/")):
        return None
    return tree.find(path) or tree.find(f"{path}.md")


def _covers(places: Iterable[Path], path: Path) -> bool:
    return any(map(path.is_relative_to, places))


def _readable(granted: Permissions, working_dir: Path, owner: Owner) -> tuple[tuple[Path, ...], Exclusions]:
    """Return the paths that a module may read, and what is excluded in them."""
    paths = _resolved((*granted.read_paths, *granted.write), working_dir, owner)
    search = ExclusionSearch(paths, working_dir, owner)
    for word in granted.read:
        with suppress(NotAcceptedError):  # starting the module is refused, with the reason
            search.exclude(word)
    return tuple(one.path for one in paths), search.result


def _resolved(paths: Iterable[str], working_dir: Path, owner: Owner) -> list[GrantedPath]:
    """Return where the paths of grants lead."""
    found: list[GrantedPath] = []
    for written in paths:
        with suppress(NotAcceptedError):  # as above
            found.append(GrantedPath.resolve(written, working_dir, owner))
    return found


def _text(descriptor: int, mention: str) -> str:
    """Return the text of an open file, which is closed.

    Raises:
        NotAcceptedError: it is too large, no text, or cannot be read.
    """
    with open(descriptor, "rb") as file:
        try:
            data = file.read(MAX_FILE + 1)
        except OSError as error:
            raise NotAcceptedError(f"`{mention}` cannot be read: {reason_of(error)}", "name another file") from error
    if len(data) > MAX_FILE:
        raise NotAcceptedError(f"`{mention}` has more than {MAX_FILE // 1024} KiB", "name a shorter one")
    with suppress(UnicodeError):
        if b"\0" not in data:
            return data.decode("utf-8-sig")
    raise NotAcceptedError(f"`{mention}` is binary: no text in UTF-8", "name a text file")
