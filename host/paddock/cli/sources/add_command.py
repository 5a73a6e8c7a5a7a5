"""Lock a source and, if wanted, name it in a plan; show what the module asks for, and grant none of it.

On a terminal it asks before anything is written, unless an option answers beforehand; elsewhere it follows its options
without a question. Locked sources stay as they are: `paddock update` takes newer versions, and shows what moved.

`--json`: `{"module", "kind", "source", "ref", "ref_kind", "commit", "committed_at", "tree", "subdirectory",
"dependencies", "asks_for": [line…], "permissions": what a plan would grant or null, "grant": the line of it or null,
"lock": path or null, "plan": path or null, "place": where in the plan or null, "error"}`. Exit codes: 0; 1 it was
unavailable or could not be added; 4 refused by policy or by the answer.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import click

from paddock.authorization.suggestions.advice import permissions_asked
from paddock.cli import options
from paddock.cli.command_group import example
from paddock.cli.sources.source_command import (
    OFFLINE,
    REFUSED,
    WORKING_DIR,
    CommandContext,
    CommandOutcome,
    date_text,
    iso_text,
    pin_text,
    run_source_command,
)
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.lookalikes import marked
from paddock.module_sources.lock import update_lock
from paddock.module_sources.sourced_modules import pinned_text
from paddock.plan.edit import PlanEdit, entry_lines, grant_line, with_entry
from paddock.plan.load import load_plan
from paddock.plan.model import Kind
from paddock.plan.permissions import Permissions
from paddock.policy.evaluate import refuse_sources
from paddock.policy.owner import Owner
from paddock.text import escape
from paddock_sources import (
    BuiltinUri,
    FolderUri,
    GitUri,
    PackageUri,
    Resolution,
    SourceUri,
    checked_module_id,
    kind_of_id,
)
from paddock_sources.builtin import BuiltinSource
from paddock_sources.environment.errors import InstalledDistributionError
from paddock_sources.lock.lock_file import LOCK_FILE, LockedModule, LockFile, normalised_source
from paddock_sources.manifest.permission_request import PermissionRequest
from paddock_sources.provisioner import PinKind, PinnedSource


@dataclass(frozen=True, slots=True)
class _Added:
    """A module as it was found: `locked` is None where nothing needs a lock, `request` is what it asks for.

    `lock` is the content of the lock file at that time.
    """

    module_id: str
    kind: str
    key: str
    written: str | None
    pinned: PinnedSource
    locked: LockedModule | None
    request: PermissionRequest | None
    permissions: Permissions | None
    plan: Path | None
    edit: PlanEdit | None
    lock_path: Path
    lock: LockFile
    is_known: bool

    @property
    def grant(self) -> str | None:
        """The line that would grant the module's request."""
        if self.permissions is None or self.permissions == Permissions():
            return None
        return grant_line(self.plan, self.permissions)

    def as_dict(self) -> dict[str, object]:
        locked, request = self.locked, self.request
        return {
            "module": self.module_id,
            "kind": self.kind,
            "source": self.key,
            "ref": self.pinned.requested_ref or None,
            "ref_kind": self.pinned.kind,
            "commit": self.pinned.commit or None,
            "committed_at": iso_text(self.pinned.committed_at),
            "tree": (locked.tree or None) if locked is not None else None,
            "subdirectory": (locked.subdirectory or None) if locked is not None else None,
            "dependencies": [{"name": one.name, "version": one.version} for one in locked.dependencies]
            if locked is not None
            else [],
            "asks_for": list(request.lines) if request is not None else [],
            "permissions": self.permissions.as_written() if self.permissions is not None else None,
            "grant": self.grant,
            "lock": str(self.lock_path) if locked is not None else None,
            "plan": str(self.plan) if self.plan is not None else None,
            "place": self.edit.place if self.edit is not None else None,
        }


@dataclass(frozen=True, slots=True)
class _Wishes:
    """The addition and its destination, and the accepted age of commits."""

    source: str
    plan: Path | None
    module_id: str | None
    allow_impostor: bool


