"""A chat without a terminal: each line of stdin is a prompt or a command, each answer goes to stdout.

An answer is written as it is, with a line end. Everything else goes to stderr, and no question is asked. The end of
the input ends the chat, and so does Ctrl-C: the turn that runs is stopped first. So does a turn of a session that an
operator ended.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from paddock.cli import failure
from paddock.cli.chat.conversation import ChatConversation, Spending
from paddock.cli.chat.slash_commands import Next, SlashCommands
from paddock.cli.command_group import INTERRUPTED, Interrupted
from paddock.cli.options import SessionOptions
from paddock.cli.session_on_screen import SessionOpener
from paddock.cli.terminal.approval import TerminalApproval
from paddock.cli.terminal.consent import TerminalConsent
from paddock.cli.terminal.dialogue import Dialogue
from paddock.cli.terminal.interruption import ended_by_signals
from paddock.cli.terminal.line_input import PipedLines
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.standard_streams import print_answer
from paddock.errors import render
from paddock.plan.edit import grant_lines
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import Permissions
from paddock.session.operated import SessionEndedError


class LineChat:
    """One chat."""

    def __init__(self, plan: Path, options: SessionOptions, *, is_verbose: bool) -> None:
        self._plan = plan
        self._working_dir = options.working_dir
        self._is_verbose = is_verbose
        self._screen = Screen(sys.stderr)
        self._opener = SessionOpener(plan, options, self._screen, is_verbose=is_verbose)
        self._lines = PipedLines(sys.stdin.fileno())
        self._code = 0

    def run(self) -> int:
        """Hold the conversation, and return the exit code."""
        with LogLines(self._screen, verbose=self._is_verbose), self._opener.fetching:
            try:
                asyncio.run(self._run())
            except KeyboardInterrupt:
                return INTERRUPTED
            except (SystemExit, Interrupted):
                raise
            except Exception as error:  # the top of a command: an unforeseen error is reported here
                self._screen.text(failure.text(error))
                return failure.exit_code(error)
        return self._code

    async def _run(self) -> None:
        with ended_by_signals():
            dialogue = Dialogue.at(self._screen, sys.stdin)
            approval = TerminalApproval(dialogue)
            await self._opener.ready()
            consent = TerminalConsent(dialogue, self._plan)
            session = self._opener.session(approval, consent, ask=consent.ask_changes)
            async with session:
                self._opener.tell_resumed(session)
                for module in session.modules:
                    if module.problem is not None:
                        self._screen.text(render(module.problem))
                conversation = ChatConversation(
                    session, self._screen, approval, Spending(), None, is_verbose=self._is_verbose
                )
                commands = SlashCommands(conversation, self._screen, self._working_dir, self._regrant)
                await self._talk(conversation, commands)
            for change in session.changes:
                self._screen.warning(change)

    async def _talk(self, conversation: ChatConversation, commands: SlashCommands) -> None:
        while (line := await self._lines.line()) is not None:
            if not line.strip():
                continue
            following = await commands.run(line)
            if following is Next.LEAVE:
                return
            if following is not None:
                continue
            outcome = await conversation.turn(line)
            if outcome.answer is not None:
                print_answer(outcome.answer, conversation.session.mask)
            if outcome.is_interrupted:
                self._code = INTERRUPTED
                return
            if outcome.error is not None:
                self._code = failure.exit_code(outcome.error)
            if isinstance(outcome.error, SessionEndedError):
                return

    async def _regrant(self, entry: ModuleEntry, permissions: Permissions, keeps_home: bool) -> bool:
        line = ", ".join(grant_lines(self._plan, permissions, keeps_home=keeps_home))
        self._screen.note(
            f"the plan is not changed: no terminal to ask at; to change it, write at {entry.path}: {line}"
        )
        return False
