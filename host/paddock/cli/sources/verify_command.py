"""Check that locked code is unchanged: the files in the cache, and the tags it was locked by.

Everything that the lock file names is read again and compared with its digests. Servers get only a request for the
present place of tags, and nothing is fetched from where a tag moved; a branch that moved on is normal, and no finding.

`--json`: `{"lock", "plan", "modules": [{"module", "place", "source", "state", "findings": [text…]}…], "error"}`;
`state` is `ok`, `missing` (not in the cache), `damaged`, `moved` or `failed`. Exit codes: 0 everything is there as it
was; 1 something is not, or could not be checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer
from paddock.cli.command_group import example
from paddock.cli.failure import SourceFailedError
from paddock.cli.sources.results import ModuleResult, command_text, module_answer, pin_text, short, tell_failures
from paddock.cli.sources.source_command import OFFLINE, PLAN, WORKING_DIR, CommandContext, over_modules
from paddock.cli.terminal.render import Screen
from paddock.module_sources.sourced_modules import SourcedModule, SourcedModules
from paddock_sources.lock.locked_module import LockedModule

if TYPE_CHECKING:
    from paddock_sources.provisioner import Provisioner

_State = Literal["ok", "missing", "damaged", "moved", "failed"]


@dataclass(frozen=True, slots=True)
class _Verdict:
    module: SourcedModule
    state: _State
    findings: tuple[str, ...] = ()
    error: SourceFailedError | None = None


@click.command(epilog=example("paddock verify plan.yaml"))
@PLAN
@OFFLINE
@WORKING_DIR
@options.JSON
@over_modules
async def verify(context: CommandContext, sources: SourcedModules) -> CommandAnswer:
    """Check that everything locked is unchanged, and that tags lead where they led.

    Reads all files again. Exits with 0 if everything is there as it was locked, else with 1.
    """
    sources.refuse_by(context.policy)
    modules = [one for one in sources.by_source().values() if one.locked is not None]
    modules += sources.bundles
    verdict = partial(_verdict, context.provider, offline=context.is_offline)
    verdicts = [
        found if isinstance(found, _Verdict) else _Verdict(module, "failed", (found.summary,), found)
        for module, found in await context.side_by_side(modules, verdict)
    ]
    _tell(context.screen, verdicts, command_text("sync", sources))
    code = 0 if all(one.state == "ok" for one in verdicts) else 1
    return module_answer(sources, [_result(one) for one in verdicts], code)


def _verdict(provider: Provisioner, module: SourcedModule, *, offline: bool) -> _Verdict:
    assert module.locked is not None
    if damage := provider.damage(module.locked):
        return _Verdict(module, "damaged", damage)
    if not offline and (moved := _moved_tag(provider, module, module.locked)):
        return _Verdict(module, "moved", (moved,))
    if missing := provider.missing(module.locked):
        return _Verdict(module, "missing", missing)
    return _Verdict(module, "ok")


def _moved_tag(provider: Provisioner, module: SourcedModule, locked: LockedModule) -> str:
    """Return where the module's locked tag is now, if that is elsewhere."""
    if module.uri.pin_word(locked.requested_kind) != "tag":
        return ""
    pinned = provider.supply(module.uri).look(module.uri)
    if pinned.kind == "tag" and pinned.commit == locked.commit:
        return ""
    ref = locked.requested_ref
    now = f"the tag `{ref}`" if pinned.kind == "tag" else f"`{ref}`, which was a tag and is a {pinned.kind},"
    return f"{now} is at {short(pinned.commit)}, and was at {short(locked.commit)}"


def _tell(screen: Screen, verdicts: list[_Verdict], sync: str) -> None:
    for one in verdicts:
        if one.state == "damaged":
            screen.alarm(f"{one.module.name}: no longer what was put into the cache: {', '.join(one.findings)}")
        elif one.state == "moved":
            screen.alarm(f"{one.module.name}: {', '.join(one.findings)}")
    if any(one.state == "damaged" for one in verdicts):
        screen.text(f"hint: `paddock cache verify` has damage handed out no more; then {sync} fetches it again")
    if any(one.state == "missing" for one in verdicts):
        screen.text(f"hint: {sync} fetches what is not there")
    tell_failures(screen, [(one.module.name, one.error) for one in verdicts if one.error is not None])


_STATES: Final[dict[_State, str]] = {
    "ok": "as locked",
    "missing": "not fetched",
    "damaged": "DAMAGED",
    "moved": "MOVED",
    "failed": "not known",
}


def _result(verdict: _Verdict) -> ModuleResult:
    locked = verdict.module.locked
    assert locked is not None
    lacking = f", without {', '.join(verdict.findings)}" if verdict.state == "missing" else ""
    return ModuleResult(
        verdict.module,
        {"state": verdict.state, "findings": list(verdict.findings)},
        (_STATES[verdict.state], f"{verdict.module.key} at {pin_text(locked)}{lacking}"),
    )