@click.command(epilog=example("paddock add git+https://github.com/org/tool-weather@v1 --to plan.yaml"))
@click.argument("source")
@click.option("--to", "plan", metavar="PLAN", type=click.Path(path_type=Path), help="Name the module in this plan.")
@click.option("--as", "module_id", metavar="ID", help="Its id: which of several it is, or what the plan calls it.")
@click.option("--yes", is_flag=True, help="Ask nothing before it is written.")
@OFFLINE
@click.option(
    "--allow-impostor",
    is_flag=True,
    help="Take a commit that no branch or tag of the repository leads to, as one of a stranger's fork.",
)
@WORKING_DIR
@options.JSON
def add(
    source: str,
    plan: Path | None,
    module_id: str | None,
    yes: bool,
    offline: bool,
    allow_impostor: bool,
    working_dir: Path | None,
    as_json: bool,
) -> int:
    """Fetch SOURCE, lock it in paddock.lock and, with --to, name it in a plan.

    SOURCE is a repository (git+https://host/path@ref#subdirectory=folder), a folder (./module), or a package
    (name==version). What the module asks for is shown, with the line that would grant it; nothing is granted.
    """
    if module_id is not None:
        _check_id(module_id)
    wishes = _Wishes(source, plan, module_id, allow_impostor)

    async def work(context: CommandContext) -> CommandOutcome:
        added = await _found(context, wishes, working_dir or Path.cwd())
        if not yes:
            wanted = await context.agrees(_question(added), _described(added), "write it", "write nothing")
            if wanted is False:
                context.screen.note("nothing was written")
                return CommandOutcome(REFUSED, added.as_dict())
        locked = added.locked
        if locked is not None:
            change = partial(LockFile.with_news, news=[locked], since=added.lock)
            after = await context.call(partial(update_lock, added.lock_path, change, os.environ))
            if after.get(added.key) != locked:
                raise KindError(
                    "NothingToAddError",
                    f"`{added.key}` was locked by somebody else meanwhile, and that stays",
                    hints=["add it again to see what was locked"],
                )
        if added.edit is not None:
            await context.call(added.edit.write)
        return CommandOutcome(0, added.as_dict(), partial(_show, added=added))

    return run_source_command(work, offline=offline, asks=not yes, as_json=as_json)


async def _found(context: CommandContext, wishes: _Wishes, start: Path) -> _Added:
    uri = await context.call(partial(_uri, wishes.source, start))
    folder = await context.call(partial(_folder, wishes.plan, start))
    refuse_sources({"SOURCE": pinned_text(uri)}, context.policy)
    await context.call(partial(_check_is_here, context, uri, start))
    key = await context.call(partial(normalised_source, uri, folder))
    lock = await context.call(partial(LockFile.read, folder / LOCK_FILE))
    known = lock.get(key)
    pinned, locked = await context.call(partial(_pinned, context, uri, key, known, wishes))
    if locked is None and wishes.plan is None:
        raise KindError(
            "NothingToAddError",
            f"there is nothing to lock of `{uri.text}`: {_why_not(uri)}",
            hints=["`--to PLAN` names it in a plan"],
        )
    module_id = await context.call(partial(_module_id, context, uri, locked, wishes.module_id))
    kind: str = kind_of_id(module_id)
    if wishes.plan is not None:  # the module's code decides the section
        resolution: Resolution = await context.call(partial(context.provider.provide, uri, module_id, locked))
        kind = resolution.kind
    written = _written(uri, key, module_id)
    request = await context.call(partial(context.provider.request, locked)) if locked is not None else None
    edit = None
    if wishes.plan is not None:
        entry = {"module": module_id, **({"source": written} if written is not None else {})}
        edit = with_entry(wishes.plan, cast(Kind, kind), entry)
    return _Added(
        module_id,
        kind,
        key,
        written,
        pinned,
        locked,
        request,
        permissions_asked(request) if request is not None else None,
        wishes.plan,
        edit,
        folder / LOCK_FILE,
        lock,
        is_known=locked is not None and locked == known,
    )


def _folder(plan: Path | None, start: Path) -> Path:
    """Return the folder of the lock file: that of the plan, which has to be valid, or the working directory."""
    origin = load_plan(plan, environ={}).origin if plan is not None else None
    return origin.parent if origin is not None else start.resolve()


def _uri(written: str, start: Path) -> SourceUri:
    """Return the source in a person's text; the name of a shipped module stands for its source."""
    uri = SourceUri.parse(Owner.current(os.environ).with_home(written))
    if isinstance(uri, PackageUri) and not uri.version and uri.name in BuiltinSource().list():
        return SourceUri.parse(f"builtin:{uri.name}")
    return uri.anchored(start)


def _check_is_here(context: CommandContext, uri: SourceUri, start: Path) -> None:
    """Refuse a folder or a package that should exist here, and does not.

    Raises:
        KindError: it names sources that may be meant.
    """
    match uri:
        case FolderUri() if not uri.folder.is_dir():
            close = get_close_matches(uri.folder.name, _folders(uri.folder.parent), n=1)
            meant = [f"did you mean `{uri.folder.parent / one}`?" for one in close]
            raise KindError("NothingToAddError", f"there is no folder `{uri.folder}`", hints=meant)
        case PackageUri(version="") if context.provider.find_installed(uri.name) is None:
            ids = get_close_matches(uri.name, BuiltinSource().list(), n=1)
            folders = get_close_matches(uri.name, _folders(start), n=1)
            raise KindError(
                "NothingToAddError",
                f"no module `{uri.name}` is shipped with Paddock, and no package that is installed here has one",
                hints=[
                    *(f"did you mean `{one}`?" for one in [*ids, *(f"./{folder}" for folder in folders)]),
                    f"a folder is written `./{uri.name}`, a package of the index with its version, `{uri.name}==1.0`",
                ],
            )


def _folders(parent: Path) -> list[str]:
    try:
        return [one.name for one in parent.iterdir() if one.is_dir()]
    except OSError:  # it is only asked for suggestions
        return []


