"""Put a bundle into what a plan extends, or take it out: `add BUNDLE --to PLAN`, `remove BUNDLE --from PLAN`.

What a bundle has is no grant, so nothing is granted here; the question before the next start shows what would fit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio.from_thread

from paddock.authorization.grant_lines import brought_by_bundles
from paddock.cli.answer import CommandAnswer
from paddock.cli.bundle_plan import BUNDLE_FILES, address_in, names_bundle
from paddock.cli.sources.results import shown
from paddock.cli.sources.source_command import REFUSED, CommandContext
from paddock.errors import KindError
from paddock.lookalikes import marked
from paddock.plan.edit import extended_by, with_bundle, without_bundle
from paddock.plan.formats.document import read_document
from paddock.plan.model import MountPlan
from paddock_sources import GitUri, SourceUriError, parse_source
from paddock_sources.lock.lock_file import LOCK_FILE, LockFile
from paddock_sources.supplies.git import GitSupply


def names_its_bundle(written: str) -> bool:
    """Return whether a text names a bundle by itself, so that nothing need be fetched to see that it is no module."""
    return names_bundle(written) and (not written.startswith("git+") or written.endswith((".md", ".yaml", ".yml")))


def holds_bundle(context: CommandContext, written: str) -> bool:
    """Return whether a repository without a module in its folder, which was fetched, has a bundle there.

    Raises:
        SourceError: it cannot be had.
    """
    uri = parse_source(written) if names_bundle(written) else None
    if not isinstance(uri, GitUri):
        return False
    supply = context.provider.supply(uri)
    assert isinstance(supply, GitSupply), "so repositories are got"
    _, folder = supply.fetched(uri, supply.pin(uri).commit, allow_impostor=False)
    return any((folder / name).is_file() for name in BUNDLE_FILES)


async def add_bundle(context: CommandContext, written: str, plan: Path | None) -> CommandAnswer:
    """Have a plan extend a bundle, which is fetched and pinned in its lock file; a person is asked first.

    Raises:
        KindError: no plan is named.
        PaddockError: the bundle cannot be had, or the plan cannot be changed.
    """
    if plan is None:
        raise KindError(
            "NoPlanError", f"`{written}` is a bundle, which a plan extends", hints=["name one: `--to PLAN`"]
        )
    address = await context.call(address_in, written, plan.parent)
    try:
        notes = context.provider.settings.mirrors.notes([parse_source(address)])
    except SourceUriError:
        notes = ()
    lines = [f"extends: {marked(address)}", *map(marked, notes)]
    if await context.agrees(f"Have {plan} extend a bundle?", lines, "write it", "write nothing") is False:
        context.screen.note("nothing was written")
        return CommandAnswer({"plan": str(plan), "extends": None}, code=REFUSED)

    from paddock.module_sources.bundles import BundleOptions, pin_bundles  # for few plans

    async def pinned(after: bytes) -> MountPlan:
        options = BundleOptions(context.fetching, lends_keys=True, written=after)
        found = await pin_bundles(plan, os.environ, options)
        assert found is not None, "the plan extends the bundle"
        return found.plan

    edit = await context.call(with_bundle, plan, address, lambda after: anyio.from_thread.run(pinned, after))
    await context.call(edit.write)
    bundles = edit.plan.bundles
    names = [] if bundles is None else [name for name, _ in bundles.sources]
    facts = {"plan": str(plan), "extends": address, "bundles": names, "agents": [*edit.plan.agents]}
    count = sum(1 for _ in edit.plan.own_entries())
    lines = [f"{count} modules are in the plan now", *brought_by_bundles(edit.plan), *notes]
    return CommandAnswer(facts, shown(titles=[f"{plan} extends {marked(address)}"], notes=map(marked, lines)))


def bundle_index(written: str, plan: Path) -> int | None:
    """Return which of the bundles that a plan extends is meant; None if none is."""
    several: Sequence[object] = extended_by(read_document(plan).content)
    meant = {written, address_in(written, plan.parent)} if names_bundle(written) else {written}
    return next((index for index, one in enumerate(several) if one in meant), None)


def other_bundles(plan: Path) -> list[str]:
    """Return what to say of the bundles that a plan extends, where a name is none of them."""
    several = ", ".join(f"`{marked(str(one))}`" for one in extended_by(read_document(plan).content))
    return [f"a bundle goes by its address in the plan: {several}"] if several else []


def remove_bundle(plan: Path, index: int) -> CommandAnswer:
    """Take a bundle out of what a plan extends, and the repositories that only it had out of the lock file."""
    edit = without_bundle(plan, index)
    after = edit.write()
    folder = plan.resolve().parent
    used = {source.partition("#")[0] for _, source in after.bundles.sources} if after.bundles is not None else set()
    keys = {parse_source(one).key(folder) for one in used if one.startswith("git+")}
    gone: list[str] = []

    def without(lock: LockFile) -> LockFile:
        gone[:] = [row.source for row in lock.bundles if row.source not in keys]
        return lock.with_bundles(row for row in lock.bundles if row.source in keys)

    LockFile.update(folder / LOCK_FILE, without)
    titles = [f"{plan} is without the bundle", *(f"{folder / LOCK_FILE} is without bundles of {one}" for one in gone)]
    facts = {"lock": str(folder / LOCK_FILE), "plan": str(plan), "removed": gone, "kept": [], "places": ["extends"]}
    return CommandAnswer(facts, shown(titles=titles))
