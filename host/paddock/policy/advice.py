"""What a module's own manifest asks for: `permissions` under `[tool.paddock]` in its `pyproject.toml`, read as data.

Whoever wrote the module wrote this, so it neither grants nor limits. Of it only so much is proposed as lies within the
working directory, at hosts with names, and among programs by name: never a secret, never all of anything.
"""

from __future__ import annotations

import os
from typing import Final

from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions
from paddock.plan.problems import NotAcceptedError
from paddock_sources import Resolution, SourceError
from paddock_sources.permission_request import PermissionRequest

from .needs import Circumstances, Needs
from .presets import grants_of
from .programs import Program
from .workspace_needs import folder_text

_MAX_GRANTS: Final = 8  # of one family: more is read by nobody before a yes


def advice_of(resolution: Resolution) -> Permissions | None:
    """Return what a module's manifest asks for; None if it asks for nothing, or in no way that is understood."""
    try:
        request = PermissionRequest.read(resolution.root)
        return None if request is None else permissions_asked(request)
    except SourceError:
        return None


def permissions_asked(request: PermissionRequest) -> Permissions | None:
    """Return what a plan would grant if it granted a request; None if it asks in no way that is understood."""
    try:
        return Permissions.model_validate(Permissions.written(request.written))
    except ValueError:
        return None


def advised_needs(advice: Permissions, known: Circumstances) -> Needs:
    """Return what of an advice is proposed, and what of it is not as something that the module lacks."""
    asked = grants_of(advice)
    needs = Needs()
    left: list[str] = []
    for path in asked.read[:_MAX_GRANTS]:
        if _is_inside(path, known):
            needs += Needs.of(f"reads {_path_text(path, known)}{_SELF}", f"files to read: {path}", read=[path])
        else:
            left.append(f"read {path}")
    for path in asked.write[:_MAX_GRANTS]:
        if _is_inside(path, known):
            told = f"reads and writes {_path_text(path, known)}{_SELF}"
            needs += Needs.of(told, f"files to write: {path}", write=[path])
        else:
            left.append(f"write {path}")
    for written in asked.net[:_MAX_GRANTS]:
        place = NetRule.parse(written).destination
        if place is not None and isinstance(place.host, str):
            needs += Needs.of(f"connects to {place.text}{_SELF}", f"the network, so no {place.text}", net=[written])
        else:
            left.append(f"net {written}")
    for program in asked.run[:_MAX_GRANTS]:
        if program != "*" and _is_program(program):
            needs += Needs.of(f"runs {program}{_SELF}", f"programs to run, so no {program}", run=[program])
        else:
            left.append(f"run {program}")
    left += [f"secret {one.name}" for one in asked.secrets[:_MAX_GRANTS]]
    left += [f"{family} {one}" for family in _NOT_PROPOSED for one in getattr(asked, family)[:_MAX_GRANTS]]
    return needs + Needs(lacks=tuple(f"{one.partition('=')[0]}, which its own manifest asks for" for one in left))


_SELF: Final = ", as its own manifest asks for"
_NOT_PROPOSED: Final = ("env", "call", "emit", "hooks", "mount")


def _is_inside(path: str, known: Circumstances) -> bool:
    """Whether a path, as it is written and as it is, lies in the working directory; it has to be there."""
    if os.path.isabs(path) or path.startswith("~") or ".." in path.split("/"):
        return False
    real = os.path.realpath(known.working_dir / path)
    return os.path.exists(real) and os.path.commonpath((real, known.working_dir)) == str(known.working_dir)


def _path_text(path: str, known: Circumstances) -> str:
    written = os.path.normpath(path)
    return folder_text(known) if written == "." else str(known.working_dir / written)


def _is_program(name: str) -> bool:
    try:
        Program.find(name)
    except NotAcceptedError:
        return False
    return True
