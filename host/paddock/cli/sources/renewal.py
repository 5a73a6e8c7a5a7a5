"""What an update of the bundles of a plan changes: which commits, and by them which modules, agents and instructions.

The texts of bundles reach the model, so a difference of them is shown, with characters that cannot be seen made
visible. A plan with another text is another plan, which the user is asked about before it is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff

from paddock.cli.answer import CommandAnswer
from paddock.cli.sources.results import commit_facts, short
from paddock.cli.sources.source_command import CommandContext
from paddock.cli.terminal.render import Screen
from paddock.lookalikes import marked
from paddock.module_sources.sourced_modules import SourcedModules
from paddock.module_sources.updates import SourceUpdates
from paddock.plan.model import MountPlan
from paddock_sources.lock.lock_file import LockedModule

_MAX_LINES = 200  # of the difference of one text


@dataclass(frozen=True, slots=True)
class Renewal:
    """The bundles of a plan, looked up again: `moved` are rows of the lock file, by those before."""

    before: MountPlan
    sources: SourcedModules
    moved: tuple[tuple[LockedModule | None, LockedModule], ...]
    held: Mapping[str, str]

    def told(self, screen: Screen, answer: CommandAnswer) -> CommandAnswer:
        """Tell the person what changed, and return the answer with the facts of it."""
        for source, why in self.held.items():
            if why:
                screen.warning(f"bundles of {source} stay as they are locked: {why}")
        for old, new in self.moved:
            was = "not locked" if old is None else short(old.commit)
            screen.note(f"bundles of {new.source}: {was} → {short(new.commit)}")
        after = self.sources.plan
        assert after is not None
        lines = [*_differences(self.before, after)]
        for line in lines:
            screen.note(f"  {marked(line)}")
        facts = [
            {"source": new.source, "old": None if old is None else commit_facts(old), "new": commit_facts(new)}
            for old, new in self.moved
        ]
        return replace(answer, facts={**answer.facts, "bundles": facts, "differences": lines})


async def renewed(context: CommandContext, sources: SourcedModules, updates: SourceUpdates) -> Renewal | None:
    """Have the newest commits of a plan's bundles be locked, and return what changed; None for a plan without any.

    Raises:
        PaddockError: a bundle cannot be had, or is none any more; the lock file stays as it is.
    """
    before = sources.plan
    if before is None or before.bundles is None or before.origin is None:
        return None
    from paddock.module_sources.bundles import BundleOptions, pin_bundles  # for few plans

    options = BundleOptions(context.fetching, lends_keys=True, renews=updates.why_not)
    pinned = await pin_bundles(before.origin, os.environ, options)
    assert pinned is not None, "the plan extends bundles"
    after = await context.call(SourcedModules.read, before.origin, sources.folder, os.environ)
    return Renewal(before, after, pinned.moved, pinned.held)


def _differences(before: MountPlan, after: MountPlan) -> Iterator[str]:
    """Yield lines about the modules, agents and instructions that are new, gone or changed."""
    yield from _of_names("module", _modules(before), _modules(after))
    yield from _of_names("agent", _agents(before), _agents(after))
    yield from _of_text("the instruction", _told(before), _told(after))
    for name in before.agents.keys() & after.agents.keys():
        yield from _of_text(f"agent {name}", before.agents[name].instruction, after.agents[name].instruction)


def _of_names(what: str, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"- {what} {name}"
        elif name not in before:
            yield f"+ {what} {name}"
        elif before[name] != after[name]:
            yield f"~ {what} {name}"


def _of_text(what: str, before: str, after: str) -> Iterator[str]:
    names = (f"{what} before", f"{what} now")
    changed = [*unified_diff(before.splitlines(), after.splitlines(), *names, n=1, lineterm="")]
    yield from changed[:_MAX_LINES]
    if len(changed) > _MAX_LINES:
        yield f"… and {len(changed) - _MAX_LINES} lines more of {what}"


def _modules(plan: MountPlan) -> dict[str, object]:
    whose = ((entry, "" if entry.agent is None else f" of agent {entry.agent}") for entry in plan.entries())
    return {f"{entry.instance_id or entry.module}{of}": (entry.source, entry.config) for entry, of in whose}


def _agents(plan: MountPlan) -> dict[str, object]:
    return {name: {**agent.raw, "instruction": ""} for name, agent in plan.agents.items()}


def _told(plan: MountPlan) -> str:
    return plan.bundles.told.text if plan.bundles is not None else ""
