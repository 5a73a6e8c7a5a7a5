"""A chat on a terminal: its first session, and another one for each change of the plan, which takes over what was said.

What needs consent is asked before the first line can be typed; keys typed meanwhile wait for that line. A failed turn
is reported, and the prompt opens again, unless an operator ended the session. Leaving ends the session and all of its
processes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from paddock.authorization.consent import Consent, ConsentAnswer, ModuleReview, PlanReview
from paddock.authorization.grant_lines import far_reaching_lines
from paddock.cli import failure
from paddock.cli.bundle_plan import as_named
from paddock.cli.chat.conversation import ChatConversation, Spending, follow
from paddock.cli.chat.prompt_input import PromptInput, open_history
from paddock.cli.chat.prompted_screen import PromptedScreen
from paddock.cli.chat.slash_commands import Next, SlashCommands
from paddock.cli.options import SessionOptions
from paddock.cli.session_on_screen import SessionOpener
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.denial_notes import lines_to_paste
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.interruption import ended_by_signals, on_interrupt
from paddock.cli.terminal.line_input import Keyboard
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.progress import ActivityLine, activity_of
from paddock.cli.terminal.question import Option, Question
from paddock.errors import PaddockError, PlanError, render
from paddock.isolation.mentioned_files import MentionedFiles, with_instruction
from paddock.isolation.private_places import PrivatePlaces
from paddock.lookalikes import marked
from paddock.plan.edit import Keys, PlanEdit, PlanNotEditedError, grant_keys, grant_lines, with_keys, with_permissions
from paddock.plan.formats.document import Document, read_document
from paddock.plan.instruction import MentioningText, compose, mentions_in
from paddock.plan.load import load_plan
from paddock.plan.model import ModuleEntry, MountPlan
from paddock.plan.permissions import Permissions, by_preset, grants_of, united
from paddock.plan.problems import NotAcceptedError
from paddock.policy.owner import Owner
from paddock.policy.trust import placed, places_of
from paddock.session.instructing import over_half_a_window, preferred_provider
from paddock.session.operated import SessionEndedError
from paddock.session.session import ModuleStatus, Session
from paddock.state_folder import state_folder
from paddock.text import escape


async def hold_chat(plan: Path, options: SessionOptions, *, is_verbose: bool) -> int:
    """Hold a conversation on the terminal of stdin and stdout, and return the exit code."""
    with ended_by_signals():
        return await ChatSession(plan, options, is_verbose=is_verbose).converse()


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the plan that the person agreed to: in its file, and in this chat alone, by the places of entries."""

    edit: PlanEdit | None = None
    only_here: Keys = field(default_factory=dict)


