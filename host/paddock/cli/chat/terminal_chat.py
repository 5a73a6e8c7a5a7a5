"""A chat on a terminal: the prompt opens first, and the session starts behind it.

A line that is sent before the session is ready waits for it, and Ctrl-C takes it back. Questions during the start are
asked above the prompt. A failed turn is reported, and the prompt opens again. Leaving ends the session and all of its
processes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.chat.prompt_input import PromptInput, echo, open_history
from paddock.cli.terminal.interruption import ended_by_signals, on_interrupt
from paddock.state_folder import state_folder

if TYPE_CHECKING:
    from paddock.cli.chat.slash_commands import SlashCommands
    from paddock.cli.options import SessionOptions


class TerminalChat:
    """One chat."""

    def __init__(self, plan: Path, options: SessionOptions, *, is_verbose: bool) -> None:
        self._plan = plan
        self._options = options
        self._is_verbose = is_verbose
        self._folder = (options.working_dir or Path.cwd()).resolve()
        self._commands: SlashCommands | None = None
        self._mask = str
        self._is_ready = asyncio.Event()
        has_colour = not os.environ.get("NO_COLOR")
        history = open_history(state_folder, lambda text: self._mask(text))
        self._prompt = PromptInput(self._words, self._folder, history, has_colour=has_colour)

    async def run(self) -> int:
        """Hold the conversation, and return the exit code."""
        with echo(sys.stdin, wanted=False), ended_by_signals():
            return await self._run()

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        first = loop.create_task(self._first_line())
        try:
            # In a thread, so that the prompt takes keys meanwhile.
            started = await loop.run_in_executor(None, import_module, "paddock.cli.chat.chat_session")
            chat = started.ChatSession(
                self._plan, self._options, self._prompt, self._folder, is_verbose=self._is_verbose
            )
            return int(await chat.converse(first, self._is_ready, self.use))
        finally:
            self._prompt.leave()
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first

    def use(self, commands: SlashCommands, mask: Any) -> None:
        """Complete these commands from now on, and mask the history with `mask`."""
        self._commands = commands
        self._mask = mask

    def _words(self, before: str) -> list[str]:
        return [*self._commands.words(before)] if self._commands is not None else ["/exit", "/help"]

    async def _first_line(self) -> str | None:
        """Return the first line once the session is ready for it, None if the person leaves before."""
        begun = ""
        while (line := await self._prompt.line(begun)) is not None:
            begun = ""
            if line.strip() == "/exit":
                return None
            if not line.strip():
                continue
            taken_back = asyncio.Event()
            with on_interrupt(taken_back.set):
                waits = [asyncio.ensure_future(one.wait()) for one in (self._is_ready, taken_back)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for one in waits:
                        one.cancel()
            if not taken_back.is_set():
                return line
            begun = line
        return None
