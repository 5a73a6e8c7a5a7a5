"""Take newer versions of locked modules, after showing what moved; a version that asks for more only on consent.

Branches and tags are looked up again. A tag that moved is refused unless that is wanted. With `--to` a module is taken
at another one, which its entry then names; its configuration and grants stay. Accepting a version's request grants it
nothing: only the plan grants. Dependencies are kept where they still fit.

`--json`: `{"lock", "plan", "modules": [{"module", "place", "source", "state", "reason", "ref", "ref_kind", "old":
{"commit", "committed_at", "tree"}, "new": the same or null, "asks_more": [line…], "asks_less": [line…]}…], "error"}`;
`state` is `current`, `updated`, `held`, `refused` or `failed`, and a module at an older tag, or at a commit of one, has
`"newer": [tag…]`. Exit codes: 0; 1 a source could not be asked; 4 something newer was refused, by rule or by answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer
from paddock.cli.bundle_plan import PlanPath
from paddock.cli.command_group import example
from paddock.cli.failure import SourceFailedError
from paddock.cli.sources.renewal import renewed
from paddock.cli.sources.results import (
    ModuleResult,
    command_text,
    commit_facts,
    date_text,
    module_answer,
    pin_text,
    plan_to_name,
    short,
    tell_failures,
)
from paddock.cli.sources.source_command import REFUSED, WORKING_DIR, CommandContext, over_modules
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.lookalikes import marked
from paddock.module_sources.lock import update_lock
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock.module_sources.updates import SourceUpdate, SourceUpdates
from paddock.policy.evaluate import refuse_sources
from paddock.policy.files.policy import Policy
from paddock_sources import parse_source
from paddock_sources.lock.lock_file import LockFile

if TYPE_CHECKING:
    from paddock.plan.edit import PlanEdit

_MOVED: Final = "moved"
_MAX_NEWER: Final = 20  # tags


@click.command(epilog=example("paddock update --min-age 7d"))
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option(
    "--min-age",
    metavar="AGE",
    callback=options.read_age,
    help="Hold back commits younger than this, such as 12h, 7d or 2w. The author of a commit writes its date: "
    "anyone who may push can choose it.",
)
@click.option("--packages", is_flag=True, help="Also choose new versions of the packages that modules depend on.")
@click.option(
    "--yes", is_flag=True, help="Also take versions that ask for more permissions than the locked one, without asking."
)
@click.option(
    "--to", metavar="REF", help="Take the one MODULE at this branch, tag or commit, and name that in the plan."
)
@click.option("--allow-moved-tag", is_flag=True, help="Follow tags that now lead to another commit.")
@click.option(
    "--plan",
    metavar="PLAN",
    type=PlanPath(path_type=Path),
    help="The plan whose modules are meant; by default plan.yaml.",
)
@WORKING_DIR
@options.JSON
@over_modules
async def update(
    context: CommandContext,
    sources: SourcedModules,
    *,
    modules: tuple[str, ...],
    min_age: float | None,
    packages: bool,
    yes: bool,
    to: str | None,
    allow_moved_tag: bool,
) -> CommandAnswer:
    """Take newer versions of locked modules, and show what changed.

    Name a MODULE by its id or its source; by default all are meant, and the bundles that the plan extends. If a new
    version asks for more permissions than the old one, Paddock shows them and takes the version only if you accept.
    That alone grants nothing. What the plan grants and configures stays, also with --to. Exits with 4 if a newer
    version was refused.
    """
    sources.refuse_by(context.policy)
    aimed, edit = (None, None) if to is None else await context.call(_aimed, sources, modules, to, context.policy)
    updates = SourceUpdates(
        context.provider,
        datetime.now(UTC),
        min_age=timedelta(seconds=min_age or 0),
        allow_moved_tag=allow_moved_tag,
        of_packages=packages,
    )
    renewal = None if modules else await renewed(context, sources, updates)
    if renewal is not None:
        sources = renewal.sources
    wanted = await context.call(_wanted, sources, modules) if aimed is None else [aimed]
    looked = await context.side_by_side(wanted, updates.look)
    found = [await _answered(context, one, accepts_more=yes) for _, one in looked if isinstance(one, SourceUpdate)]
    news = [one.new for one in found if one.state == _MOVED and one.new is not None]
    others = [one for one in sources.modules if aimed is None or one.place != aimed.place]
    left = {key for one in others for key in one.keys}
    moved = [one for one in found if one.state == _MOVED]
    gone = {one.old.source for one in moved if one.module.key != one.old.source} - left

    def change(lock: LockFile) -> LockFile:
        return lock.with_news(news, since=sources.lock).without(gone)

    if edit is not None and found[0].state == _MOVED:
        await context.call(edit.write)  # before the lock: somebody may have changed the plan while servers were asked
        context.screen.note(f"{edit.path} names it at {edit.place}; Paddock asks anew whether you accept the plan")
    after = await context.call(update_lock, sources.lock_path, change, os.environ)
    found = [_written(one, after) for one in found]
    _tell(context.screen, found)
    _tell_newer(context.screen, sources, found)
    states = {one.state for one in found}
    code = REFUSED if "refused" in states else 1 if "failed" in states else 0
    answer = module_answer(sources, [_result(one) for one in found], code)
    return answer if renewal is None else renewal.told(context.screen, answer)


def _aimed(
    sources: SourcedModules,
    names: Sequence[str],
    ref: str,
    policy: Policy,
) -> tuple[SourcedModule, PlanEdit]:
    """Return the one module that is meant, at another ref, and the change of its plan; nothing is fetched for that.

    Raises:
        KindError: there is no such module, or several, or none that has refs.
        PlanNotEditedError: the plan cannot be edited there.
        PolicyRefusedError: the policy refuses the source.
    """
    from paddock.plan.edit import with_source  # other updates edit no plan

    if len(names) != 1:
        raise KindError(
            "NotAimedError", "`--to` is about one module", hints=["name it: `paddock update MODULE --to REF`"]
        )
    found = sources.meant(names[0])
    if len(found) > 1:
        places = ", ".join(str(one.place or one.key) for one in found)
        raise KindError("NotAimedError", f"`{names[0]}` names several modules: {places}", hints=["name its source"])
    (module,) = found
    origin = sources.plan.origin if sources.plan is not None else None
    written = module.entry.source if module.entry is not None and module.layer is None else None
    uri = parse_source(written).at_ref(ref) if written is not None else None
    if origin is None or module.place is None or uri is None:
        raise KindError(
            "NotAimedError",
            f"no plan names a repository for `{names[0]}`, and only that is at a branch, tag or commit",
            hints=["write the version into its `source`, or lock another one: `paddock add SOURCE`"],
        )
    if module.locked is None:
        raise KindError("NotAimedError", f"`{names[0]}` is not locked yet", hints=[command_text("lock", sources)])
    held = uri.anchored(sources.folder).held()
    assert sources.plan is not None
    refuse_sources({f"{module.place}.source": held.at_commit()}, policy, sources.plan.positions)
    edit = with_source(origin, module.place, uri.text)
    return replace(module, uri=held, key=held.key(sources.folder)), edit


def _wanted(sources: SourcedModules, names: Sequence[str]) -> list[SourcedModule]:
    meant = [one for name in names for one in sources.meant(name)] if names else list(sources.modules)
    return [one for one in {one.key: one for one in meant}.values() if one.locked is not None]


def _written(update: SourceUpdate, lock: LockFile) -> SourceUpdate:
    """Return an update as written to the file, which may contain another process's version."""
    if update.state != _MOVED or lock.get(update.module.key) == update.new:
        return update
    return replace(update, state="held", reason="somebody else locked it meanwhile, and that stays")


