"""Call one tool of one module from the command line.

stdout receives the tool's result or, for scripts, exactly the dump of a tool result, even if the tool returned none.
The module's process is gone when the command ends, in every case.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from paddock.authorization.grant_lines import what_writing_opens
from paddock.cli import failure, options, plan_options
from paddock.cli.command_group import INTERRUPTED, Interrupted, example
from paddock.cli.failure import masked
from paddock.cli.options import GrantFlags, SourceFlags
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.confinement_notes import Confined, levels_of, tell_confinements
from paddock.cli.terminal.denial_notes import tell_blindness, tell_denials, tell_programs
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.json_output import plain, print_json, printable_json
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen, ScreenDisplay
from paddock.cli.terminal.standard_streams import print_answer, read_stdin
from paddock.errors import ModuleMissingError, PaddockError, PlanError, PolicyRefusedError
from paddock.plan.permissions import Permissions
from paddock.session.modules import failed_result
from paddock.session.tool_call import ToolCallOutcome, ToolCallSession
from paddock.text import escape
from paddock_sandbox.profile import IsolationLevel
from paddock_sources import SourceError
from paddock_sources.similar_names import near

if TYPE_CHECKING:
    from paddock.isolation.compile import Confinement
    from paddock.module_sources.sourced_modules import NamedSource

_ABOUT_VALUES: Final = ("TypeError", "CannotCrossError")


@click.command(epilog=example("""paddock call ./my-tool shout '{"text": "hello"}' --allow-read=."""))
@click.argument("source")
@click.argument("tool")
@click.argument("arguments", metavar="[JSON|-]", nargs=-1)
@click.option("--config", metavar="JSON", default="{}", help="The module's configuration, as a JSON object.")
@options.LIMITS
@options.grant_options
@options.ISOLATION
@options.WORKING_DIR
@options.source_options
@options.JSON
@options.QUIET
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also show the grants, what the module used of the machine, and the traceback if the tool raised.",
)
def call(
    source: str,
    tool: str,
    arguments: tuple[str, ...],
    config: str,
    limits: tuple[str, ...],
    isolation: IsolationLevel | None,
    working_dir: Path | None,
    sources: SourceFlags,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    grants: GrantFlags,
) -> int:
    """Call one tool of one module and print what it returns.

    SOURCE is a folder (./module), git+https://…@ref, a package (name==version), builtin:<id>, or a module's id:
    that of a shipped module, or of one that plan.yaml of the working directory names, if you accepted that plan. A
    paddock.lock in the working directory applies. JSON is the tool's input, an object; `-` reads it from stdin.

    The module is granted what the `--allow-` options say, and nothing else. Repeat an option, or separate its values by
    commas; write a comma inside a value twice.
    """
    options.check_verbosity(quiet=quiet, verbose=verbose)
    screen = Screen(sys.stderr, is_quiet=quiet)
    written = plan_options.read_limits(limits)
    granted = plan_options.read_grants(grants.allowed, grants.deny_read)
    settings = plan_options.read_object(config, "--config")
    typed = " ".join(arguments) or "{}"  # of several words when a shell took the quotes
    given = plan_options.read_object(
        read_stdin(screen, "the tool's input") if typed == "-" else typed, "the tool's input"
    )
    approval = TerminalApproval.at(screen, sys.stdin)
    fetching = FetchProgress(screen)
    folder = (working_dir or Path.cwd()).resolve()
    known, unread = _named(source, folder)
    named = next((one for one in known if one.is_accepted), None)
    if named is not None:
        screen.note(
            f"{named.module_id} is {masked(named.text)}, as {named.file.name} says; the options say what it may do"
        )
    confinements: list[Confinement] = []

    def on_confined(confined: Confined) -> None:
        confinements.extend(confinement for _, confinement in confined)
        _tell_confined(screen, confined, folder, verbose=verbose)

    session = ToolCallSession(
        source if named is None else named.text,
        tool,
        given,
        config=settings,
        limits=written,
        permissions=granted,
        isolation=isolation,
        working_dir=working_dir,
        approval=approval,
        display=ScreenDisplay(screen),
        on_output=lambda name, line: screen.module_line(name, line.text, verbose=verbose),
        on_confined=on_confined,
        sources=sources.read(fetching),
        module_id=None if named is None else named.module_id,
        lock=None if named is None else named.lock,
        rules=None if named is None else named.rules,
    )
    screen.hide_with(session.mask)
    outcome: ToolCallOutcome | Interrupted
    with LogLines(screen), fetching:
        try:
            outcome = asyncio.run(
                interruptible(session.run, screen, lambda: session.activity, on_stop=approval.withdraw)
            )
        except (KeyboardInterrupt, Interrupted) as error:
            outcome = Interrupted.of(error)
        except SystemExit:
            raise
        except BaseException as error:  # the top of a command: an unforeseen error is reported here
            defect = failure.as_exception(error)
            outcome = ToolCallOutcome(failed_result(defect), "", (), defect)
    if isinstance(outcome, ToolCallOutcome) and named is None and isinstance(outcome.error, ModuleMissingError):
        plan_options.retell_missing(outcome.error, tool, [_hint(one, tool, typed) for one in known])
        meant = () if known else _meant(source, folder)
        outcome.error.hints = tuple(dict.fromkeys([*meant, *outcome.error.hints]))
        if unread is not None:
            outcome.error.with_hint(f"plan.yaml of this folder may name it, and cannot be read: {unread.detail[0]}")
    for change in session.changes:
        screen.warning(change)
    code = _report(outcome, tool, screen, Permissions.model_validate(granted), as_json=as_json, verbose=verbose)
    if isinstance(outcome, ToolCallOutcome) and outcome.error is None and not outcome.result.success:
        _tell_unseen(screen, outcome, confinements, folder)
    return code


def _tell_confined(screen: Screen, confined: Confined, folder: Path, *, verbose: bool) -> None:
    """Show how the module is sandboxed, and the effect of options that open a guarded place."""
    tell_confinements(screen, confined, verbose=verbose)
    if confined:
        screen.note(levels_of(confined))
    for entry, confinement in confined:
        for granted in confinement.grants.writes:
            if opened := what_writing_opens(granted.path, folder, confinement.home):
                screen.warning(f"{entry.module}: writes {granted.path}{opened}")


def _tell_unseen(
    screen: Screen,
    outcome: ToolCallOutcome,
    confinements: Sequence[Confinement],
    folder: Path,
) -> None:
    """Say how to see whether a module may read, if nothing was seen of a refusal that a failed call may be about.

    To look whether a file is there is no attempt that anything reports. An exception says more, but for a missing file;
    and an answer or an input of a wrong type has nothing to do with files.
    """
    error = outcome.result.error or {}
    kind = error.get("type")
    is_about_more = "traceback" in error and kind not in ("FileNotFoundError", "NotADirectoryError")
    if is_about_more or kind in _ABOUT_VALUES or outcome.denials or outcome.denials_left_out or outcome.programs:
        return
    for one in confinements:
        granted = (*one.grants.reads, *one.grants.writes)
        if one.profile.level != "none" and not any(folder.is_relative_to(each.path) for each in granted):
            tell_blindness(screen, outcome.module)


def _named(source: str, folder: Path) -> tuple[tuple[NamedSource, ...], PlanError | None]:
    """Return the sources that the folder's plan or lock file has for the tool, or why the plan cannot say.

    There are none where `source` is one itself.

    Raises:
        click.UsageError: there are several.
    """
    if ":" in source or "/" in source:
        return (), None  # a source, by its form: the files need not be read
    from paddock.module_sources.sourced_modules import named_sources

    try:
        named = named_sources(source, folder, os.environ)
    except PlanError as error:
        return (), error
    except (PaddockError, SourceError):
        return (), None  # the call itself reports the problem
    if len(named) > 1:
        which = ", ".join(masked(one.text) for one in named)
        raise click.UsageError(f"{named[0].file.name} has `{source}` from several places; name one: {which}")
    return named, None


def _meant(source: str, folder: Path) -> tuple[str, ...]:
    """Return a hint at the folder, or the module of the plan or lock file here, that a mistyped id may stand for."""
    if not {":", "/"} & {*source} and Path(source).is_dir():
        words = [f"./{word}" if word == source else word for word in sys.argv[1:]]
        return (f"a folder is written with `./`: {options.command_to_paste(['paddock', *words])}",)
    from paddock.module_sources.sourced_modules import ids_in_files

    return tuple(f"did you mean `{one}`?" for one in near(source, ids_in_files(folder, os.environ)))


def _hint(named: NamedSource, tool: str, arguments: str) -> str:
    """Return what to type for code that only a file says to run, which the user did not accept."""
    words = ["paddock", "call", masked(named.text), tool, *([] if arguments == "{}" else [arguments])]
    line = options.command_to_paste(words) or f"`paddock call {shlex.quote(masked(named.text))} …`"
    return (
        f"{named.file.name} names a source of `{named.module_id}` that you did not accept; to run that code, type it: "
        f"{line}, with what it may do as --allow-… options"
    )


def _report(
    outcome: ToolCallOutcome | Interrupted,
    tool: str,
    screen: Screen,
    given: Permissions,
    *,
    as_json: bool,
    verbose: bool,
) -> int:
    if isinstance(outcome, Interrupted):
        if as_json:
            print_json(failure.as_result(outcome.as_dict()), screen.mask)
        screen.ending(outcome.text)
        return INTERRUPTED
    result = outcome.result
    if isinstance(outcome.error, (PlanError, PolicyRefusedError)):
        plan_options.retell(outcome.error)
        result = failed_result(outcome.error)
    if outcome.error is not None:  # the same facts as after a run
        result = result.model_copy(update={"error": {**failure.as_dict(outcome.error), **(result.error or {})}})
    if outcome.live_from is not None:
        screen.note(f"it ran live from {outcome.live_from}: its code may change at any time")
    if outcome.error is not None:
        screen.text(failure.text(outcome.error))
    elif not result.success:
        error = result.error or {}
        reason = ": ".join(str(part) for part in (error.get("type"), error.get("message")) if part)
        said = f"tool `{tool}` failed: {reason or 'it gave no reason'}"
        screen.text(f"error: {escape(screen.mask(said))}")
    tell_denials(screen, (denial.as_dict() for denial in outcome.denials), outcome.denials_left_out, given=given)
    tell_programs(screen, outcome.module, outcome.programs)
    if verbose and outcome.resources is not None:
        screen.note(f"used: {outcome.resources.describe()}")
    if as_json:
        used = None if outcome.resources is None else outcome.resources.as_dict()
        more = {"resources": used, "unreported_programs": list(outcome.programs)}
        print_json({**result.model_dump(warnings=False), **more}, screen.mask)
    elif result.success or (result.error or {}).get("message") != result.output:
        if isinstance(result.output, str):
            print_answer(result.output, screen.mask)
        elif result.output is not None:
            print_answer(printable_json(plain(result.output, screen.mask), indent=2))
    if outcome.error is not None:
        return failure.exit_code(outcome.error)
    return 0 if result.success else 1
