"""Lock a source and, if wanted, name it in a plan, with the permissions that suit it; show what the module asks for.

The entry is as `init` writes it: permissions by the module's manifest, kind and vendor, each with its purpose, and keys
with `inject`. Without a plan nothing is granted; a person is asked whether the folder's plan is to name the module, and
elsewhere the command for that is shown. A provider takes the place of one that plays a script, if the plan has
no other.

On a terminal it asks before anything is written, then about each family of grants, unless an option answers
beforehand: then no host is written that only the manifest names. Elsewhere it follows its options without a question.
Locked sources stay as they are: `paddock update` takes newer versions, and shows what moved.

`--json`: `{"module", "kind", "source", "ref", "ref_kind", "commit", "committed_at", "tree", "subdirectory",
"dependencies", "asks_for": [line…], "permissions": what it asks for, as a plan would grant it, or null, "grant": the
line that would grant it, unless the entry does, or null, "not_proposed": [text…], what no line proposes, "granted":
what the entry grants or null, "lacks": [text…], "replaced": the module that was taken out or null, "lock": path or
null, "plan": path or null, "place": where in the plan or null, "error"}`. Exit codes: 0; 1 it was unavailable or could
not be added; 4 refused by policy or by the answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import click

from paddock.authorization.suggestions.advice import permissions_asked, without_home
from paddock.authorization.suggestions.model_service import service_of
from paddock.authorization.suggestions.needs import ProposalContext
from paddock.authorization.suggestions.pasted import pasted
from paddock.authorization.suggestions.proposal import context_of_new_entries, fitted
from paddock.authorization.suggestions.vendors import is_scripted
from paddock.cli import options
from paddock.cli.answer import CommandAnswer
from paddock.cli.bundle_plan import PlanPath
from paddock.cli.command_group import example
from paddock.cli.failure import SourceFailedError, masked
from paddock.cli.options import this_command
from paddock.cli.sources.bundle_entry import add_bundle, holds_bundle, names_its_bundle
from paddock.cli.sources.found_module import FoundModule, find_module
from paddock.cli.sources.results import code_facts, commit_facts, date_text, pin_text
from paddock.cli.sources.source_command import (
    OFFLINE,
    REFUSED,
    WORKING_DIR,
    CommandContext,
    have_bundles,
    run_source_command,
)
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.lookalikes import marked
from paddock.module_sources.lock import update_lock
from paddock.module_sources.sourced_modules import rules_of_source
from paddock.plan import USUAL_PLAN
from paddock.plan.edit import SECTIONS, PlanEdit, entry_lines, grant_line, with_entry
from paddock.plan.load import load_plan
from paddock.plan.model import Kind
from paddock.plan.permissions import FAMILIES, Permissions, grants_of
from paddock.plan.secret_references import command_to_set
from paddock.plan.writing import PlannedModule
from paddock.policy.grants import brought_line
from paddock.policy.secrets.store import SecretSources
from paddock.text import escape
from paddock_sources import SourceUri, checked_module_id
from paddock_sources.constraints import DependencyRules
from paddock_sources.lock.lock_file import LOCK_FILE, LockFile
from paddock_sources.provisioner import PinnedSource

_DEPENDENCIES_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class _Added:
    """A module as it was found and, with a plan, its entry there, in the place of the module `replaced` if any."""

    found: FoundModule
    plan: Path | None
    planned: PlannedModule
    edit: PlanEdit | None
    known: ProposalContext
    replaced: str | None = None

    @property
    def permissions(self) -> Permissions | None:
        """What a plan would grant to satisfy the module's request."""
        return permissions_asked(self.found.request) if self.found.request is not None else None

    @property
    def pasted(self) -> tuple[Permissions, tuple[str, ...]]:
        """What a line may grant of the module's request beside its entry, and what it leaves out, in words."""
        asked = self.permissions
        had = self.planned.permissions if self.edit is not None else Permissions()
        if asked is not None and self.edit is not None and self.planned.keeps:
            asked = without_home(asked)
        return pasted(had, asked or Permissions(), self.known.may_write)

    @property
    def grant(self) -> str | None:
        """The line that would grant what it may of the module's request, where its entry does not grant that."""
        granted = self.pasted[0]
        had = grants_of(self.planned.permissions if self.edit is not None else Permissions())
        return None if grants_of(granted) == had else grant_line(self.plan, granted)

    def as_dict(self) -> dict[str, object]:
        found = self.found
        locked, request = found.locked, found.request
        return {
            "module": found.module_id,
            "kind": found.kind,
            "source": found.key,
            "ref": found.pinned.requested_ref or None,
            "ref_kind": found.pinned.kind,
            **commit_facts(found.pinned),
            **code_facts(locked),
            "asks_for": list(request.lines) if request is not None else [],
            "permissions": self.permissions.as_written() if self.permissions is not None else None,
            "grant": self.grant,
            "not_proposed": list(self.pasted[1]),
            "granted": self.planned.permissions.as_written() if self.edit is not None else None,
            **({"state": "keep"} if self.edit is not None and self.planned.keeps else {}),
            "lacks": list(self.planned.lacks) if self.edit is not None else [],
            "replaced": self.replaced,
            "lock": str(found.lock_path) if locked is not None else None,
            "plan": str(self.plan) if self.plan is not None else None,
            "place": self.edit.place if self.edit is not None else None,
        }