async def _answered(context: CommandContext, update: SourceUpdate, *, accepts_more: bool) -> SourceUpdate:
    """Return an update after the person, or an option, accepted or declined what it asks for more."""
    if update.state != _MOVED or not update.asked.asks_more or accepts_more:
        return update
    lines = [
        f"{_change(update)}, and it asks for more than the version that is locked:",
        *(f"+ {marked(line)}" for line in update.asked.added),
        *(f"- {marked(line)}" for line in update.asked.removed),
    ]
    accepted = await context.agrees(
        f"Take the new version of {update.module.name}?",
        lines,
        "take it; what it asks for is not granted by that, the plan does so",
        "keep the version that is locked",
    )
    if accepted:
        return update
    asked = ", ".join(update.asked.added)
    reason = f"it asks for more: {asked}" + ("" if accepted is None else "; it was declined")
    return replace(update, state="refused", reason=reason)


# -- results -------------------------------------------------------------------------------


def _result(update: SourceUpdate) -> ModuleResult:
    pinned = update.pinned
    new: dict[str, object] | None = None
    if pinned is not None and update.state != "current":
        new = {**commit_facts(pinned), "tree": update.new.tree if update.new is not None else None}
    facts = {
        "state": "updated" if update.state == _MOVED else update.state,
        "reason": update.reason or None,
        "ref": update.old.requested_ref or None,
        "ref_kind": pinned.kind if pinned is not None else update.old.requested_kind or None,
        "old": {**commit_facts(update.old), "tree": update.old.tree or None},
        "new": new,
        "asks_more": list(update.asked.added),
        "asks_less": list(update.asked.removed),
        **({"newer": list(update.newer[:_MAX_NEWER])} if update.newer else {}),
    }
    return ModuleResult(update.module, facts, (_STATES[update.state], _told(update)) if update.error is None else ())


