"""Show the operator's files and what they bound, check one before it is put in place, take an acceptance back.

`show` and `check` with `--json`: `{"ok", "files": [{"file", "state", "bounds": [text…], "warnings": [{"path",
"message", "hint", "line"}…], "problems": [the same…]}…], "error"}`; `state` is `in force`, `absent` or `refused`, or of
a file that is checked, `valid` or `refused`. A warning is about a rule that leaves open what a wider one bounds; it
refuses nothing. Exit codes: 0; 1 there is no such file; 4 a file is refused.

`forget` with `--json`: `{"plan", "forgotten": [{"digest", "accepted_at", "grants": [{"at", "source"}…]}…], "error"}`.
Exit codes: 0; 1 no version of the plan is accepted, or the file cannot be changed; 4 it is refused.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.bundle_plan import as_named, kept_plan, names_bundle
from paddock.cli.command_group import CommandGroup, example
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.policy.files.accepted_plans import AcceptedPlan
from paddock.policy.files.file_status import FileStatus, status_of_file, statuses_of_files
from paddock.policy.files.grants import GrantsFile
from paddock.policy.trust import name_of_file

_REFUSED: Final = 4


@click.group(cls=CommandGroup, epilog=example("paddock policy show"))
def policy() -> None:
    """Show or check the operator's files: policies, accepted plans, secrets and sources.

    `forget` takes back that you accepted a plan.
    """


@policy.command(epilog=example("paddock policy show"))
@options.JSON
def show(as_json: bool) -> int:
    """List the operator's files on this machine, and what each line bounds.

    Exits with 4 if Paddock refuses one of them. Then no session starts.
    """
    return _report(lambda: statuses_of_files(os.environ), as_json=as_json)


@policy.command(epilog=example("paddock policy check policy.toml"))
@click.argument("file", type=click.Path(path_type=Path))
@options.JSON
def check(file: Path, as_json: bool) -> int:
    """Check a policy file before you put it in place.

    Looks at the text, the owner and the mode, as a start does, and warns of rules that leave open what others bound. A
    FILE named grants.toml, secrets.toml or sources.toml is checked as such a file. Exits with 0 if it is valid, else
    with 4.
    """

    def look() -> Sequence[FileStatus]:
        status = status_of_file(file, os.environ)
        if status.state == "absent":
            raise KindError("PolicyFileError", f"`{file}` cannot be read: {os.strerror(errno.ENOENT)}")
        return [status]

    return _report(look, as_json=as_json)


@policy.command(epilog=example("paddock policy forget plan.yaml"))
@click.argument("plan")
@options.JSON
def forget(plan: str, as_json: bool) -> int:
    """Take back that you accepted PLAN, in all its versions, and what you granted to its modules.

    The next start treats it as a plan that you have not seen. The file of PLAN may be gone; running sessions go on.
    Exits with 1 if no version of it is accepted. For a bundle, the plan that is kept for it goes, too.
    """
    kept = kept_plan(plan) if names_bundle(plan) else None
    name = name_of_file(kept or Path(plan))
    shown = as_named(name)

    def work() -> CommandAnswer:
        forgotten = GrantsFile.of_user(os.environ).forget(name)
        is_kept = kept is not None and kept.exists()
        if kept is not None and is_kept:
            shutil.rmtree(kept.parent)
        if not (forgotten or is_kept):
            hints = ["`paddock policy show` lists the accepted plans, below `grants.toml`"]
            raise KindError("PlanNotAcceptedError", f"no version of `{shown}` is accepted", hints=hints)
        rows = [
            {
                "digest": one.digest,
                "accepted_at": one.accepted_at.isoformat(),
                "grants": [{"at": grant.place, "source": grant.source} for grant in one.grants],
            }
            for one in forgotten
        ]
        facts = {"plan": name, "forgotten": rows}
        return CommandAnswer(facts, lambda screen: _show_forgotten(screen, shown, forgotten))

    report = CommandReport(Screen(sys.stderr), as_json, beside={"plan": name, "forgotten": []})
    return report.answer(work, "the plan is forgotten")


def _show_forgotten(screen: Screen, name: str, versions: Sequence[AcceptedPlan]) -> None:
    screen.labelled([("forgotten  ", name)])
    for one in versions:
        granted = ", ".join(f"{grant.place} ({grant.source})" for grant in one.grants)
        said = f"version accepted on {one.day} (sha256 {one.short_digest})"
        screen.labelled([(" " * 11, f"{said}, with grants to {granted}" if granted else said)])


def show_files(screen: Screen, files: Sequence[FileStatus]) -> None:
    """Write the files, each with what it bounds, and what it may leave open by mistake."""
    for one in files:
        screen.labelled([(f"  {one.state:8}  ", str(one.path))])
        screen.labelled([(" " * 12, as_named(line)) for line in one.bounds])
        for warning in one.warnings:
            place = "warning: " if warning.line is None else f"warning: line {warning.line}: "
            screen.labelled([(" " * 12, f"{place}{warning.message}; {warning.hint}")])


def _report(look: Callable[[], Sequence[FileStatus]], *, as_json: bool) -> int:
    def work() -> CommandAnswer:
        files = look()
        refused = [one.error for one in files if one.error is not None]
        facts = {"ok": not refused, "files": [one.as_dict() for one in files]}
        return CommandAnswer(facts, lambda screen: show_files(screen, files), _REFUSED if refused else 0, refused)

    return CommandReport(Screen(sys.stderr), as_json, beside={"ok": False, "files": []}).answer(work)
