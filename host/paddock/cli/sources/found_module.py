"""Find the module that a person names as a source: look it up, and pin it, without running any of its code.

For commands that write a module into a plan. Nothing is written here; errors say which other source may be meant.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from paddock.authorization.suggestions.advice import ManifestAdvice, advice_of, permissions_asked
from paddock.cli.sources.source_command import CommandContext
from paddock.errors import KindError
from paddock.policy.evaluate import refuse_sources
from paddock.policy.owner import Owner
from paddock_sources import (
    FolderUri,
    Resolution,
    SourceUri,
    kind_of_id,
    parse_source,
)
from paddock_sources.builtin import BuiltinSource
from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.environment.errors import InstalledDistributionError
from paddock_sources.lock.lock_file import LOCK_FILE, LockedModule, LockFile
from paddock_sources.manifest.moved import hints_beside
from paddock_sources.manifest.permission_request import PermissionRequest
from paddock_sources.provisioner import PinKind, PinnedSource
from paddock_sources.similar_names import near


@dataclass(frozen=True, slots=True)
class FoundModule:
    """A module as it was found: `locked` is None where nothing needs a lock, `request` is what it asks for.

    `written` is its source in a plan's spelling, None where its id says it. `lock` is the content of the lock file at
    that time. `resolution` is there if its code was wanted.
    """

    module_id: str
    kind: str
    key: str
    written: str | None
    pinned: PinnedSource
    locked: LockedModule | None
    request: PermissionRequest | None
    resolution: Resolution | None
    lock_path: Path
    lock: LockFile
    is_known: bool
    mirror: str = ""  # from which it is fetched, in words

    @property
    def advice(self) -> ManifestAdvice | None:
        """The request of its manifest, as far as it is understood, and what its code names, if that was wanted."""
        advice = advice_of(self.resolution) if self.resolution is not None else None
        permissions = permissions_asked(self.request) if self.request is not None else None
        if permissions is None or (advice is not None and advice.is_shipped):
            return advice
        return ManifestAdvice(permissions) if advice is None else replace(advice, permissions=permissions)


async def find_module(
    context: CommandContext,
    source: str,
    start: Path,
    folder: Path,
    *,
    module_id: str | None = None,
    allow_impostor: bool = False,
    for_plan: bool,
    rules_of: Callable[[SourceUri], DependencyRules] | None = None,
) -> FoundModule:
    """Return the module at a source, as written in `start`, for the lock file in `folder`.

    `module_id` is which of several it is, or what the plan calls it. With `for_plan` its code decides its kind. What it
    depends on is within the rules that `rules_of` returns for its source, if it is given.

    Raises:
        KindError: there is no such module, or there are several.
        PolicyRefusedError: the policy refuses the source.
        SourceFailedError: it could not be fetched.
    """
    uri = await context.call(_uri, source, start)
    refuse_sources({"SOURCE": uri.at_commit()}, context.policy)
    rules = NO_RULES if rules_of is None else await context.call(rules_of, uri)
    await context.call(_check_is_here, context, uri, start)
    key = await context.call(uri.key, folder)
    lock = await context.call(LockFile.read, folder / LOCK_FILE)
    known = lock.get(key)
    pinned, locked = await context.call(_pinned, context, uri, key, known, rules, allow_impostor)
    if locked is None and not for_plan:
        raise KindError(
            "NothingToAddError",
            f"there is nothing to lock of `{uri.text}`: {uri.no_lock}",
            hints=["`--to PLAN` names it in a plan"],
        )
    found_id = await context.call(_module_id, context, uri, locked, module_id)
    resolution = await context.call(context.provider.provide, uri, found_id, locked, rules) if for_plan else None
    return FoundModule(
        module_id=found_id,
        kind=resolution.kind if resolution is not None else kind_of_id(found_id),
        key=key,
        written=uri.written(key, found_id),
        pinned=pinned,
        locked=locked,
        request=await context.call(context.provider.request, locked) if locked is not None else None,
        resolution=resolution,
        lock_path=folder / LOCK_FILE,
        lock=lock,
        is_known=locked is not None and locked == known,
        mirror="".join(context.provider.settings.mirrors.notes([uri])),
    )


def _uri(written: str, start: Path) -> SourceUri:
    """Return the source in a person's text, bound to its folder; a shipped module's name stands for its source."""
    uri = parse_source(Owner.current(os.environ).with_home(written))
    if uri.bare_id and BuiltinSource().has(uri.bare_id):
        return parse_source(f"builtin:{uri.bare_id}")
    return uri.anchored(start).held()


def _check_is_here(context: CommandContext, uri: SourceUri, start: Path) -> None:
    """Refuse a folder or a package that should exist here, and does not.

    Raises:
        KindError: it names sources that may be meant.
    """
    if isinstance(uri, FolderUri):
        if not uri.folder.is_dir():
            close = near(uri.folder.name, _folders(uri.folder.parent))
            meant = [f"did you mean `{uri.folder.parent / one}`?" for one in close]
            path, _, ref = str(uri.folder).rpartition("@")
            if path and Path(path).is_dir():
                meant = [f"a folder is taken as it is: `{path}`", f"as it is at `{ref}`: `git+file://{path}@{ref}`"]
            hints = [*hints_beside(uri.folder), *meant]
            raise KindError("NothingToAddError", f"there is no folder `{uri.folder}`", hints=hints)
    elif (name := uri.bare_id) and context.provider.find_installed(name) is None:
        ids = near(name, BuiltinSource().list())
        folders = near(name, _folders(start))
        raise KindError(
            "NothingToAddError",
            f"no module `{name}` is shipped with Paddock, and no package that is installed here has one",
            hints=[
                *(f"did you mean `{one}`?" for one in [*ids, *(f"./{folder}" for folder in folders)]),
                f"a folder is written `./{name}`, a package of the index with its version, `{name}==1.0`",
            ],
        )


def _folders(parent: Path) -> list[str]:
    try:
        return [one.name for one in parent.iterdir() if one.is_dir()]
    except OSError:  # it is only asked for suggestions
        return []


def _pinned(
    context: CommandContext,
    uri: SourceUri,
    key: str,
    known: LockedModule | None,
    rules: DependencyRules,
    allow_impostor: bool,
) -> tuple[PinnedSource, LockedModule | None]:
    """Return the pinned source, and the part to lock: the existing pin, except for a folder."""
    supply = context.provider.supply(uri)
    rules = supply.rules(uri, rules)
    if known is not None and not isinstance(uri, FolderUri):
        if context.provider.contradiction(uri, known, rules) is not None:
            return _as_locked(known), context.provider.relock(uri, known, rules)
        return _as_locked(known), known
    pinned = supply.pin(uri, allow_impostor=allow_impostor)
    # A folder is locked on request even without dependencies, so that `list` and `verify` know it.
    if not (supply.needs_lock(uri) or isinstance(uri, FolderUri)):
        return pinned, None
    locked = context.provider.lock(uri, pinned=pinned, allow_impostor=allow_impostor, rules=rules)
    return pinned, replace(locked, source=key)


def _as_locked(known: LockedModule) -> PinnedSource:
    """Return a source as it was when it was locked."""
    kind = known.requested_kind or ("version" if known.commit else "")
    return PinnedSource(known.requested_ref, cast("PinKind", kind), known.commit, known.committed_at)


def _module_id(
    context: CommandContext,
    uri: SourceUri,
    locked: LockedModule | None,
    wanted: str | None,
) -> str:
    """Return the id of the intended module.

    Raises:
        KindError: several modules fit, or none.
    """
    try:
        found = context.provider.supply(uri).module_ids(uri, locked)
    except InstalledDistributionError as error:
        if locked is None:
            raise
        raise KindError(
            "NothingToAddError", f"the package `{uri.text}` of the index cannot be added: {error.problem}"
        ) from error
    if wanted is not None and (wanted in found or len(found) == 1):
        return wanted
    if wanted is None and len(found) == 1:
        return found[0]
    problem = "has several modules" if wanted is None else f"has no module `{wanted}`"
    raise KindError(
        "NothingToAddError",
        f"`{uri.text}` {problem}",
        detail=[f"it has: {', '.join(found)}"],
        hints=[f"say which one: `--as ID`{uri.one_of_several}"],
    )