class ChatSession:
    """The sessions of one chat."""

    def __init__(self, plan: Path, options: SessionOptions, *, is_verbose: bool) -> None:
        self._plan = plan
        self._working_dir = options.working_dir
        self._is_verbose = is_verbose
        self._folder = folder = (options.working_dir or Path.cwd()).resolve()
        self._commands: SlashCommands | None = None
        self._mask: Callable[[str], str] = str
        history = open_history(state_folder, lambda text: self._mask(text))
        self._prompt = PromptInput(self._words, folder, history, has_colour=not os.environ.get("NO_COLOR"))
        self._screen = PromptedScreen(sys.stdout, self._prompt, asyncio.get_running_loop())
        at_terminal = partial(self._screen.aside, sys.stdin)
        self._dialogue = Dialogue(self._screen, Keyboard(sys.stdin), at_terminal)
        self._opener = SessionOpener(plan, options, self._screen, is_verbose=is_verbose)
        self._spending = Spending()
        self._asking = TerminalConsent(self._dialogue, plan)
        self._consent = GrantConsent(self._asking, folder, is_trusted=options.trust_plan)
        self._kept: str | None = None  # the session that the next one goes on with, where it is kept
        self._said: list[Any] = []  # messages of the session before, which the next one takes over
        self._only_here: Keys = {}  # what entries say in this chat alone
        self._agreed: Change | None = None  # to be made when the session has ended
        self._before: Change | None = None  # to be restored if no session starts with the change
        self._digest = self._told = "none"  # of the plan's file: when the session started, and when a change was told
        self._said_changes: set[str] = set()  # by the session that runs, of its instruction and its files
        self._declined: set[str] = set()  # modules that are to get no more in this chat
        self._conversation: ChatConversation | None = None
        self._code = 0

    def _words(self, before: str) -> list[str]:
        return [] if self._commands is None else [*self._commands.words(before)]

    async def converse(self) -> int:
        """Hold the conversation, and return the exit code."""
        with LogLines(self._screen, verbose=self._is_verbose), self._opener.fetching:
            while True:
                try:
                    following = await self._one_session()
                except Exception as error:  # the top of a command: an unforeseen error is reported here
                    is_over = self._before is None and not self._asking.starts_again
                    if not self._asking.starts_again:
                        self._screen.text(failure.text(error))
                    if is_over:
                        if self._agreed is not None:
                            self._screen.note("the plan is not changed")
                        return failure.exit_code(error)
                    following = Next.RESTART
                if following is Next.LEAVE:
                    return self._code
                self._change_plan()

    def _change_plan(self) -> None:
        """Make the agreed change, or undo one that no session started with; if that fails, the plan stays."""
        before, self._before = self._before, None
        agreed, self._agreed = self._agreed, None
        try:
            if before is not None:
                self._consent.forget()
                self._only_here = before.only_here
                if before.edit is not None:
                    before.edit.undo()
                    self._digest = load_plan(self._plan, written=before.edit.before).digest
                    self._screen.note("the plan is restored")
                self._screen.note("the chat continues without the change; the same again is not asked about")
            elif agreed is not None:
                if agreed.edit is not None:
                    self._digest = agreed.edit.write().digest
                    self._screen.note("the plan is written; the session starts again with it")
                self._before, self._only_here = Change(agreed.edit, self._only_here), agreed.only_here
        except PlanNotEditedError as error:
            self._consent.forget()
            self._screen.text(render(error))

    async def _one_session(self) -> Next:
        screen = self._screen
        approval = TerminalApproval(self._dialogue)
        await self._opener.ready()
        written = (await anyio.to_thread.run_sync(read_document, self._plan)).written
        digest = load_plan(self._plan, written=written).digest
        if self._only_here and digest != self._digest:
            self._only_here = {}  # the places of entries may be others
            screen.warning(f"{self._plan} changed, so what was for this chat alone holds no more")
        self._digest = self._told = digest
        self._said_changes.clear()
        session = self._opener.session(
            approval,
            self._consent,
            plan=with_keys(self._plan, written, self._only_here),
            ask=self._asking.ask_changes,
            goes_on_with=self._kept,
        )
        with anyio.CancelScope() as scope, self._interruptible_start(scope):
            with ActivityLine(screen, lambda: activity_of(session)):
                await session.initialize()
        if scope.cancel_called:
            await session.cleanup()
            return Next.LEAVE if self._before is None else Next.RESTART
        try:
            is_verbose = self._is_verbose
            view = follow(session, screen, approval, self._folder, is_verbose=is_verbose)
            conversation = self._conversation = ChatConversation(
                session, screen, approval, self._spending, view, is_verbose=is_verbose
            )
            commands = SlashCommands(conversation, screen, self._working_dir, self._regrant, self._set_model)
            self._commands, self._mask = commands, session.mask
            self._say_what_started(session)
            if self._kept is None:
                self._opener.tell_resumed(session)
            self._kept = session.session_id if session.journal is not None else None
            if self._said and not session.resumed:
                await session.coordinator.get("context").set_messages(self._said)
            self._before = None
            return await self._talk(conversation, commands)
        finally:
            self._conversation = None
            with ActivityLine(screen, lambda: "stopping the modules"):
                await session.cleanup()
            self._say_changes(session.changes)

    @contextmanager
    def _interruptible_start(self, scope: anyio.CancelScope) -> Iterator[None]:
        """Cancel a start by Ctrl-C: by the second where that ends the chat."""
        warned = False

        def interrupt() -> None:
            nonlocal warned
            if warned or self._before is not None:
                scope.cancel()
            else:
                warned = True
                self._screen.note("the session is starting; Ctrl-C again ends the chat")

        with on_interrupt(interrupt):
            yield

    async def _talk(self, conversation: ChatConversation, commands: SlashCommands) -> Next:
        """Take line after line until the person leaves, or the session has to start again."""
        following = Next.GO_ON
        while following is Next.GO_ON:
            conversation.tell_news()
            await self._unchanged(is_asked=False)
            self._say_changes(await anyio.to_thread.run_sync(lambda: conversation.session.instruction_changes))
            line = await self._prompt.line()
            if line is None:
                return Next.LEAVE
            if line.strip():
                following = await self._do(conversation, commands, line)
        return following

    def _say_changes(self, changes: Iterable[str]) -> None:
        """Say each change once."""
        for change in changes:
            if change not in self._said_changes:
                self._said_changes.add(change)
                self._screen.warning(change)

    async def _do(self, conversation: ChatConversation, commands: SlashCommands, line: str) -> Next:
        with anyio.CancelScope() as scope, on_interrupt(scope.cancel):
            following = await commands.run(line)
            if following is not None:
                return following
        if scope.cancelled_caught:
            return Next.GO_ON
        outcome = await conversation.turn(await self._with_files(conversation.session, line))
        if isinstance(outcome.error, SessionEndedError):
            self._code = outcome.error.exit_code
            return Next.LEAVE
        with anyio.CancelScope() as scope, on_interrupt(scope.cancel):
            return await self._answer_denials(conversation)
        return Next.GO_ON

    async def _with_files(self, session: Session, line: str) -> str:
        """Return what the person typed, followed by the files that it mentions, and say which these are."""
        if next(mentions_in(line), None) is None:
            return line
        owner = Owner.current(os.environ)
        private = await anyio.to_thread.run_sync(PrivatePlaces.of_user, os.environ)
        files = await anyio.to_thread.run_sync(MentionedFiles.of_plan, session.plan, self._folder, owner, private)

        def read(mention: str) -> MentioningText:
            if mention in self._prompt.pasted:
                raise NotAcceptedError("it was pasted; type it to put the file in")
            return files.typed(mention)

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

    # -- /grant, /revoke, /model and answers to denials ------------------------------------

    async def _answer_denials(self, conversation: ChatConversation) -> Next:
        """Ask about each module that was refused something whether to grant it that."""
        for name, lacking in lines_to_paste(conversation.take_refused(), {}).items():
            for entry in conversation.session.plan.entries():
                if name in self._declined or (entry.instance_id or entry.module) != name:
                    continue
                status = next(one for one in conversation.session.modules if one.place == entry.path)
                keeps_home = status.keeps_home and entry.state != "keep"
                try:
                    wanted = by_preset(united((status.granted, lacking)), (entry.permissions.preset,))
                    if await self._regrant(entry, wanted, keeps_home, is_offer=True):
                        self._screen.note("the model does not know of it: ask again")
                        return Next.RESTART
                except PlanNotEditedError:  # the line to write was shown with the denial
                    self._declined.add(name)
        return Next.GO_ON

    async def _set_model(self, entry: ModuleEntry, model: str) -> bool:
        """Ask another model in this chat, whose session starts again with it."""
        document = await self._unchanged()
        if document is not None:
            here = {**self._only_here.get(entry.path, {}), "config": {"default_model": model}}
            await self._agree(Change(None, {**self._only_here, entry.path: here}), document)
        return document is not None

    async def _unchanged(self, *, is_asked: bool = True) -> Document | None:
        """Return the plan's file; None if it is no longer the one that the session started with.

        That is said once, and where something `is_asked` that the change stands in the way of.
        """
        digest = ""
        with suppress(PlanError):
            document = await anyio.to_thread.run_sync(read_document, self._plan)
            digest = load_plan(self._plan, written=document.written).digest
            if digest == self._digest:
                return document
        if is_asked or digest != self._told:
            self._told = digest
            is_kept = self._conversation is not None and self._conversation.session.journal is not None
            then = "goes on with this conversation by `--resume last`" if is_kept else "begins a new conversation"
            self._screen.warning(f"{self._plan} changed since this session started; a new chat takes it, and {then}")
        return None

    async def _agree(self, change: Change, document: Document) -> None:
        """Keep what was said, and make a change once the session has ended: a running one reports any of its plan."""
        assert self._conversation is not None
        written = document.written if change.edit is None else change.edit.after
        plan = await self._instructed(with_keys(self._plan, written, change.only_here))
        covered = await self._covered(plan)
        self._said = list(await self._conversation.session.coordinator.get("context").get_messages())
        self._agreed = change
        if covered:
            self._consent.agree(covered, self._conversation.session.modules)

    async def _covered(self, plan: MountPlan) -> str:
        """Return the digest that the question about the changed entry is good for; empty if it is not enough."""
        assert self._conversation is not None
        session = self._conversation.session
        before = await self._instructed(session.plan)
        return await anyio.to_thread.run_sync(self._consent.covered, plan, before, session.judged)

    async def _instructed(self, plan: MountPlan) -> MountPlan:
        """Return a plan as it is accepted, with the files of its instruction."""
        owner, private = Owner.current(os.environ), lambda: PrivatePlaces.of_user(os.environ)
        return await anyio.to_thread.run_sync(with_instruction, plan, self._folder, owner, private)

    async def _regrant(
        self, entry: ModuleEntry, permissions: Permissions, keeps_home: bool, *, is_offer: bool = False
    ) -> bool:
        """Show what the entry would say and ask; return whether the session starts again with it.

        An offer is made whether or not the question about the whole plan follows.
        """
        path = self._plan
        lines = [escape(marked(line)) for line in grant_lines(path, permissions, keeps_home=keeps_home)]
        # The question shows one entry, and answers for the whole plan.
        document = await self._unchanged(is_asked=not is_offer)
        if document is None:
            return False
        edit = with_permissions(path, entry.path, permissions, keeps_home=keeps_home)
        if edit.before != document.written:
            raise PlanNotEditedError(path, "somebody else changed it at this moment", hints=["try again"])
        if edit.after == edit.before:
            self._screen.note(f"the plan says that of {escape(entry.module)} already; it is not changed")
            return False
        plan = await self._instructed(edit.plan)
        here = dict(self._only_here.get(entry.path, {}))
        may_write = "permissions" not in here  # what it has for this chat alone would go into the file with the change
        is_covered, answer = bool(await self._covered(plan)), "yes" if may_write else "chat"
        if is_covered or is_offer:
            means = await anyio.to_thread.run_sync(self._consent.consequences, plan, entry.path)
            at = f"the entry of {escape(entry.module)} ({edit.place})"  # in the file, also of a bundle's module
            answer = await self._answer(at, "\n".join([*lines, *map(escape, means)]), may_write=may_write)
        if answer == "no":
            name = entry.instance_id or entry.module
            if is_offer:
                self._declined.add(name)
            on = f"; {escape(name)} is not asked about again in this chat, and `/grant` still grants it"
            self._screen.note(f"the plan is not changed{on if is_offer else ''}")
            return False
        if not is_covered:
            becomes = ", ".join(lines)
            self._screen.note(
                f"the entry of {escape(entry.module)} becomes {becomes}; Paddock asks about the whole plan next"
            )
        keys = grant_keys(permissions, keeps_home=keeps_home)
        here = {**here, **keys} if answer == "chat" else {key: one for key, one in here.items() if key not in keys}
        await self._agree(Change(edit if answer == "yes" else None, {**self._only_here, entry.path: here}), document)
        return True

    async def _answer(self, entry: str, lines: str, *, may_write: bool) -> str:
        path = escape(str(self._plan))
        words = "yes, chat or no" if may_write else "chat or no"
        why_not = "" if may_write else "\nIt has grants for this chat alone, so the file stays as it is."
        question = Question(
            title="Paddock asks, not a module",
            text=f"In {path}, {entry} becomes\n{lines}{why_not}\n"
            "Accept the plan with it, and start the session again? The conversation is kept.",
            options=(
                *([Option("yes ", "write it into the plan")] if may_write else []),
                Option("chat", "for this chat alone; the file stays as it is"),
                Option("no  ", "do not change the plan"),
            ),
            prompts=lambda count: (f"type the word {words}, and Enter:", f"{words}:"),
            is_ours=True,
        )
        accepted = ("yes", "chat", "no") if may_write else ("chat", "no")
        answer = await self._dialogue.ask(
            question, lambda typed, _: typed.casefold() if typed.casefold() in accepted else None
        )
        return answer or "no"

    # -- display ---------------------------------------------------------------------------

    def _say_what_started(self, session: Session) -> None:
        provider = preferred_provider(session.coordinator)
        model = f"model {provider.default_model}, " if hasattr(provider, "default_model") else ""
        self._opener.started(session.modules, "; /help lists the commands", f"{as_named(str(self._plan))}: {model}")
        for module in session.modules:
            if isinstance(module.problem, PaddockError):
                self._screen.text(render(module.problem))
            if module.live_from is not None:
                self._screen.note(f"{module.module} runs live from {module.live_from}: its code may change at any time")