@click.command(epilog=example("paddock add git+https://github.com/org/tool-weather@v1 --to plan.yaml"))
@click.argument("source")
@click.option("--to", metavar="PLAN", type=PlanPath(path_type=Path), help="Name the module in this plan.")
@click.option(
    "--as",
    "module_id",
    metavar="ID",
    help="The id of the module: chooses one if SOURCE has several, or names it in the plan.",
)
@click.option(
    "--dependencies",
    type=click.Choice(("resolved", "locked")),
    default="resolved",
    show_default=True,
    help="Choose the newest versions of what it depends on, or take those of the module's own uv.lock.",
)
@click.option("--yes", is_flag=True, help="Write without asking.")
@OFFLINE
@click.option(
    "--allow-impostor",
    is_flag=True,
    help="Accept a commit that no branch or tag of the repository leads to, such as one of a stranger's fork.",
)
@WORKING_DIR
@options.JSON
def add(
    source: str,
    to: Path | None,
    module_id: str | None,
    dependencies: str,
    yes: bool,
    offline: bool,
    allow_impostor: bool,
    working_dir: Path | None,
    as_json: bool,
) -> int:
    """Fetch a module and lock it in paddock.lock; with --to, also add it to a plan.

    SOURCE is a repository (git+https://host/path@ref#subdirectory=folder), a folder (./module), or a package
    (name==version). Paddock shows what the module asks for. Its entry in the plan gets the permissions that suit it.
    A provider replaces the plan's mock provider. If SOURCE is a bundle, PLAN extends it; `--as` names a module in it.
    """
    if module_id is not None:
        try:
            checked_module_id(module_id)
        except Exception as error:
            raise click.UsageError(f"--as: {escape(str(error))}") from error
    start = working_dir or Path.cwd()

    async def work(context: CommandContext) -> CommandAnswer:
        is_module = module_id is not None
        if not is_module and await context.call(names_its_bundle, source):
            return await add_bundle(context, source, to)
        if to is not None:
            await have_bundles(context, to, None)
        by_uv_lock = dependencies == "locked"
        here = Path(USUAL_PLAN) if working_dir is None else working_dir / USUAL_PLAN  # as a person there writes it
        usual = here if here.is_file() else None
        plan = to if to is not None or usual is None else await _plan_to_name(context, usual, source)
        known = await context.call(partial(context_of_new_entries, os.environ, start, is_unread=yes))
        try:
            added = await _added(
                context, source, plan, module_id, start, known, by_uv_lock=by_uv_lock, allow_impostor=allow_impostor
            )
        except SourceFailedError as error:
            if is_module or error.cause != "ModuleLayoutError" or not await context.call(holds_bundle, context, source):
                raise
            return await add_bundle(context, source, plan)
        if not yes:
            place = added.plan if added.plan is not None else added.found.lock_path
            lines = [f"{label}: {text}" for label, text in _facts(added)]
            wanted = await context.agrees(
                f"Add {added.found.module_id} to {place}?", lines, "write it", "write nothing"
            )
            if wanted is False:
                context.screen.note("nothing was written")
                return CommandAnswer(added.as_dict(), code=REFUSED)
            added = await _family_by_family(context, added)
        found, locked = added.found, added.found.locked
        if locked is not None:
            change = partial(LockFile.with_news, news=[locked], since=found.lock)
            after = await context.call(update_lock, found.lock_path, change, os.environ)
            if after.get(found.key) != locked:
                raise KindError(
                    "NothingToAddError",
                    f"`{found.key}` was locked by somebody else meanwhile, and that stays",
                    hints=["add it again to see what was locked"],
                )
        if added.edit is not None:
            await context.call(added.edit.write)
        return CommandAnswer(added.as_dict(), partial(_show, added, usual))

    return run_source_command(work, offline=offline, asks=not yes, as_json=as_json)


