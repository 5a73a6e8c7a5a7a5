"""Find where git keeps the repository of a granted folder, if that lies outside of the folder.

In a linked working tree git needs the `.git` of its main repository, which is readable with the tree. The tree's own
`.git` file proves nothing: a module or an archive may have made it. So the main repository has to name the tree too,
and to be the user's alone, and no module may write to it. All other places are named to people, and never followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from paddock.plan.permissions import Permissions, grants_of
from paddock.plan.problems import NotAcceptedError
from paddock.policy.grant_request import ModuleRequest, OperatorGrant
from paddock.policy.guarded_paths import is_heeded, is_repository, text_in
from paddock.policy.guarded_places import GIT
from paddock.policy.owner import Owner
from paddock.policy.path_walk import GrantedPath
from paddock.policy.rule import BUILT_IN, Rule
from paddock.state_folder import state_path
from paddock_sandbox.profile import ANY_PROGRAM

_LINKED: Final = Rule(BUILT_IN, "git reads the main repository of a linked working tree that may be read")


@dataclass(frozen=True, slots=True)
class OuterRepository:
    """What git needs in the granted `folder` and is outside of it: `place`.

    `problem` says why it takes a grant, and is empty for the main repository of a linked working tree. With
    `is_doubtful`, no grant is advised either.
    """

    folder: Path
    place: Path
    problem: str = ""
    is_doubtful: bool = False

    def describe(self) -> str:
        """Return what git lacks where it may not read the place, for people."""
        why = self.problem or f"is {self.place}, which takes an accepted plan, and no module or policy against it"
        hint = "" if self.is_doubtful else f"; `read: [{self.place}]` lets git read it"
        return f"git does not work in {self.folder}: its repository {why}{hint}"

    @classmethod
    def of(cls, folder: Path, owner: Owner) -> Self | None:
        """Return what git needs in a folder, which has no link in its path; None where all of it is in the folder."""
        file = folder / GIT
        if not os.path.lexists(file):
            above = next((one for one in folder.parents if is_heeded(one / GIT, folder)), folder)
            place = above / GIT if os.path.isdir(above / GIT) else above
            is_none = above == folder or folder.is_relative_to(above / GIT)
            return None if is_none else cls(folder, place, "begins above it")
        if os.path.isdir(file):
            borrowed = text_in(file / "objects/info/alternates").partition("\n")[0]
            real = Path(os.path.realpath(file / "objects" / borrowed if borrowed else file))
            return None if real == file else cls(folder, real, f"has a part in {real}")
        git = Path(os.path.realpath(folder / text_in(file, "gitdir:")))
        if not is_repository(git):
            return cls(folder, git, f"is not there: {file} names {git}", is_doubtful=True)
        if git.parent.name != "worktrees":
            return cls(folder, git, f"is kept in {git}")
        return cls(folder, git.parent.parent, *_objection(file, git, owner))


def outer_repositories(granted: Permissions, working_dir: Path, owner: Owner) -> Iterator[OuterRepository]:
    """Yield those of the granted folders in which git may be run, but for what is granted itself."""
    if all(Path(program).name not in (ANY_PROGRAM, "git") for program in granted.run):
        return
    paths = []
    for written in (*granted.read_paths, *granted.write):
        with suppress(NotAcceptedError):  # starting the module is refused, with the reason
            paths.append(GrantedPath.resolve(written, working_dir, owner))
    for folder in dict.fromkeys(path.path for path in paths if path.is_directory):
        found = OuterRepository.of(folder, owner)
        if found is not None and not any(found.place.is_relative_to(path.path) for path in paths):
            yield found


def with_repositories(asked: Sequence[ModuleRequest], working_dir: Path, owner: Owner) -> Iterator[ModuleRequest]:
    """Yield the requests, each with the main repositories of the linked working trees that its module runs git in.

    None to which a module may write, if only as to its kept home.
    """
    written = (path for one in asked for path in grants_of(one.effective().permissions).write)
    homes = state_path({**os.environ, "HOME": str(owner.home)})
    named = (owner.expanded(path, working_dir) for path in written)
    closed = [Path(os.path.realpath(place)) for place in (*named, homes)]
    for one in asked:
        outer = outer_repositories(grants_of(one.effective().permissions), working_dir, owner)
        places = [found.place for found in outer if not found.problem]
        apart = [str(at) for at in places if not any(at.is_relative_to(to) or to.is_relative_to(at) for to in closed)]
        given = OperatorGrant(Permissions(read=tuple(apart)), _LINKED)
        yield replace(one, given=(*one.given, given)) if apart else one


def _objection(file: Path, git: Path, owner: Owner) -> tuple[str, bool]:
    """Return why a working tree's `git` folder does not show the main repository, and whether that is doubtful."""
    main = git.parent.parent
    named, common = (Path(os.path.realpath(git / text_in(git / name))) for name in ("gitdir", "commondir"))
    if (named, common) != (file, main) or not str(main).isprintable():
        return f"is not {main}, which names no working tree {file.parent} of its own", True
    try:
        GrantedPath.resolve(str(main), main, owner)
        info = os.stat(main)
    except (OSError, NotAcceptedError) as error:
        return f"is {main}: {error}", True
    if info.st_uid != owner.uid or owner.stranger_writing(info) is not None:
        return f"is {main}, which is not yours alone", False
    return ("" if main.name == GIT else f"is {main}, which may hold more than git's files"), False