class GrantConsent:
    """Asks `terminal`, unless the person agreed to the plan by `/grant`; `is_trusted`: plans are accepted by a flag.

    A person is asked one question for each grant, and the answer is good for exactly the plan that it makes, in which
    a module without grants in its entry is given what it runs with, once more. Where the
    question about the entry does not show all that the plan would open (a new path out of the working directory,
    a plan that was not accepted before), the question about the whole plan takes its place. Every other plan is asked
    about as the session's start does.
    """

    def __init__(self, terminal: Consent, working_dir: Path, *, is_trusted: bool) -> None:
        self._terminal = terminal
        self._working_dir = working_dir
        self._is_trusted = is_trusted
        self._agreed = ""  # digest of a plan
        self._running: dict[str, tuple[Permissions, bool]] = {}  # grants and homes that stay, when it was agreed to
        self._is_declined = False  # whether the session that was started last goes without what takes consent

    def covered(self, plan: MountPlan, before: MountPlan, judged: str) -> str:
        """Return the digest of a plan and its places if the question about its changed entry is enough, else nothing.

        It is if no path leads out of the working directory but those of the plan `before`, and these lead where they
        led when that was `judged` by this digest. Blocks: it follows paths.
        """
        owner = Owner.current(os.environ)
        places, known = (places_of(one, self._working_dir, owner) for one in (plan, before))
        is_known = {*places} <= {*known} and placed(before, known).digest == judged
        is_enough = self._is_trusted or (not self._is_declined and (is_known or not places))
        return placed(plan, places).digest if is_enough else ""

    def consequences(self, plan: MountPlan, place: str) -> tuple[str, ...]:
        """Return what the entry at `place` lets its module do beyond its grants' own words; blocks, as above."""
        owner = Owner.current(os.environ)
        (entry,) = (one for one in plan.entries() if one.path == place)
        return tuple(far_reaching_lines(entry, self._working_dir, owner))

    def agree(self, covered: str, running: Iterable[ModuleStatus]) -> None:
        """Accept the plan of this digest at the next question."""
        self._agreed = covered
        self._running = {one.place: (grants_of(one.granted), one.keeps_home) for one in running}

    def forget(self) -> None:
        """Withdraw an agreement that has not been used by a question since."""
        self._agreed = ""

    async def ask(self, review: PlanReview) -> ConsentAnswer:
        """Return the answer of `/grant` to the plan that it made, otherwise the person's."""
        agreed, self._agreed = self._agreed, ""
        is_more = bool(review.moved or review.warnings or review.fetches) or any(map(self._gets_more, review.modules))
        if review.digest == agreed and not is_more:
            self._is_declined = False
            return ConsentAnswer.ACCEPT
        answer = await self._terminal.ask(review)
        self._is_declined = answer is ConsentAnswer.AS_IT_IS and (review.needs_trust or review.has_proposals)
        return answer

    def _gets_more(self, module: ModuleReview) -> bool:
        """Return whether a proposal is anything but what the module runs with."""
        proposed = grants_of(module.proposed or Permissions()), module.keeps
        return bool(module.proposed_lines) and proposed != self._running.get(module.place)
