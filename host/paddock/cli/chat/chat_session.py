"""The sessions behind a chat on a terminal: the first, and one more for each `/grant`, which takes over the messages.

`terminal_chat` imports this module in a thread while the person is typing, so that the prompt appears at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from paddock.authorization.consent import Consent, ConsentAnswer, PlanReview
from paddock.authorization.grant_lines import far_reaching_lines
from paddock.cli import failure
from paddock.cli.chat.conversation import ChatConversation, follow
from paddock.cli.chat.prompt_input import PromptInput
from paddock.cli.chat.prompted_screen import PromptedDialogue, PromptedScreen
from paddock.cli.chat.slash_commands import Next, SlashCommands
from paddock.cli.chat.spending import Spending
from paddock.cli.options import SessionOptions
from paddock.cli.session_on_screen import SessionOpener
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.interruption import on_interrupt
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.progress import ActivityLine, activity_of
from paddock.cli.terminal.question import Option, Question
from paddock.errors import PaddockError, render
from paddock.isolation.mentioned_files import MentionedFiles, with_instruction
from paddock.plan.edit import PlanEdit, PlanNotEditedError, grant_lines, with_permissions
from paddock.plan.formats.document import read_document
from paddock.plan.instruction import MentioningText, compose
from paddock.plan.load import load_plan
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions
from paddock.plan.problems import NotAcceptedError
from paddock.policy.owner import Owner
from paddock.policy.trust import with_places
from paddock.session.instructing import over_half_a_window
from paddock.session.session import Session
from paddock.text import escape

_WORDS: Final = {"yes": True, "no": False}

Line = asyncio.Task[str | None]
Use = Callable[[SlashCommands, Callable[[str], str]], None]
"""Takes the commands to complete, and the function that masks secrets."""


class ChatSession:
    """The sessions of one chat, beside the line of `prompt`."""

    def __init__(
        self, plan: Path, options: SessionOptions, prompt: PromptInput, folder: Path, *, is_verbose: bool
    ) -> None:
        self._plan = plan
        self._working_dir = options.working_dir
        self._is_verbose = is_verbose
        self._prompt = prompt
        self._folder = folder
        self._screen = PromptedScreen(sys.stdout, prompt, asyncio.get_running_loop())
        self._dialogue = PromptedDialogue(self._screen, sys.stdin)
        self._opener = SessionOpener(plan, options, self._screen, is_verbose=is_verbose)
        self._spending = Spending()
        self._consent = GrantConsent(TerminalConsent(self._dialogue), folder, is_trusted=options.trust_plan)
        self._said: list[Any] = []  # messages of the session before, which the next one takes over
        self._agreed: PlanEdit | None = None  # to be written when the session has ended
        self._written: PlanEdit | None = None  # to be undone if no session starts with it
        self._conversation: ChatConversation | None = None

    async def converse(self, first: Line, ready: asyncio.Event, use: Use) -> int:
        """Hold the conversation, and return the exit code; `first` ends with the first line that is typed."""
        line: Line | None = first
        with LogLines(self._screen, verbose=self._is_verbose), self._opener.fetching:
            while True:
                try:
                    following = await self._one_session(line, ready, use)
                except Exception as error:  # the top of a command: an unforeseen error is reported here
                    is_over = self._written is None
                    if is_over:
                        await self._end_line(first)
                    self._screen.text(failure.text(error))
                    if is_over:
                        if self._agreed is not None:
                            self._screen.note("the plan is not changed")
                        return failure.exit_code(error)
                    following = Next.RESTART
                if following is Next.LEAVE:
                    return 0
                line = None
                self._change_plan()

    async def _end_line(self, first: Line) -> None:
        if self._prompt.is_open:
            self._prompt.leave()
        else:  # the person sent a line, which waits for a session that does not start
            first.cancel()
        with suppress(asyncio.CancelledError):
            await first

    def _change_plan(self) -> None:
        """Write the agreed change, or undo one that no session started with; if that fails, the plan stays."""
        written, self._written = self._written, None
        agreed, self._agreed = self._agreed, None
        try:
            if written is not None:
                self._consent.forget()
                written.undo()
                self._screen.note("the plan is restored; the chat continues without the change")
                self._screen.note("you accepted it, so a plan that is changed to the same again is not asked about")
            elif agreed is not None:
                agreed.write()
                self._written = agreed
                self._screen.note("the plan is written; the session starts again with it")
        except PlanNotEditedError as error:
            self._consent.forget()
            self._screen.text(render(error))

    async def _one_session(self, line: Line | None, ready: asyncio.Event, use: Use) -> Next:
        screen = self._screen
        approval = TerminalApproval(self._dialogue, preview=self._preview)
        session = self._opener.session(approval, self._consent)
        with anyio.CancelScope() as scope, self._interruptible_start(line, scope):
            with ActivityLine(screen, lambda: activity_of(session)):
                await session.initialize()
        if scope.cancel_called:
            await session.cleanup()
            return Next.LEAVE if self._written is None else Next.RESTART
        try:
            is_verbose = self._is_verbose
            view = follow(session, screen, self._folder, is_verbose=is_verbose)
            conversation = self._conversation = ChatConversation(
                session, screen, approval, self._spending, view, is_verbose=is_verbose
            )
            commands = SlashCommands(conversation, screen, self._working_dir, self._regrant)
            use(commands, session.mask)
            self._say_what_started(session)
            if self._said:
                await conversation.go_on_from(self._said)
            self._written = None
            ready.set()
            return await self._talk(conversation, commands, line)
        finally:
            self._conversation = None
            with ActivityLine(screen, lambda: "stopping the modules"):
                await session.cleanup()
            for change in session.changes:
                screen.warning(change)

    @contextmanager
    def _interruptible_start(self, line: Line | None, scope: anyio.CancelScope) -> Iterator[None]:
        """Cancel a start when the person leaves, and a later one by Ctrl-C: by the second where that ends the chat."""
        if line is not None:
            line.add_done_callback(lambda done: _cancel_if_left(done, scope))
            yield
            return
        warned = False

        def interrupt() -> None:
            nonlocal warned
            if warned or self._written is not None:
                scope.cancel()
            else:
                warned = True
                self._screen.note("the session is starting; Ctrl-C again ends the chat")

        with on_interrupt(interrupt):
            yield

    def _preview(self, prompt: str) -> None:
        if self._conversation is not None:
            self._conversation.preview(prompt)

    async def _talk(self, conversation: ChatConversation, commands: SlashCommands, first: Line | None) -> Next:
        """Take line after line until the person leaves, or the session has to start again."""
        line = await first if first is not None else ""
        while line is not None:
            if line.strip():
                following = await self._do(conversation, commands, line)
                if following is not Next.GO_ON:
                    return following
            conversation.tell_news()
            line = await self._prompt.line()
        return Next.LEAVE

    async def _do(self, conversation: ChatConversation, commands: SlashCommands, line: str) -> Next:
        with anyio.CancelScope() as scope, on_interrupt(scope.cancel):
            following = await commands.run(line)
            if following is not None:
                return following
        if scope.cancelled_caught:
            return Next.GO_ON
        await conversation.turn(await self._with_files(conversation.session, line))
        return Next.GO_ON

    async def _with_files(self, session: Session, line: str) -> str:
        """Return what the person typed, followed by the files that it mentions, and say which these are."""
        files = MentionedFiles(self._folder, Owner.current(os.environ))

        def read(mention: str) -> MentioningText:
            if mention in self._prompt.pasted:
                raise NotAcceptedError("it was pasted; type it to put the file in")
            return files.own(mention)

        composed = await anyio.to_thread.run_sync(compose, MentioningText(line, read))
        for note in composed.notes:
            self._screen.warning(escape(note))
        if not composed.files:
            return line
        names = escape(", ".join(composed.files))
        problem = await over_half_a_window(session.coordinator, composed.text)
        if problem:
            self._screen.warning(f"{names} is left out: with it the line {problem}")
            return line
        self._screen.note(f"put into your line: {names}")
        return composed.text

    # -- /grant and /revoke ----------------------------------------------------------------

    async def _regrant(self, entry: ModuleEntry, permissions: Permissions, keeps_home: bool) -> bool:
        """Show what the entry would say, ask, and write it; return whether it was written."""
        conversation = self._conversation
        assert conversation is not None
        path = self._plan
        lines = [escape(line) for line in grant_lines(path, permissions, keeps_home=keeps_home)]
        written = await anyio.to_thread.run_sync(lambda: read_document(path).written)
        # The question shows one entry, and answers for the whole plan.
        if load_plan(path, written=written).digest != conversation.session.plan.digest:
            self._screen.warning(f"{escape(str(path))} changed since this session started; start the chat again for it")
            return False
        edit = with_permissions(path, entry.path, permissions, keeps_home=keeps_home)
        if edit.before != written:
            raise PlanNotEditedError(path, "somebody else changed it at this moment", hints=["try again"])
        if edit.after == edit.before:
            self._screen.note(f"the plan says that of {escape(entry.module)} already; it is not changed")
            return False
        owner = Owner.current(os.environ)
        plan = await anyio.to_thread.run_sync(with_instruction, edit.plan, self._folder, owner)
        is_covered = await anyio.to_thread.run_sync(self._consent.covers, plan)
        if is_covered:
            means = await anyio.to_thread.run_sync(self._consent.consequences, plan, entry.path)
            if not await self._agrees(entry, "\n".join([*lines, *map(escape, means)])):
                self._screen.note("the plan is not changed")
                return False
        else:
            becomes = ", ".join(lines)
            self._screen.note(
                f"the entry of {escape(entry.module)} becomes {becomes}; Paddock asks about the whole plan next"
            )
        self._said = await conversation.messages()
        # Written once the session has ended: a running one reports any change of its plan as another program's.
        self._agreed = edit
        if is_covered:
            self._consent.agree(plan)
        return True

    async def _agrees(self, entry: ModuleEntry, lines: str) -> bool:
        path = escape(str(self._plan))
        question = Question(
            title="Paddock asks, not a module",
            text=f"In {path}, the entry of {escape(entry.module)} ({entry.path}) becomes\n{lines}\n"
            "Write it, accept the plan with it, and start the session again? The conversation is kept.",
            options=(Option("yes", "write it"), Option("no ", "do not change the plan")),
            prompts=lambda count: ("type the word yes or no, and Enter:", "yes or no:"),
            is_ours=True,
        )
        return await self._dialogue.ask(question, lambda typed, _: _WORDS.get(typed.casefold())) or False

    # -- display ---------------------------------------------------------------------------

    def _say_what_started(self, session: Session) -> None:
        self._opener.started(session.modules, "; /help lists the commands")
        for module in session.modules:
            if isinstance(module.problem, PaddockError):
                self._screen.text(render(module.problem))
            if module.live_from is not None:
                self._screen.note(f"{module.module} runs live from {module.live_from}: its code may change at any time")


class GrantConsent:
    """Asks `terminal`, unless the person agreed to the plan by `/grant`; `is_trusted`: plans are accepted by a flag.

    A person is asked one question for each grant, and the answer is good for exactly the plan that it makes. Where the
    question about the entry does not show all that the plan would open (a path that leads out of the working directory,
    a plan that was not accepted before), the question about the whole plan takes its place. Every other plan is asked
    about as the session's start does.
    """

    def __init__(self, terminal: Consent, working_dir: Path, *, is_trusted: bool) -> None:
        self._terminal = terminal
        self._working_dir = working_dir
        self._is_trusted = is_trusted
        self._agreed = ""  # digest of a plan
        self._is_declined = False  # whether the session that was started last goes without what takes consent

    def covers(self, plan: MountPlan) -> bool:
        """Return whether the question about the changed entry is enough; blocks: it follows paths."""
        if self._is_trusted:
            return True
        if self._is_declined:
            return False
        return with_places(plan, self._working_dir, Owner.current(os.environ)).digest == plan.digest

    def consequences(self, plan: MountPlan, place: str) -> tuple[str, ...]:
        """Return what the entry at `place` lets its module do beyond its grants' own words; blocks, as above."""
        owner = Owner.current(os.environ)
        (entry,) = (one for one in plan.entries() if one.path == place)
        return tuple(far_reaching_lines(entry, self._working_dir, owner))

    def agree(self, plan: MountPlan) -> None:
        """Accept this plan at the next question, as it is and with every path leading where it leads now."""
        self._agreed = plan.digest

    def forget(self) -> None:
        """Withdraw an agreement that has not been used by a question since."""
        self._agreed = ""

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Return the answer of `/grant` to the plan that it made, otherwise the person's."""
        agreed, self._agreed = self._agreed, ""
        if review.digest == agreed and not (review.moved or review.has_proposals or review.warnings or review.fetches):
            self._is_declined = False
            return ConsentAnswer.ACCEPT
        answer = await self._terminal.ask(review)
        self._is_declined = answer is ConsentAnswer.AS_IT_IS and (review.needs_trust or review.has_proposals)
        return answer


def _cancel_if_left(line: Line, scope: anyio.CancelScope) -> None:
    if not line.cancelled() and line.exception() is None and line.result() is None:
        scope.cancel()
