"""The one place that draws: lines, tables and questions for people.

Everything handed in may come from a module and is escaped here. All of it is legible without colour; `NO_COLOR` is
honoured, and off a terminal there is neither colour nor anything that moves. Writing never raises: who is not
listening is not told.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Sequence
from typing import Final, Literal, TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.status import Status
from rich.table import Table
from rich.text import Text

from paddock.text import escape

Level = Literal["info", "warning", "error"]

_STYLES: Final = {"error": "bold red", "warning": "bold yellow", "hint": "bold cyan", "info": "bold", "note": "dim"}
_MAX_PROMPT_CHARACTERS: Final = 4000  # of a question; a person reads no more, and what is left out is said
_MAX_PROMPT_LINES: Final = 40
_MAX_OPTION_CHARACTERS: Final = 200
_MIN_COLUMN: Final = 30  # characters of text beside a label, however narrow the terminal
_MAX_LINE_CHARACTERS: Final = 2000  # of what a module prints, a message or a warning


class Screen:
    """Draws on one stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = _Console(file=stream, highlight=False, markup=False, emoji=False)
        self._status: Status | None = None
        self._is_asking = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it right now."""
        return self._console.is_terminal

    # -- lines -----------------------------------------------------------------------------

    def text(self, text: str) -> None:
        """Write text that is escaped already, such as a rendered error, its `error:` and `hint:` marked."""
        shown = Text()
        for line in text.splitlines(keepends=True):
            mark, colon, _ = line.partition(": ")
            is_marked = bool(colon) and mark in ("error", "hint", "warning")
            shown.append(line[: len(mark) + 1] if is_marked else "", _STYLES.get(mark, ""))
            shown.append(line[len(mark) + 1 :] if is_marked else line)
        self._print(shown)

    def note(self, text: str) -> None:
        """Write one quiet line."""
        self._print(Text(_clipped(text), _STYLES["note"]))

    def warning(self, text: str) -> None:
        """Write one line that deserves attention."""
        self._print(Text.assemble(("warning:", _STYLES["warning"]), " ", _clipped(text)))

    def alarm(self, text: str) -> None:
        """Write one line that nobody should miss."""
        self._print(Text(f"WARNING: {_clipped(text)}", _STYLES["error"]))

    def title(self, text: str) -> None:
        """Write the line above a part of a longer text."""
        self._print(Text(_clipped(text), _STYLES["info"]))

    def message(self, level: Level, source: str, text: str) -> None:
        """Write one line of what a module tells the person."""
        self._print(Text.assemble((f"{level}:", _STYLES[level]), f" {_clipped(source)}: {_clipped(text)}"))

    def module_line(self, name: str, text: str) -> None:
        """Write one line that a module printed, tagged with its name."""
        self.hide_status()
        with contextlib.suppress(OSError, ValueError):
            # Not through the console: a module may print faster than anything can be laid out.
            self._stream.write(f"{escape(name)} | {_clipped(text)}\n")
            self._stream.flush()

    # -- tables ----------------------------------------------------------------------------

    def listing(self, rows: Sequence[Sequence[str]]) -> None:
        """Write rows in columns, without a frame; of none, nothing."""
        if not rows:
            return
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for row in rows:
            table.add_row(*(Text(_clipped(cell)) for cell in row))
        self._print(table, soft_wrap=False)

    def points(self, lines: Sequence[str]) -> None:
        """Write lines one below the other, each marked and folded to fit the width there is."""
        self.labelled([("  - ", line) for line in lines])

    def labelled(self, rows: Sequence[tuple[str, str]]) -> None:
        """Write texts beside their labels, folded to fit the width there is; labels are as wide as the widest."""
        wide = max((len(escape(label)) for label, _ in rows), default=0)
        for label, text in rows:
            shown = textwrap.fill(
                _clipped(text),
                max(self._console.width, wide + _MIN_COLUMN),
                initial_indent=f"{escape(label):{wide}}",
                subsequent_indent=" " * wide,
                break_long_words=False,  # a path or a command is there to be copied
                break_on_hyphens=False,
            )
            self._print(Text(shown or escape(label)))

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table with titles; its cells are folded to fit the width there is."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in titles:
            table.add_column(title, overflow="fold")
        for row in rows:
            table.add_row(*(Text(escape(cell, multiline=True)) for cell in row))
        self._print(table, soft_wrap=False)

    def quote(self, title: str, text: str) -> None:
        """Write text in a frame, so that nothing in it passes for ours."""
        self._print(_framed(title, text), soft_wrap=False)

    # -- what moves ------------------------------------------------------------------------

    def show_status(self, text: str) -> None:
        """Show what is being waited for, until something else is written or `hide_status`."""
        if not self.is_terminal or self._is_asking:
            return
        shown = Text(_clipped(text))
        if self._status is None:
            self._status = Status(shown, console=self._console)
            self._status.start()
        else:
            self._status.update(shown)

    def hide_status(self) -> None:
        """Take away what `show_status` showed."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    # -- questions -------------------------------------------------------------------------

    def ask(self, prompt: str, options: Sequence[str], default: str, *, seconds: float, left_out: int = 0) -> None:
        """Write a question with its numbered options; nothing moves until `end_of_question`.

        `seconds` is the time there is for an answer, `left_out` how many options are not among these.
        """
        self.hide_status()
        self._is_asking = True
        self._print(_framed("a module asks", prompt), soft_wrap=False)
        for number, option in enumerate(options, start=1):
            self._print(Text(f"  {number}) {_clipped(option, _MAX_OPTION_CHARACTERS)}"))
        if left_out:
            self._print(Text(f"  … {left_out} more options are not shown"))
        told = f"type a number and Enter; without an answer within {seconds:.15g} s it is {escape(default)}: "
        self._print(Text(told), end="")

    def end_of_question(self) -> None:
        """Let things move again."""
        self._is_asking = False

    def _print(self, shown: RenderableType, *, soft_wrap: bool = True, end: str = "\n") -> None:
        self.hide_status()
        with contextlib.suppress(OSError, ValueError):
            self._console.print(shown, soft_wrap=soft_wrap, end=end)


class _Console(Console):
    """A console that takes a reader's leaving for what it is, and not for a reason to exit."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def _framed(title: str, text: str) -> Panel:
    kept = text[:_MAX_PROMPT_CHARACTERS].splitlines()[:_MAX_PROMPT_LINES]
    shown = "\n".join(escape(line) for line in kept)
    left_out = len(text) - len("\n".join(kept))
    if left_out > 0:
        shown += f"\n… {left_out} characters are not shown"
    return Panel(Text(shown), title=title, title_align="left", box=box.SQUARE)


def _clipped(text: str, characters: int = _MAX_LINE_CHARACTERS) -> str:
    return escape(text if len(text) <= characters else text[:characters] + "…")