async def _plan_to_name(context: CommandContext, usual: Path, source: str) -> Path | None:
    """Return the folder's plan, if a person wants a module to be named there too; without a person, None."""
    wanted = await context.agrees(
        f"Name it in {usual} too?",
        [f"{marked(masked(source))} is to be locked; {usual} would name it, with the permissions that suit it."],
        "name it there, once you have seen what is written",
        "lock it alone",
    )
    return usual if wanted else None


async def _added(
    context: CommandContext,
    source: str,
    plan: Path | None,
    module_id: str | None,
    start: Path,
    known: ProposalContext,
    *,
    by_uv_lock: bool,
    allow_impostor: bool,
) -> _Added:
    folder, rules_of = await context.call(_folder_and_rules, plan, start, by_uv_lock)
    found = await find_module(
        context,
        source,
        start,
        folder,
        module_id=module_id,
        allow_impostor=allow_impostor,
        for_plan=plan is not None,
        rules_of=rules_of,
    )
    planned = PlannedModule(cast(Kind, found.kind), found.module_id, found.written, by_uv_lock=by_uv_lock)
    if plan is None:
        return _Added(found, None, planned, None, known)
    planned = await context.call(fitted_as_init, planned, found, known)
    scripted = await context.call(_scripted, plan, planned)
    return await _edited(context, _Added(found, plan, planned, None, known, scripted))


def fitted_as_init(planned: PlannedModule, found: FoundModule, known: ProposalContext) -> PlannedModule:
    """Return a module's entry with what suits it; that of a shipped provider is as `init` writes it."""
    is_shipped = found.advice is not None and found.advice.is_shipped
    if is_shipped and found.resolution is not None and (service := service_of(found.resolution)) is not None:
        return replace(service.planned(), module=planned.module, source=planned.source, by_uv_lock=planned.by_uv_lock)
    return fitted(planned, found.advice, known)


async def _edited(context: CommandContext, added: _Added) -> _Added:
    """Return a module with the change of its plan, which is not written yet."""
    assert added.plan is not None
    entry, instead_of = added.planned, 0 if added.replaced is not None else None
    edit = await context.call(
        with_entry, added.plan, entry.kind, entry.as_entry(), lines=entry.lines(), instead_of=instead_of
    )
    return replace(added, edit=edit)


async def _family_by_family(context: CommandContext, added: _Added) -> _Added:
    """Return a module with the families of grants, if there are several, that a person wants to be written."""
    asked = added.planned.permissions
    families = [family for family in FAMILIES if getattr(asked, family)]
    if len(families) < 2 or not context.has_person:
        return added
    for family in families:
        if family == "secrets" and not asked.net:
            asked = asked.model_copy(update={"secrets": ()})  # they are for a host that it may not reach
            continue
        title = f"Write {family} of {added.found.module_id} into {added.plan}?"
        one = Permissions().model_copy(update={family: getattr(asked, family)})
        lines = [marked(replace(added.planned, permissions=one, keeps=False).granted)]
        if await context.agrees(title, lines, "write it", "leave it out") is False:
            asked = asked.model_copy(update={family: ()})
    asked = pasted(asked.model_copy(update={"env": ()}), asked)[0]  # no reference to a secret that was left out
    return await _edited(context, replace(added, planned=replace(added.planned, permissions=asked)))


def _scripted(plan: Path, added: PlannedModule) -> str | None:
    """Return the provider that plays a script, if it is a plan's only one and the added one asks a model."""
    providers = load_plan(plan).providers
    if added.kind != "provider" or len(providers) != 1 or is_scripted(added.module):
        return None
    return providers[0].module if is_scripted(providers[0].module) else None