def _pinned(
    context: CommandContext, uri: SourceUri, key: str, known: LockedModule | None, wishes: _Wishes
) -> tuple[PinnedSource, LockedModule | None]:
    """Return the pinned source, and the part to lock: the existing pin, except for a folder."""
    if known is not None and not isinstance(uri, FolderUri):
        return _as_locked(uri, known), known
    pinned = context.provider.pin(uri, allow_impostor=wishes.allow_impostor)
    # A folder is locked on request even without dependencies, so that `list` and `verify` know it.
    if not (context.provider.needs_lock(uri) or isinstance(uri, FolderUri)):
        return pinned, None
    locked = context.provider.lock(uri, pinned=pinned, allow_impostor=wishes.allow_impostor)
    return pinned, replace(locked, source=key)


def _as_locked(uri: SourceUri, known: LockedModule) -> PinnedSource:
    """Return a source as it was when it was locked."""
    kind = "version" if isinstance(uri, PackageUri) else cast("PinKind", known.requested_kind)
    return PinnedSource(known.requested_ref, kind, known.commit, known.committed_at)


def _module_id(context: CommandContext, uri: SourceUri, locked: LockedModule | None, wanted: str | None) -> str:
    """Return the id of the intended module.

    Raises:
        KindError: several modules fit, or none.
    """
    try:
        found = context.provider.module_ids(uri, locked)
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
    inside = " or, if it is in a folder of its own, `#subdirectory=FOLDER`" if isinstance(uri, GitUri) else ""
    problem = "has several modules" if wanted is None else f"has no module `{wanted}`"
    raise KindError(
        "NothingToAddError",
        f"`{uri.text}` {problem}",
        detail=[f"it has: {', '.join(found)}"],
        hints=[f"say which one: `--as ID`{inside}"],
    )


def _check_id(written: str) -> None:
    try:
        checked_module_id(written)
    except Exception as error:
        raise click.UsageError(f"--as: {escape(str(error))}") from error


def _why_not(uri: SourceUri) -> str:
    return "it is shipped with Paddock" if isinstance(uri, BuiltinUri) else "it is what is installed here"


def _written(uri: SourceUri, key: str, module_id: str) -> str | None:
    """Return the source in the plan's spelling: the person's, without credentials; a folder as in the lock file."""
    match uri:
        case BuiltinUri():
            return None if uri.module_id == module_id else uri.text
        case GitUri():
            has_credentials = "@" in urlsplit(uri.url).netloc and not uri.url.startswith("ssh:")
            has_password = ":" in urlsplit(uri.url).netloc.rpartition("@")[0]
            return key if has_credentials or has_password else uri.text
        case FolderUri():
            return key
    return uri.text


# -- display -------------------------------------------------------------------------------


def _question(added: _Added) -> str:
    where = f" to {added.plan}" if added.plan is not None else f" to {added.lock_path}"
    return f"Add {added.module_id}{where}?"


def _described(added: _Added) -> list[str]:
    return [f"{label}: {text}" for label, text in _facts(added)]


def _facts(added: _Added) -> list[tuple[str, str]]:
    locked, request = added.locked, added.request
    rows = [("source", marked(added.key)), ("kind", added.kind)]
    if locked is not None:
        rows.append(("locked at", f"{pin_text(locked)}{_named(added.pinned)}"))
        if locked.dependencies:
            rows.append(("depends on", ", ".join(f"{one.name} {one.version}" for one in locked.dependencies)))
    rows.append(("asks for", "; ".join(map(marked, request.lines if request is not None else ())) or "nothing"))
    return rows


def _named(pinned: PinnedSource) -> str:
    """Return the name by which a commit was found, and its date."""
    names = {"branch": f", branch {pinned.requested_ref}", "tag": f", tag {pinned.requested_ref}"}
    name = ", its default branch" if pinned.kind == "default" else names.get(pinned.kind, "")
    made = f", made {date_text(pinned.committed_at)} by its own word" if pinned.committed_at is not None else ""
    return f"{name}{made}"


def _show(screen: Screen, *, added: _Added) -> None:
    place = f" {added.plan}, at {added.edit.place}" if added.edit is not None else f" {added.lock_path}"
    screen.title(f"{added.module_id} is in{place}")
    screen.labelled([(f"  {label}  ", text) for label, text in _facts(added)])
    if added.is_known:
        screen.note("it was locked before, and stays as it was; `paddock update` takes newer versions")
    if added.pinned.is_outside:
        screen.note("it was looked up over ssh, with your own keys and outside the sandbox")
    if added.grant is not None:
        where = "in its entry" if added.edit is not None else "in the entry of a plan"
        screen.title(f"none of what it asks for is granted; this line {where} would grant it")
        screen.text(f"  {escape(added.grant)}")
    elif added.request is not None and added.request.lines:
        screen.note("none of that is granted, and not all of it is of a form that a plan can grant")
    if added.edit is None and added.locked is not None:
        entry: dict[str, Any] = {"module": added.module_id, "source": added.written}
        screen.title("a plan names it so")
        screen.text("".join(f"  {escape(line)}\n" for line in entry_lines(Path("plan.yaml"), entry)))
