"""Open the session of a command's plan, and list its modules, on the command's screen."""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from paddock.authorization.consent import Consent
from paddock.authorization.suggestions.vendors import is_scripted
from paddock.cli.bundle_plan import as_named, is_kept
from paddock.cli.options import SessionOptions
from paddock.cli.plan_options import read_presets
from paddock.cli.terminal.confinement_notes import Confined, levels_of, tell_confinements
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.render import Screen, ScreenDisplay
from paddock.plan.model import MountPlan
from paddock.policy.files.policy import Policy
from paddock.policy.journal_rule import JournalRule
from paddock.rpc.trace import Trace
from paddock.session.hosted_session import ModuleStatus
from paddock.session.journals.journal_folder import SHORT_ID, Journals
from paddock.session.journals.resume import Ask, Resume
from paddock.session.session import Session
from paddock.text import escape
from paddock.workers.output import OutputLine
from paddock_sdk.contract.approval import ApprovalSystem
from paddock_sdk.worker.calls.raised import DETAIL, MAX_LINE, cut

_MAX_KEPT: Final = 10  # of one module
_MAX_LINES: Final = 200  # of one; a worker sends fewer
_CHAINED: Final = ("During handling of the above exception", "The above exception was the direct cause")


class SessionOpener:
    """Makes the sessions of one command, and enters `fetching` while they run.

    Raises:
        click.UsageError: an option is invalid.
    """

    def __init__(self, plan: Path, options: SessionOptions, screen: Screen, *, is_verbose: bool) -> None:
        self.fetching = FetchProgress(screen)
        self.tracebacks = Tracebacks()
        self._plan = plan
        self._options = options
        self._screen = screen
        self._is_verbose = is_verbose
        self._presets = read_presets(options.grants)
        self._sources = options.sources.read(self.fetching)
        self._levels = ""  # of the modules, to be said at the latest before the first word of one of them
        self._shown = as_named(shlex.quote(str(plan)))
        self._add = f"`paddock add provider-openai --to {self._shown}`"

    async def ready(self) -> None:
        """Have the bundles that the plan extends at hand: those that are missing are fetched and pinned.

        Raises:
            PaddockError: one cannot be had, or the plan has problems.
        """
        from paddock.module_sources.bundles import BundleOptions, pin_bundles  # for few plans

        options = BundleOptions(
            self._sources,
            lends_keys=self._options.trust_plan or is_kept(self._plan),
        )
        pinned = await pin_bundles(self._plan, os.environ, options)
        if pinned is not None and not pinned.plan.providers:
            self._screen.note(f"neither {self._shown} nor its bundles name a provider; {self._add} adds one")

    def session(
        self,
        approval: ApprovalSystem,
        consent: Consent,
        plan: MountPlan | None = None,
        ask: Ask | None = None,
        goes_on_with: str | None = None,
        trace: Trace | None = None,
    ) -> Session:
        """Return a session that is not started yet; from now on the screen masks its secrets.

        It is of `plan`, by default as its file has it now. `ask` asks about what has changed since a session that is
        gone on with. `goes_on_with` is one of this very command, whose changes were agreed to.

        Raises:
            PaddockError: the plan has problems.
        """
        options, screen, kept = self._options, self._screen, self._options.kept
        resume = None if kept.session is None else Resume(kept.session, kept.accept_changes or options.trust_plan, ask)
        if goes_on_with is not None:
            resume = Resume(goes_on_with, accept_changes=True)
        session = Session(
            plan or self._plan,
            working_dir=options.working_dir,
            approval=approval,
            display=ScreenDisplay(screen, self._say_levels),
            journal=None if kept.no_journal else Journals(),
            resume=resume,
            on_output=self._speak,
            isolation=options.isolation,
            trust_plan=options.trust_plan,
            grants=self._presets,
            consent=consent,
            on_confined=self._tell_confined,
            sources=self._sources,
            trace=trace,
        )
        screen.hide_with(session.mask)
        for note in session.notes:
            screen.note(f"note: {note}")
        return session

    def started(self, modules: Iterable[ModuleStatus], more: str = "", before: str = "") -> None:
        """Write how many modules started, between `before` and `more`; warn if no provider asks a model.

        No isolation levels are written from now on.
        """
        started = [module for module in modules if module.is_mounted]
        levels = ", ".join(sorted({module.level for module in started}))
        count = "1 module" if len(started) == 1 else f"{len(started)} modules"
        self._screen.note(f"{before}{count} started, isolation: {levels}{more}")
        self._levels = ""
        providers = dict.fromkeys(module.module for module in started if module.kind == "provider")
        if providers and all(map(is_scripted, providers)):
            plays = "plays" if len(providers) == 1 else "play"
            self._screen.note(f"no model answers: {' and '.join(providers)} {plays} a script; {self._add} adds a model")

    def tell_resumed(self, session: Session) -> None:
        """Write what became of the session that this one goes on with; say once for a user that sessions are kept.

        If it goes on with none, and the last one here was killed, it is said how to go on with that.

        Sessions beyond the bounds of all that are kept are removed, which is said once as well.
        """
        for line in session.resumed:
            self._screen.note(escape(line))
        if session.journal is None:
            return
        if not session.resumed:
            given = self._options.working_dir
            kept = Journals().interrupted_in((given or Path.cwd()).resolve(), besides=session.session_id)
            if kept is not None:
                folder = [] if given is None else ["-C", str(given)]
                goes_on = shlex.join(["paddock", "chat", "--resume", kept.path.stem[:SHORT_ID], *folder])
                self._screen.note(
                    f"the last session here did not end: {kept.interruption}; to go on with it: `{goes_on}`"
                )
        if not session.resumed and self._screen.is_terminal and len(Journals().ids()) == 1:
            self._screen.note(
                f"sessions are kept, so that they can be resumed: this one in {session.journal}; `paddock sessions "
                "delete` removes one, `--no-journal` keeps none"
            )
        self._remove_old(Journals())

    def _remove_old(self, journals: Journals) -> None:
        try:
            removed = journals.prune(JournalRule.strictest(file.journal for file in Policy.load(os.environ).files))
        except OSError as error:
            self._screen.note(f"old sessions could not be removed: {error}")
            return
        if removed and journals.is_first_removal():
            count = "1 session that was" if len(removed) == 1 else f"{len(removed)} sessions that were"
            self._screen.note(
                f"{count} over for the longest time {'is' if len(removed) == 1 else 'are'} removed, as from now on the "
                "oldest are: `keep` and `size` below `[journal]` in policy.toml say how many are kept"
            )

    def _tell_confined(self, confined: Confined) -> None:
        tell_confinements(self._screen, confined, verbose=self._is_verbose)
        self._levels = levels_of(confined)

    def _say_levels(self) -> None:
        levels, self._levels = self._levels, ""
        if levels:
            self._screen.note(levels)

    def _speak(self, name: str, line: OutputLine) -> None:
        self._say_levels()
        self.tracebacks.add(name, line.text)
        self._screen.module_line(name, line.text, verbose=self._is_verbose)