def _tell(screen: Screen, found: Sequence[SourceUpdate]) -> None:
    """Report what deserves attention, on stderr."""
    for one in found:
        if one.state == _MOVED and one.reason:
            screen.warning(f"{one.module.name}: {one.reason}")
        if one.is_moved_tag:
            screen.alarm(f"{one.module.name}: the tag `{one.old.requested_ref}` was moved: {_change(one)}")
        if one.is_older:
            screen.warning(f"{one.module.name}: the new commit was made before the one that is locked")
        if one.pinned is not None and one.pinned.is_outside:
            screen.note(f"{one.module.name}: looked up over ssh, with your own keys and outside the sandbox")
    for one in found:
        if one.state == "refused" and one.is_moved_tag:
            screen.text("hint: find out from its owners why; `--allow-moved-tag` follows it")
        elif one.state == "refused":
            screen.text("hint: without a terminal, `--yes` takes versions that ask for more")
    tell_failures(
        screen, [(one.module.name, SourceFailedError.of(one.error)) for one in found if one.error is not None]
    )


def _tell_newer(screen: Screen, sources: SourcedModules, found: Sequence[SourceUpdate]) -> None:
    """Report the newest tag of each module that is pinned to an older one, and the command that takes it."""
    plan = plan_to_name(sources)
    for one in found:
        if one.newer and one.module.entry is not None:
            words = ["paddock", "update", one.module.name, "--to", one.newer[0]]
            if plan is not None:
                words += ["--plan", str(plan)]
            command = options.command_to_paste(words)
            screen.note(f"{one.module.name}: {one.newer[0]} is newer; {command or 'an update with `--to`'} takes it")


_STATES: Final = {"current": "up to date", "moved": "updated", "held": "held back", "refused": "refused"}


def _told(update: SourceUpdate) -> str:
    if update.state == "current":
        return f"{update.module.key} at {pin_text(update.old)}"
    reason = f": {marked(update.reason)}" if update.reason else ""
    new, old = update.new, update.old
    if new is not None and new.tree and new.tree == old.tree and new.commit != old.commit:
        reason = ", with the same files"
    if update.state == _MOVED and update.asked.asks_more:
        reason += f", which asks for more: {', '.join(map(marked, update.asked.added))}"
    return f"{_change(update)}{reason}"


def _change(update: SourceUpdate) -> str:
    """Return the old and the new commit of a source, with the dates that the commits claim."""
    old = f"{pin_text(update.old)} ({date_text(update.old.committed_at)})"
    if update.new is not None:
        return f"{old} → {pin_text(update.new)} ({date_text(update.new.committed_at)})"
    if update.pinned is None:
        return old
    return f"{old} → {short(update.pinned.commit)} ({date_text(update.pinned.committed_at)})"
