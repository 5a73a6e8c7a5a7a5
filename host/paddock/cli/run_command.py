"""Run one turn of a session from the command line.

In every case, each process of the session is gone when the command ends, stdout receives the answer or, for scripts,
exactly one object, and stderr reports what was started, contained and refused. If one terminal shows both, the answer
is drawn as it arrives, with the tool calls on the way to it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import click

from paddock.cli import failure
from paddock.cli.bundle_plan import no_such_plan, plan_of
from paddock.cli.command_group import INTERRUPTED, Interrupted, example
from paddock.cli.options import (
    JSON,
    QUIET,
    PlanAndPrompt,
    SessionOptions,
    check_verbosity,
    plan_and_prompt,
    session_options,
)
from paddock.cli.output_file import output_file
from paddock.cli.session_on_screen import SessionOpener, row_of
from paddock.cli.terminal.answer_ends import AnswerEnds
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.denial_notes import (
    homes_to_keep,
    lines_to_paste,
    tell_denials,
    tell_lines_to_paste,
    tell_programs,
)
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.interruption import Interruption
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.progress import ActivityLine, activity_of
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.request_parts import tell_request
from paddock.cli.terminal.standard_streams import print_answer, read_stdin
from paddock.errors import PaddockError, render
from paddock.plan.permissions import Permissions, permissions_line
from paddock.rpc.trace import Trace
from paddock.session.hosted_session import ModuleStatus, as_before_the_end
from paddock.session.session import Session

if TYPE_CHECKING:
    from paddock.cli.chat.turn_view import TurnView

_LAST: Final = 1_000_000  # after the handlers of modules


def _checked_words(words: tuple[str, ...], options: SessionOptions) -> PlanAndPrompt:
    """Return the plan and the prompt that words are, if there is no doubt: a single word may be either.

    Raises:
        click.UsageError: they could be meant in another way; the error has the command that was probably meant.
    """
    meant = plan_and_prompt(words, options.kept.session, options.working_dir)
    is_plan = not words or words[0] == meant.plan
    if is_plan and len(words) < 3:
        return meant
    no_plan = "" if is_plan else f"{no_such_plan(words[0])}; "
    if len(words) > 1:
        how = "the plan comes first, then the prompt" if meant.prompt in words else "the prompt is one argument"
    elif len(words[0].split()) == 1:  # it may be either, and a prompt costs money
        how = "if that is the prompt"
        if not Path(meant.plan).exists():
            old = next(filter(os.path.exists, ("plan.toml", "plan.json")), None)
            how += f", first `paddock init --from {old}`, then" if old else ", first `paddock init`, then"
    else:
        return meant
    raise click.UsageError(f"{no_plan}{how}: `{meant.run}`")


@click.command(epilog=example('paddock run plan.yaml "What is in this folder?"'))
@click.argument("words", nargs=-1, metavar="[PLAN] [PROMPT]")
@session_options
@JSON
@QUIET
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show every module with its grants, what each used, what goes to the model, and more messages.",
)
@click.option(
    "--print-grants",
    "prints_grants",
    is_flag=True,
    help="At the end, print for each module the line of the plan that grants what it was refused and what Paddock "
    "would propose.",
)
@click.option(
    "--trace",
    "trace_to",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write which module called which, and how long each took, into a new file for ui.perfetto.dev.",
)
def run(
    words: tuple[str, ...],
    options: SessionOptions,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    prints_grants: bool,
    trace_to: Path | None,
) -> int:
    """Run one turn: start the modules of PLAN, give them PROMPT, and print the answer.

    PLAN is plan.yaml by default, or that of the session to go on with. Without PROMPT, `run` reads the prompt from
    stdin.
    """
    meant = _checked_words(words, options)
    plan, prompt = plan_of(meant.plan), meant.prompt
    check_verbosity(quiet=quiet, verbose=verbose)
    screen = Screen(sys.stderr, is_quiet=quiet)
    opener = SessionOpener(plan, options, screen, is_verbose=verbose)
    if prompt is None:  # a plan that is not there is reported at once
        prompt = read_stdin(screen, "the prompt", errors="replace") if plan.exists() else None
    else:  # bytes that are not UTF-8 became halves of characters, which no server takes
        prompt = os.fsencode(prompt).decode("utf-8", "replace")
    if prompt is not None and not prompt.strip():
        raise click.UsageError(f"the prompt is empty; add one: `{meant._replace(prompt='hello').run}`")
    follows = (options.working_dir or Path.cwd()).resolve() if not (as_json or quiet) and _is_one_terminal() else None
    trace = None if trace_to is None else Trace()
    turn = _Turn(plan, screen, opener, follows, trace, verbose=verbose, prints_grants=prints_grants)
    with LogLines(screen, verbose=verbose), opener.fetching, ExitStack() as files:
        try:
            write = None if trace_to is None else files.enter_context(output_file(trace_to))
            asyncio.run(turn.run(prompt or ""))
            if trace is not None and write is not None and trace.has_calls:
                write(trace.as_json(screen.mask))
        except KeyboardInterrupt:
            turn.interrupt()
        except SystemExit:
            raise
        except BaseException as error:  # the top of a command: an unforeseen error is reported here
            turn.fail(failure.as_exception(error))
    if as_json:
        print_json(turn.as_dict(), screen.mask)
    elif turn.response is not None and not turn.is_shown:
        print_answer(turn.response, screen.mask)
    return turn.exit_code


class _Turn:
    """One turn with a plan, and its result; it is shown as it runs if `followed_in` is set, the folder of its files."""

    def __init__(
        self,
        plan: Path,
        screen: Screen,
        opener: SessionOpener,
        followed_in: Path | None,
        trace: Trace | None,
        *,
        verbose: bool,
        prints_grants: bool,
    ) -> None:
        self._plan = plan
        self.response: str | None = None
        self.is_shown = False  # whether a person has seen the response as it arrived
        self.interrupted: Interrupted | None = None
        self._screen = screen
        self._opener = opener
        self._verbose = verbose
        self._prints_grants = prints_grants
        self._dialogue = Dialogue.at(screen, sys.stdin)
        self._consent = TerminalConsent(self._dialogue, plan, reviews=prints_grants)
        self._approval = TerminalApproval(self._dialogue)
        self._followed_in = followed_in
        self._trace = trace
        self._view: TurnView | None = None
        self._session_id: str | None = None
        self._first_of: Session | None = None  # whose first request is to be shown
        self._modules: tuple[ModuleStatus, ...] = ()
        self._error: Exception | None = None
        self._is_running = False
        self._has_started = False

    @property
    def exit_code(self) -> int:
        if self.interrupted is not None:
            return INTERRUPTED
        return 0 if self._error is None else failure.exit_code(self._error)

    def as_dict(self) -> dict[str, object]:
        """Return the outcome for scripts."""
        error: Mapping[str, object] | None = self.interrupted.as_dict() if self.interrupted is not None else None
        if self._error is not None:
            error = failure.as_dict(self._error)
        grants = {name: permissions_line(one) for name, one in self._grants().items()} if self._prints_grants else None
        more = {} if grants is None else {"grants": grants, "keeps": list(self._homes())}
        return {
            "session_id": self._session_id,
            "response": self.response,
            "modules": [module.as_dict() for module in self._modules],
            "tracebacks": self._opener.tracebacks.as_list(),
            **more,
            "error": error,
        }

    def _grants(self) -> dict[str, Permissions]:
        """Return what each module would have to be granted for all that it was refused and not given."""
        return lines_to_paste(self._denials(), self._consent.not_given)

    def _homes(self) -> tuple[str, ...]:
        """Return the modules whose home would have to stay."""
        return homes_to_keep(self._denials(), self._consent.not_kept)

    def _denials(self) -> Iterator[Mapping[str, object]]:
        return (denial for module in self._modules for denial in module.denials)

    def interrupt(self) -> None:
        """Note and report that the person interrupted the turn where nothing of it could be stopped any more."""
        self.interrupted = Interrupted()
        self._screen.ending(self.interrupted.text)

    def fail(self, error: Exception) -> None:
        """Note the failure of the turn and report it to the person."""
        if isinstance(error, PaddockError):
            failure.name_plan(error, self._plan)
        self._error = error
        self._screen.text(failure.text_of_turn(error, self._screen.mask, verbose=self._verbose))

    async def run(self, prompt: str) -> None:
        """Run the turn. Only unforeseen errors are raised."""
        try:
            await self._opener.ready()
            session = self._opener.session(
                self._approval, self._consent, ask=self._consent.ask_changes, trace=self._trace
            )
        except PaddockError as error:
            self.fail(error)
            return
        self._session_id = session.session_id
        ends = AnswerEnds(session)
        if self._followed_in is not None:
            # For a terminal alone: drawing markdown takes a while to load.
            from paddock.cli.chat.conversation import follow

            self._view = follow(session, self._screen, self._approval, self._followed_in, is_verbose=self._verbose)
        failed: Exception | None = None
        with (
            anyio.CancelScope() as scope,
            Interruption(
                self._screen.note, lambda: self._stop_gently(session), lambda: self._stop_now(session, scope)
            ) as interruption,
            ActivityLine(self._screen, lambda: self._activity(session)),
        ):
            try:
                await self._run_in(session, prompt)
            except Exception as error:  # modules raise exceptions of any class; `of_turn` recognises Paddock's own
                failed = error
            finally:
                self.interrupted = interruption.end if interruption.happened else None
                self._modules = as_before_the_end(self._modules, session.modules) or session.modules
        if self._consent.starts_again:
            await self.run(prompt)
            return
        reported = None if failed is None else failure.of_turn(failed, session.plan.orchestrator.module, self._modules)
        self._say_what_ended(reported)
        ends.tell(self._screen)
        for change in session.changes:
            self._screen.warning(change)
        left_out = sum(module.denials_left_out for module in self._modules)
        tell_denials(self._screen, self._denials(), left_out, plan=session.plan)
        if self._verbose:
            self._screen.listing([(module.module, module.resources.describe()) for module in self._modules])
        if self.interrupted is not None:
            self._screen.ending(self.interrupted.text)
        for module in self._modules:
            tell_programs(self._screen, module.module, module.programs)
        if self._prints_grants:
            is_complete = not any(module.programs or module.denials_left_out for module in self._modules)
            tell_lines_to_paste(self._screen, self._grants(), self._homes(), is_complete=is_complete, plan=session.plan)
        if reported is not None:
            self.fail(reported)

    async def _run_in(self, session: Session, prompt: str) -> None:
        async with session:
            self._say_what_started(session.modules)
            self._opener.tell_resumed(session)
            self._is_running = self._has_started = True
            if self._verbose:
                self._first_of = session
                session.coordinator.hooks.register(
                    "provider:request", self._on_request, priority=_LAST, name="paddock-run"
                )
            try:
                with nullcontext() if self._trace is None else self._trace.turn():
                    self.response = await session.execute(prompt)
            finally:
                self._is_running = False
                if self._view is not None:
                    self._view.end(self.response)
                    self.is_shown = True
                # Before the session ends: then each module gets a report on its ordinary end as well.
                self._modules = session.modules

    async def _on_request(self, event: str, data: object) -> None:
        """Show the parts of the turn's first request."""
        session, self._first_of = self._first_of, None
        if session is not None:
            await tell_request(session, self._screen)

    # -- interruption ----------------------------------------------------------------------

    def _stop_gently(self, session: Session) -> bool:
        if self._is_running:
            self._approval.withdraw()
            session.cancel()
        return self._is_running

    def _stop_now(self, session: Session, scope: anyio.CancelScope) -> None:
        self._approval.withdraw()
        if self._is_running:
            session.cancel(immediate=True)
        scope.cancel()

    # -- messages for people ---------------------------------------------------------------

    def _activity(self, session: Session) -> str:
        if self._modules and not self._is_running:
            return "stopping the modules"
        return self._view.activity() if self._is_running and self._view is not None else activity_of(session)

    def _say_what_started(self, modules: tuple[ModuleStatus, ...]) -> None:
        self._opener.started(modules)
        for module in modules:
            if module.problem is not None:
                self._screen.text(render(module.problem))
        for module in modules:
            if module.is_mounted and module.live_from is not None:
                self._screen.note(f"{module.module} runs live from {module.live_from}: its code may change at any time")
        if self._verbose:
            self._screen.listing([row_of(module) for module in modules])

    def _say_what_ended(self, error: Exception | None) -> None:
        """Warn of each end of a module that neither its start nor the error of the turn tells.

        After a start that failed, the others were ended with it.
        """
        if not self._has_started or (self._screen.is_quiet and self.interrupted is not None):
            return
        told = getattr(error, "report", None)
        for module in self._modules:
            for report in module.exit_reports if module.problem is None else ():
                if report != told:
                    self._screen.warning("; ".join([f"module {report.describe()}", *report.hints]))


def _is_one_terminal() -> bool:
    """Whether the answer and the messages go to the same terminal, so that they can be drawn together."""
    try:
        return os.ttyname(sys.stdout.fileno()) == os.ttyname(sys.stderr.fileno())
    except OSError:
        return False