class Tracebacks:
    """The tracebacks of one session's tools, each with its module, in the order in which they began, for scripts.

    They are found in the lines that modules print. A module may print such lines by itself, so a traceback is what the
    module says, and proves nothing. Of each module the latest are kept, each up to a size.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[str, deque[str]]] = []
        self._open: dict[str, deque[str]] = {}

    def add(self, module: str, line: str) -> None:
        """Take a line that a module printed."""
        if not line.startswith(DETAIL):
            self._open.pop(module, None)
            return
        text = cut(line.removeprefix(DETAIL), MAX_LINE)
        lines = self._open.get(module)
        if lines is None or (text == "Traceback (most recent call last):" and not lines[-1].startswith(_CHAINED)):
            lines = self._open[module] = deque(maxlen=_MAX_LINES)
            self._kept.append((module, lines))
            of_module = [one for one in self._kept if one[0] == module]
            if len(of_module) > _MAX_KEPT:
                self._kept.remove(of_module[0])
        lines.append(text)

    def as_list(self) -> list[dict[str, object]]:
        """Return them for scripts."""
        return [{"module": module, "traceback": "\n".join(lines)} for module, lines in self._kept]


def row_of(module: ModuleStatus) -> tuple[str, str, str, str]:
    """Return a row of a listing of modules."""
    isolation = f"isolation: {module.level}" if module.level else ""
    if module.exit_reports:
        state = "; ".join(report.describe() for report in module.exit_reports)
    elif module.is_mounted:
        state = "started" if module.live_from is None else f"started, live from {module.live_from}"
    else:
        state = "not started" if module.problem is None else module.problem.summary
    return module.module, module.kind, isolation, state