def _folder_and_rules(
    plan: Path | None, start: Path, by_uv_lock: bool
) -> tuple[Path, Callable[[SourceUri], DependencyRules]]:
    """Return the folder of the lock file, and what gives the rules for the dependencies of a source.

    They are those of the plan, which has to be valid, and of its entries that take the source already, since a lock
    file has one record of it. Without a plan it is the working directory, and there are none.
    """
    own = DependencyRules(by_uv_lock=by_uv_lock)
    loaded = load_plan(plan) if plan is not None else None
    if loaded is None or loaded.origin is None:
        return start.resolve(), lambda _: own
    folder = loaded.origin.parent

    def rules_of(uri: SourceUri) -> DependencyRules:
        return loaded.dependency_rules().joined(own, rules_of_source(loaded, uri, folder, os.environ))

    return folder, rules_of


# -- display -------------------------------------------------------------------------------


def _facts(added: _Added) -> list[tuple[str, str]]:
    found = added.found
    locked, request = found.locked, found.request
    rows = [("source", marked(found.key)), ("kind", found.kind)]
    if found.mirror:
        rows.append(("mirror", marked(found.mirror)))
    if locked is not None:
        rows.append(("locked at", f"{pin_text(locked)}{_named(found.pinned)}"))
        named = [f"{one.name} {one.version}" for one in locked.dependencies]
        if len(named) > _DEPENDENCIES_SHOWN:
            named[_DEPENDENCIES_SHOWN:] = [f"{len(named) - _DEPENDENCIES_SHOWN} more, which are in `{LOCK_FILE}`"]
        if named:
            rows.append(("depends on", ", ".join(named)))
    if request is not None or added.edit is None:
        rows.append(("asks for", "; ".join(map(marked, request.lines if request is not None else ())) or "nothing"))
    if added.edit is not None:
        rows.append(("written into the plan", marked(added.planned.granted)))
        if found.resolution is not None and (brought := brought_line(found.resolution)):
            rows.append(("with its source", marked(brought)))
        if added.planned.lacks:
            rows.append(("goes without", "; ".join(map(marked, added.planned.lacks))))
    if added.replaced is not None:
        rows.append(("in place of", f"{added.replaced}, which plays a script and asks no model"))
    return rows


def _named(pinned: PinnedSource) -> str:
    """Return the name by which a commit was found, and its date."""
    names = {"branch": f", branch {pinned.requested_ref}", "tag": f", tag {pinned.requested_ref}"}
    name = ", its default branch" if pinned.kind == "default" else names.get(pinned.kind, "")
    made = f", dated {date_text(pinned.committed_at)} by its author" if pinned.committed_at is not None else ""
    return f"{name}{made}"


def _show(added: _Added, usual: Path | None, screen: Screen) -> None:
    found = added.found
    place = f" {added.plan}, at {added.edit.place}" if added.edit is not None else f" {found.lock_path}"
    screen.title(f"{found.module_id} is in{place}")
    screen.labelled([(f"  {label}  ", text) for label, text in _facts(added)])
    if found.is_known:
        screen.note("it was locked before, and stays as it was; `paddock update` takes newer versions")
    if found.pinned.is_outside:
        screen.note("it was looked up over ssh, with your own keys and outside the sandbox")
    if added.grant is not None:
        none, where = ("none", "the entry of a plan") if added.edit is None else ("not all", "its entry")
        screen.title(f"{none} of what it asks for is written into a plan; this line in {where} would grant it")
        screen.text(f"  {escape(added.grant)}")
    elif found.request is not None and found.request.lines and added.permissions is None:
        screen.note("none of that is granted, and not all of it is of a form that a plan can grant")
    if added.pasted[1]:
        screen.note(f"no line is proposed for {marked(', '.join(added.pasted[1]))}")
    command = this_command("--to", str(usual)) if usual is not None and found.kind in SECTIONS else ""
    if added.edit is None and command:
        screen.title(f"to use it, name it in {usual}, with the permissions that suit it")
        screen.command(command.strip("`"))
    elif added.edit is None and found.locked is not None:
        entry: dict[str, Any] = {"module": found.module_id, "source": found.written}
        screen.title("to use it, write in a plan")
        screen.text("".join(f"  {escape(line)}\n" for line in entry_lines(Path("plan.yaml"), entry)))
    missing = [one.name for one in added.planned.permissions.secrets if one.name not in SecretSources.load(os.environ)]
    if added.edit is not None and missing:
        screen.title(f"set its {'key' if len(missing) == 1 else 'keys'} before you run {added.plan}")
        for name in missing:
            screen.command(command_to_set(name))
