"""The request in a module's own manifest: `permissions` under `[tool.paddock]` in its `pyproject.toml`, read as data.

The author of the module wrote it, so it neither grants nor limits. From a third party's request, only what lies within
the working directory and is no secret file, hosts with names, if a person reads them, and programs by name or in that
directory are proposed: never a secret, never all of a family, and nothing to write to that the user's own programs run
by themselves. From the request of a module that Paddock ships, everything that this machine has is proposed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from paddock.authorization.grant_lines import NO_SECRETS_READ, grant_lines
from paddock.authorization.suggestions.needs import Needs, ProposalContext, is_written_inside
from paddock.authorization.suggestions.workspace_needs import folder_text, preset_needs
from paddock.plan.families import EXCLUDED_SECRETS, is_program_path
from paddock.plan.model import ModuleEntry
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions, grants_of
from paddock_sandbox.profile import ANY_PROGRAM
from paddock_sources import Resolution, SourceError
from paddock_sources.manifest.code_names import CodeNames
from paddock_sources.manifest.permission_request import PermissionRequest

_MAX_GRANTS: Final = 8  # of one family: people read no more before they agree


@dataclass(frozen=True, slots=True)
class ManifestAdvice:
    """The request of a manifest, whether Paddock ships the module, and what the code of any other one names."""

    permissions: Permissions
    is_shipped: bool = False
    code: CodeNames = field(default_factory=CodeNames)


def advice_of(resolution: Resolution) -> ManifestAdvice | None:
    """Return the request of a module's manifest, nothing if none is understood; None for a shipped module without."""
    try:
        request = PermissionRequest.read(resolution.root)
    except SourceError:
        request = None
    permissions = None if request is None else permissions_asked(request)
    # Sources of every other kind are addresses, or absolute paths.
    if resolution.source.startswith("builtin:"):
        return None if permissions is None else ManifestAdvice(permissions, is_shipped=True)
    code = CodeNames.of(resolution.package_dir)
    if code.reads_state:  # what other modules of the same repository leave there for it
        left = CodeNames.of(resolution.repository).sets_state if resolution.repository is not None else ()
        keys = (key for key in code.reads_state if key in left and key not in code.sets_state)
        code = replace(code, reads_state=tuple(keys))
    return ManifestAdvice(permissions or Permissions(), code=code)


def permissions_asked(request: PermissionRequest) -> Permissions | None:
    """Return what a plan would grant to satisfy a request; None if the request is not understood."""
    try:
        return Permissions.parse(request.written)
    except ValueError:
        return None


def shipped_needs(entry: ModuleEntry, advice: Permissions, known: ProposalContext) -> Needs:
    """Return the request of a shipped module's manifest, without programs that this machine lacks."""
    if advice.preset is not None:
        return preset_needs(advice.preset, known)
    programs = tuple(program for program in advice.run if program == ANY_PROGRAM or known.has_program(program))
    absent = tuple(program for program in advice.run if program not in programs)
    present = advice.model_copy(update={"run": programs})
    asked = entry.model_copy(update={"permissions": present})
    lines = tuple(line for _, line in grant_lines(asked, (), known.working_dir, known.owner))
    lacks = tuple(f"what its own manifest asks for: {line}" for line in lines)
    return Needs(present, lines, lacks, Permissions(run=absent))


def advised_needs(advice: Permissions, known: ProposalContext) -> Needs:
    """Return what is proposed of a third party's request, and the rest as something that the module lacks."""
    asked = grants_of(advice)
    needs = Needs()
    left: list[str] = []
    for path in asked.read_paths[:_MAX_GRANTS]:
        if known.has_path(path):
            needs += Needs.of(f"reads {_path_text(path, known)}{_SELF}", f"files to read: {path}", read=[path])
        else:
            left.append(f"read {path}")
    for path in asked.write[:_MAX_GRANTS]:
        if known.may_write(path):
            line = f"reads and writes {_path_text(path, known)}{_SELF}"
            needs += Needs.of(line, f"files to write: {path}", write=[path])
        elif not path.startswith(_HOME):
            left.append(f"write {path}")
    if needs.lines:
        needs += Needs(Permissions(read=(EXCLUDED_SECRETS,)), (NO_SECRETS_READ,))
    for written in asked.net[:_MAX_GRANTS]:
        place = NetRule.parse(written).destination
        if place is not None and isinstance(place.host, str) and not known.is_unread:
            needs += Needs.of(f"connects to {place.text}{_SELF}", f"the network, so no {place.text}", net=[written])
        else:
            left.append(f"net {written}")
    for program in asked.run[:_MAX_GRANTS]:
        if program != ANY_PROGRAM and known.has_program(program):
            needs += Needs.of(f"runs {program}{_SELF}", f"programs to run, so no {program}", run=[program])
        else:
            left.append(f"run {program}")
    left += [f"secret {one.name}" for one in asked.secrets[:_MAX_GRANTS]]
    left += [f"{family} {one}" for family in _NOT_PROPOSED for one in getattr(asked, family)[:_MAX_GRANTS]]
    lacks = tuple(f"{one.partition('=')[0]}, which its own manifest asks for" for one in left)
    return needs + home_needs(advice) + Needs(lacks=lacks, missing=_missing(asked, known))


def home_needs(advice: Permissions) -> Needs:
    """Return the need for a home that stays, if the module writes below it: never for a folder of the user's home."""
    paths = [path for path in grants_of(advice).write[:_MAX_GRANTS] if path.startswith(_HOME)]
    return Needs.of_home(f"it writes {', '.join(paths)} there{_SELF}") if paths else Needs()


def without_home(advice: Permissions) -> Permissions:
    """Return a request without what a home that stays satisfies."""
    asked = grants_of(advice)
    return asked.model_copy(update={"write": tuple(path for path in asked.write if not path.startswith(_HOME))})


def _missing(asked: Permissions, known: ProposalContext) -> Permissions:
    """Return the part of a third party's request that would be proposed if it were there."""

    def absent(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(path for path in paths if is_written_inside(path) and not known.has_path(path))[:_MAX_GRANTS]

    named = (program for program in asked.run if program != ANY_PROGRAM)
    inside = (program for program in named if not is_program_path(program) or is_written_inside(program))
    programs = tuple(program for program in inside if not known.has_program(program))[:_MAX_GRANTS]
    return Permissions(read=absent(asked.read_paths), write=absent(asked.write), run=programs)


_HOME: Final = "~/"
_SELF: Final = ", as its own manifest asks for"
_NOT_PROPOSED: Final = ("env", "call", "emit", "hooks", "mount")


def _path_text(path: str, known: ProposalContext) -> str:
    written = os.path.normpath(path)
    return folder_text(known) if written == "." else str(known.working_dir / written)
