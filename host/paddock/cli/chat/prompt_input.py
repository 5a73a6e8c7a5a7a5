"""The line in which a person types: history, completion, several lines, and pastes made harmless.

Enter sends, Alt-Enter and Ctrl-J begin another line. Ctrl-C empties the line; in an empty one, twice in a row, it
leaves, as Ctrl-D does. Control and invisible characters in a paste are written out. The history is a file that only its
owner can read; where that cannot be kept, the line works without it. Nothing is drawn over the line: see `set_aside`.
"""

from __future__ import annotations

import os
import re
import termios
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.completion import Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from paddock.plan.instruction import mentions_in
from paddock.state_folder import open_own
from paddock.text import escape

PROMPT: Final = "> "
_AGAIN: Final = "Ctrl-C again ends the chat"
_MAX_HISTORY: Final = 1 << 20  # bytes; a larger file is cut to its newer half
_JOINERS: Final = re.compile("([\u200c\u200d]+)")  # which words and emoji of some languages are written with

Words = Callable[[str], Iterable[str]]
"""Returns the words that can complete the last one of the text that was typed."""


class PromptInput:
    """The prompt; `words` completes commands, and `folder` is where paths after an `@` start."""

    def __init__(
        self,
        words: Words,
        folder: Path,
        history: History,
        *,
        terminal: Input | None = None,
        output: Output | None = None,
        has_colour: bool = True,
    ) -> None:
        self.pasted: set[str] = set()  # mentions of files that were in a paste, which is somebody else's text
        self._is_leaving = False
        output = output if output is not None else create_output()
        if isinstance(output, Vt100_Output):
            # Some terminals do not answer queries for the cursor's position, and an answer arrives as if it were typed.
            output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=lambda width, number, wraps: "." * min(width, 1) + " " * max(0, width - 1),
            history=history,
            completer=_Completer(words, folder),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            key_bindings=self._bindings(),
            rprompt=lambda: _AGAIN if self._is_leaving else "",
            color_depth=None if has_colour else ColorDepth.DEPTH_1_BIT,
            reserve_space_for_menu=0,
            input=terminal,
            output=output,
        )
        self._session.default_buffer.on_text_changed.add_handler(self._stay)

    @property
    def is_open(self) -> bool:
        """Whether it takes keys now."""
        return bool(self._session.app.is_running)

    async def line(self) -> str | None:
        """Return the line that is typed; None if the person leaves."""
        self._is_leaving = False
        try:
            typed: str = await self._session.prompt_async(handle_sigint=False)
        except (EOFError, KeyboardInterrupt):
            return None
        return typed

    @asynccontextmanager
    async def set_aside(self) -> AsyncIterator[None]:
        """Clear the line from the terminal while this is entered, and redraw it afterwards with its text."""
        if self.is_open:
            async with in_terminal():
                yield
        else:
            yield

    def draw_above(self, draw: Callable[[], None]) -> None:
        """Have something drawn above the line; the terminal's mode stays, and with it what each key means."""
        app = self._session.app
        app.renderer.erase()
        draw()
        app.renderer.reset()
        app.invalidate()

    def _stay(self, _: object) -> None:
        self._is_leaving = False

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._session.default_buffer.text)

        def send(event: Any) -> None:
            event.current_buffer.validate_and_handle()

        def begin_line(event: Any) -> None:
            event.current_buffer.insert_text("\n")

        def interrupt(event: Any) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
            elif self._is_leaving:
                event.app.exit(exception=EOFError)
            else:
                self._is_leaving = True
                event.app.invalidate()

        def leave(event: Any) -> None:
            event.app.exit(exception=EOFError)

        def paste(event: Any) -> None:
            text = harmless(event.data)
            self.pasted.update(mentions_in(text))
            event.current_buffer.insert_text(text)

        keys.add("enter")(send)
        keys.add("escape", "enter")(begin_line)
        keys.add("c-j")(begin_line)
        keys.add("c-c")(interrupt)
        keys.add("<sigint>")(interrupt)
        keys.add("c-d", filter=is_empty)(leave)
        keys.add("<bracketed-paste>")(paste)
        return keys


def harmless(text: str) -> str:
    """Return pasted text with control and invisible characters written out; line ends and tabs stay."""
    parts = _JOINERS.split(text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(part if _JOINERS.fullmatch(part) else escape(part, multiline=True) for part in parts)


def open_history(folder: Callable[[], Path], mask: Callable[[str], str]) -> History:
    """Return the history of this user's chats, kept in `folder()`; where it cannot be kept, one for this chat only."""
    try:
        path = folder() / "chat_history"
        _prepare(path)
    except OSError:
        return InMemoryHistory()
    return _History(str(path), mask)


def _prepare(path: Path) -> None:
    """Make the file, for this user alone, or cut it to its newer half.

    Raises:
        OSError: it cannot be made, or it is no file of this user.
    """
    with open(open_own(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MAX_HISTORY:
            file.seek(size - _MAX_HISTORY // 2)
            newer = file.read()
            file.seek(0)
            file.write(newer[newer.find(b"\n# ") + 1 :])
            file.truncate()


class _History(FileHistory):
    def __init__(self, path: str, mask: Callable[[str], str]) -> None:
        self._mask = mask
        super().__init__(path)

    def store_string(self, string: str) -> None:
        with suppress(OSError):  # a full disk takes no history, and nothing else depends on it
            super().store_string(self._mask(string))


class _Completer(Completer):
    """Completes the last word: a path after an `@`, or the words of a command."""

    def __init__(self, words: Words, folder: Path) -> None:
        self._words = words
        self._paths = PathCompleter(get_paths=lambda: [str(folder)], expanduser=False)

    def get_completions(self, document: Document, complete_event: Any) -> Iterable[Completion]:
        before = document.text_before_cursor
        word = before.rsplit(None, 1)[-1] if before and not before[-1].isspace() else ""
        if word.startswith("@"):
            for found in self._paths.get_completions(Document(word[1:], len(word) - 1), complete_event):
                yield Completion(escape(found.text), found.start_position, display=escape(found.display_text))
        elif before.startswith("/"):
            for one in matching(self._words(before), word):
                yield Completion(one, -len(word))


def matching(words: Iterable[str], begun: str) -> Sequence[str]:
    """Return the printable words that start with `begun`."""
    return [word for word in words if word.startswith(begun) and word.isprintable()]


_INPUT, _LOCAL, _KEYS = 0, 3, 6  # indices in a terminal's attributes: the flag for Enter, that for echo, special keys
_END: Final = b"\x04"  # Ctrl-D, as the line takes it too


@contextmanager
def echo(terminal: TextIO, *, wanted: bool) -> Iterator[None]:
    """Switch the echo of `terminal` on or off while this is entered; do nothing if it is no terminal.

    Without echo, Enter is not translated to a line end, nor Ctrl-D to the end of the input: both wait for the line.
    """
    try:
        saved = termios.tcgetattr(terminal)
    except (termios.error, ValueError):
        yield
        return
    changed = [*saved]
    for at, flag in ((_INPUT, termios.ICRNL), (_LOCAL, termios.ECHO)):
        changed[at] = saved[at] | flag if wanted else saved[at] & ~flag
    changed[_KEYS] = [*saved[_KEYS]]
    changed[_KEYS][termios.VEOF] = _END if wanted else os.fpathconf(terminal.fileno(), "PC_VDISABLE").to_bytes()
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, changed)
        yield
    finally:
        with suppress(termios.error, ValueError):  # where the terminal is gone
            termios.tcsetattr(terminal, termios.TCSANOW, saved)
