"""The one place that draws: lines, tables and questions for people.

Every argument may come from a module: it is masked and escaped here, and on a terminal folded, so that no part of it
begins a row of its own. While a question is open nothing else is drawn; drawings wait, up to a limit, until it is
answered. Everything is legible without colour; `NO_COLOR` is honoured, and off a terminal there is neither colour nor
anything that moves. Writing never raises: a reader who has left gets no error.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Literal, TextIO

from paddock.cli.terminal.question import Option, Question, lay_out
from paddock.cli.terminal.rows import cells, clip, fold, fold_command, fold_with_commands, wrap
from paddock.lookalikes import marked
from paddock.text import escape
from paddock_sdk.worker.calls.raised import DETAIL

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from paddock.cli.terminal.console import MovingText, ScreenConsole

Level = Literal["info", "warning", "error"]

_STYLES: Final = {"error": "bold red", "warning": "bold yellow", "hint": "bold cyan", "info": "bold", "note": "dim"}
_MAX_LINE_CHARACTERS: Final = 2000  # of a module's output, a message or a warning
_MAX_NAME_CHARACTERS: Final = 100  # of the speaker's name
_MAX_MASKED_CHARACTERS: Final = 1 << 20  # of a text that is cut to far fewer afterwards
_MAX_QUOTE_CHARACTERS: Final = 4000  # of a text in a frame; a person reads no more, and the omission is shown
_MAX_QUOTE_LINES: Final = 40
_MIN_COLUMN: Final = 30  # characters of text beside a label, however narrow the terminal
_ANSWER_CELLS: Final = 4  # of the spinner before a status, and the last column
_USUAL_COLUMNS: Final = 80
_MIN_LABEL: Final = 16  # cells for the label of a bar, even on a narrow terminal

_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"

_GOES_ON: Final = "  "  # before each further row of one line
_MODULE_GOES_ON: Final = "  | "  # the same, for a line of a module
_MAX_MESSAGE_LINES: Final = 200  # of one message; a module may send another
_MAX_MESSAGE_CHARACTERS: Final = 1 << 20


class Screen:
    """Draws on one stream; `mask` hides secrets in everything that is drawn.

    With `is_quiet`, notes, listings, progress and what modules print are not drawn; warnings, errors, questions and
    what ended the command are.
    """

    def __init__(self, stream: TextIO, mask: Callable[[str], str] = str, *, is_quiet: bool = False) -> None:
        self.mask = mask
        self.is_quiet = is_quiet
        self.is_terminal = stream.isatty()
        self._stream = stream
        self._moving: MovingText | None = None
        self._bars: tuple[tuple[str, str], ...] = ()
        self._open: list[str] = []  # rows that will be replaced
        self._backlog: DrawingBacklog | None = None  # drawings that wait while a question is open
        self._invitation: Sequence[str] = ()  # to answer that question
        self._is_answered = False
        self._lock = threading.RLock()  # another thread draws its log records there

    def hide_with(self, mask: Callable[[str], str]) -> None:
        """Apply `mask` to everything drawn from now on."""
        self.mask = mask

    # -- lines -----------------------------------------------------------------------------

    def text(self, text: str) -> None:
        """Write text that is already escaped, such as a rendered error, and mark its `error:` and `hint:`."""
        for line in self.mask(text).splitlines():
            mark, colon, rest = line.partition(": ")
            if colon and mark in ("error", "hint", "warning"):
                self._line(f"{mark}: ", _STYLES[mark], rest)
            else:
                self._line("", "", line)

    def command(self, line: str) -> None:
        """Write a line for a shell in a row of its own; where it takes several, a shell takes these as one line."""
        shown = escape(self.mask(line))

        def draw() -> None:
            width = self._width() - 1
            rows = fold_command(shown, width, first=_GOES_ON, rest=_GOES_ON * 2) if self.is_terminal else None
            self._print("\n".join(rows or [_GOES_ON + shown]))

        self._draw(draw, len(shown))

    def note(self, text: str) -> None:
        """Write one quiet line."""
        if self.is_quiet:
            return
        self._line("", "", self._shown(text), _STYLES["note"])

    def ending(self, text: str) -> None:
        """Write one line about what ended the command: quiet, and also written where notes are not."""
        self._line("", "", self._shown(text), _STYLES["note"])

    def warning(self, text: str) -> None:
        """Write one line that deserves attention."""
        self._line("warning: ", _STYLES["warning"], self._shown(text))

    def alarm(self, text: str) -> None:
        """Write one line that a reader must not miss."""
        self._line("WARNING: ", _STYLES["error"], self._shown(text), _STYLES["error"])

    def title(self, text: str) -> None:
        """Write the line above a part of a longer text."""
        self._line("", "", self._shown(text), _STYLES["info"])

    def message(self, level: Level, source: str, text: str) -> None:
        """Write one line of a module's message to the person."""
        if self.is_quiet and level == "info":
            return
        who = self._shown(source, _MAX_NAME_CHARACTERS)
        self._line(f"{level}: ", _STYLES[level], f"{who}: {self._shown(text)}", goes_on=_MODULE_GOES_ON, is_ours=False)

    def module_line(self, name: str, text: str, *, verbose: bool = False) -> None:
        """Write one line that a module printed, tagged with its name; a traceback of its tool only if `verbose`."""
        if self.is_quiet:
            return
        if text.startswith(DETAIL):
            if not verbose:
                return
            text = text.removeprefix(DETAIL)
        shown = f"{self._name(name)} | {self._shown(text)}"

        def draw() -> None:
            # Not through the console: a module may print faster than anything can be laid out.
            rows = fold(shown, self._width() - 1, rest=_MODULE_GOES_ON) if self.is_terminal else [shown]
            self._stream.write("\n".join(rows) + "\n")
            self._stream.flush()

        self._draw(draw, len(shown), is_ours=False)

    def _line(
        self,
        mark: str,
        mark_style: str,
        text: str,
        style: str = "",
        *,
        goes_on: str = _GOES_ON,
        is_ours: bool = True,
    ) -> None:
        def draw() -> None:
            folded = fold_with_commands if is_ours else fold
            rows = folded(text, self._width() - 1, first=mark, rest=goes_on) if self.is_terminal else [mark + text]
            self._print("\n".join(rows), style, mark=mark, mark_style=mark_style)

        self._draw(draw, len(text), is_ours=is_ours)

    # -- tables ----------------------------------------------------------------------------

    def listing(self, rows: Sequence[Sequence[str]]) -> None:
        """Write rows in columns, without a frame; without rows, nothing."""
        if self.is_quiet:
            return
        with_marks = [[*row[:-1], self._marked(row[-1], " ".join(row))] for row in rows]
        shown = [[self._name(row[0]), *map(self._shown, row[1:])] for row in with_marks]
        wide = [max(map(cells, column)) + 2 for column in zip(*shown, strict=True)]
        for *first, last in shown:
            label = ""
            for cell, width in zip(first, wide, strict=False):
                label += cell + " " * (width - cells(cell))
            self._draw(partial(self._labelled, label, last), len(last))

    def points(self, lines: Sequence[str]) -> None:
        """Write lines one below the other, each marked and folded to fit the width there is."""
        self.labelled([("  - ", line) for line in lines])

    def labelled(self, rows: Sequence[tuple[str, str]]) -> None:
        """Write texts beside their labels, folded to fit the width there is; labels are as wide as the widest."""
        shown = [(self._shown(label), self._shown(self._marked(text))) for label, text in rows]
        wide = max((len(label) for label, _ in shown), default=0)
        for label, text in shown:
            self._draw(partial(self._labelled, f"{label:{wide}}", text), len(text))

    def _labelled(self, label: str, text: str) -> None:
        below = " " * len(label)
        if self.is_terminal:
            width = self._width() - 1
            if cells(label) + _MIN_COLUMN <= width:
                # People copy paths and addresses: one that fits below the label, and not beside it, goes there.
                is_wide = any(cells(word) > width - cells(label) for word in text.split(" "))
                rows = fold_with_commands(text, width, first=label, rest=_GOES_ON if is_wide else below)
            else:
                rows = fold_with_commands(label + text, width, rest=_GOES_ON)
        else:
            rows = wrap(text, max(self._width(), len(label) + _MIN_COLUMN), first=label, rest=below)
        self._print("\n".join(rows) or label.rstrip(" "))

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table with titles; its cells are folded to fit the width there is."""
        shown = [[escape(self.mask(cell), multiline=True) for cell in row] for row in rows]
        self._draw(lambda: self._console.write_table(titles, shown))

    def quote(self, title: str, text: str) -> None:
        """Write text in a frame, so that no part of it passes for Paddock's."""
        lines = self.mask(text)[:_MAX_QUOTE_CHARACTERS].splitlines()[:_MAX_QUOTE_LINES]
        quoted = Question(title, "\n".join(lines), (), lambda count: ("",))

        def draw() -> None:
            layout = lay_out(quoted, self._width(), _MAX_QUOTE_CHARACTERS, safe=self._fit, in_ascii=self.is_ascii)
            left_out = len(text) - len("\n".join(lines))
            omitted = [f"  {left_out} characters are not shown"] if left_out > 0 else []
            self._print("\n".join([layout.title, *layout.frame, *omitted]))

        self._draw(draw)

    # -- a conversation --------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Columns that a row may take: all but the last, where terminals differ."""
        return max(1, self._width() - 1)

    @property
    def height(self) -> int:
        """Rows of the terminal."""
        return self._console.height

    @property
    def can_move(self) -> bool:
        """Whether drawn rows can be drawn again."""
        return self.is_terminal and not self._console.is_dumb_terminal

    def laid_out(self, shown: RenderableType, width: int) -> list[Text]:
        """Return the rows of a drawing for a width, escaped; a row that may be wider on some terminals is folded."""
        return self._console.laid_out(shown, width)

    def rows(self, rows: Sequence[Text]) -> None:
        """Write rows of modules' text, masked, escaped and folded already, in the place of those that were open."""
        with self._lock:
            if self._backlog is None:
                self._open = self._without_open()
            size = sum(len(row) + 1 for row in rows)
            self._draw(lambda: self._console.write_rows(rows), size, is_ours=False)

    def show_open(self, rows: Sequence[str], *, is_dim: bool = False) -> None:
        """Show rows, masked, escaped and folded already, that will be replaced; they stay below other output.

        Only what differs from the rows before is written, so that a text that grows does not flicker.
        """
        with self._lock:
            if self.can_move and self._backlog is None and not self._bars:
                if self._moving is not None:
                    self._stand_still()
                lead, tail = (_DIM, _PLAIN) if is_dim and rows else ("", "")
                self._replace_open([f"{lead}{row}{tail}" for row in rows[-max(1, self._console.height - 2) :]], tail)

    def _replace_open(self, rows: list[str], tail: str = "") -> None:
        before, self._open = self._open, rows
        same = next((at for at, (old, new) in enumerate(zip(before, rows, strict=False)) if old != new), None)
        if same is None:
            same = min(len(before), len(rows))
        if before and same == len(before) - 1 < len(rows) and rows[same].startswith(before[same].removesuffix(tail)):
            begun = len(before[same]) - len(tail)  # that row grew: its existing part stays
            written = (_DIM if tail else "") + "\n".join([rows[same][begun:], *rows[same + 1 :]])
        elif before and same == len(before):
            written = "".join(f"\n{row}" for row in rows[same:])
        else:
            same = min(same, max(0, len(rows) - 1))
            written = _erasing(len(before) - same) + "\n".join(rows[same:])
        self._stream_write(written)
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def _without_open(self) -> list[str]:
        """Remove the open rows, and return none; the next writer also flushes."""
        self._stream_write(_erasing(len(self._open)))
        return []

    # -- status and bars -------------------------------------------------------------------

    def show_status(self, text: str) -> None:
        """Show the present wait, until something else is written or `hide_status`; bars precede it."""
        with self._lock:
            if not self._bars:
                self._move([self._shown(text)])

    def hide_status(self) -> None:
        """Remove the line of `show_status`."""
        with self._lock:
            if not self._bars:
                self._stand_still()

    def show_bars(self, bars: Sequence[tuple[str, str]]) -> None:
        """Show the progress of several things, each with its label, until there are none.

        They stay below what is written meanwhile, and come back after a question.
        """
        with self._lock:
            self._bars = tuple(bars)
            self._show_bars()
            if not self._bars:
                self._stand_still()

    def _show_bars(self) -> None:
        if not self._bars:
            return
        bars = [(self._shown(label), self._shown(measure)) for label, measure in self._bars]
        room = self._width() - _ANSWER_CELLS - max(cells(measure) for _, measure in bars) - 1
        if room < _MIN_LABEL:
            self._move([label for label, _ in bars])
            return
        clipped = [(clip(label, room) if measure else label, measure) for label, measure in bars]
        column = max((cells(label) for label, measure in clipped if measure), default=0)
        rows = []
        for label, measure in clipped:
            gap = " " * (column - cells(label) + 1)
            rows.append(label + gap + measure)
        self._move(rows)

    def _move(self, rows: Sequence[str]) -> None:
        """Draw rows that are escaped already, and keep drawing them."""
        if self.is_quiet or not self.is_terminal or self._backlog is not None or self._open:
            return
        width = max(1, self._width() - _ANSWER_CELLS)
        most = max(1, self._console.height - 2)
        shown = "\n  ".join(clip(row, width).rstrip(" ") for row in rows[:most])
        with contextlib.suppress(OSError, ValueError):
            if self._moving is None:
                from paddock.cli.terminal.console import MovingText  # as in `_console`

                self._moving = MovingText(self._console, shown)
                self._moving.start()
            else:
                self._moving.show(shown)

    def _stand_still(self) -> None:
        self._open = self._without_open()
        moving, self._moving = self._moving, None
        if moving is not None:
            with contextlib.suppress(OSError, ValueError):
                moving.stop()

    # -- questions -------------------------------------------------------------------------

    @contextlib.contextmanager
    def question(self) -> Iterator[None]:
        """Give the screen to one question; all other drawings wait until it is left."""
        with self._lock:
            self._stand_still()
            self._backlog = backlog = DrawingBacklog()
        self._is_answered = False
        try:
            yield
        finally:
            with self._lock:
                if not self._is_answered:
                    self._print("")  # the row in which nothing was typed ends here
                self._backlog = None
                backlog.release(self._draw, self.note)
                self._show_bars()

    def put(self, question: Question) -> int:
        """Write the question up to the line that invites an answer; return how many options could be shown."""
        masked = replace(
            question,
            title=self.mask(question.title),
            text=self.mask(question.text),
            options=[Option(option.key, self.mask(option.text)) for option in question.options],
        )
        layout = lay_out(masked, self._console.width, self._console.height, safe=self._fit, in_ascii=self.is_ascii)
        if layout.title:
            self._show_rows([layout.title], _STYLES["hint"] if question.is_ours else _STYLES["warning"], "\n")
        self._show_rows([*layout.frame, *layout.options], "", "\n")
        self._invitation = layout.ending
        return layout.shown_options

    def invite(self) -> None:
        """Write the prompt for the answer; from now on an answer counts."""
        self._show_rows(self._invitation, "", "")

    def take_answer(self) -> None:
        """Note that the question is answered, so that it stays on the screen as it is."""
        self._is_answered = True

    def _show_rows(self, rows: Sequence[str], style: str, end: str) -> None:
        with self._lock:
            # What was typed before has left the cursor anywhere in a row.
            if self.is_terminal and not self._console.is_dumb_terminal:
                self._stream_write("\r\x1b[K")
            self._print("\n".join(rows), style, end=end)

    # -- shared parts ----------------------------------------------------------------------

    def _draw(self, draw: Callable[[], None], size: int = 0, *, is_ours: bool = True) -> None:
        with self._lock:
            if self._backlog is not None:
                self._backlog.add(draw, size, is_ours=is_ours)
                return
            opened = self._open
            self._stand_still()
            with contextlib.suppress(OSError, ValueError):
                draw()
            if opened:
                self._replace_open(opened)
            self._show_bars()

    def _print(
        self,
        text: str,
        style: str = "",
        *,
        mark: str = "",
        mark_style: str = "",
        end: str = "\n",
    ) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self.is_terminal:
                self._console.write(text, style, mark, mark_style, end)
            else:
                self._stream.write(text + end)
                self._stream.flush()

    @cached_property
    def _console(self) -> ScreenConsole:
        from paddock.cli.terminal.console import ScreenConsole  # which loads `rich`; plain lines go without it

        return ScreenConsole(self._stream)

    def _stream_write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def _shown(self, text: str, characters: int = _MAX_LINE_CHARACTERS) -> str:
        # Masked before it is cut: half a secret would not be recognised.
        masked = self.mask(text[:_MAX_MASKED_CHARACTERS])
        is_cut = len(masked) > characters or len(text) > _MAX_MASKED_CHARACTERS
        return escape(masked[:characters] + "…" if is_cut else masked)

    def _marked(self, text: str, row: str = "") -> str:
        """Return a text with a warning about deceptive characters in it, or in the row that it ends."""
        return marked(self.mask(text[:_MAX_MASKED_CHARACTERS]), self.mask(row[:_MAX_MASKED_CHARACTERS]))

    def _name(self, name: str) -> str:
        """Return a name for the start of a row that cannot pass for a mark of Paddock's."""
        shown = self._shown(name, _MAX_NAME_CHARACTERS)
        return shown if shown[:1].isalnum() else f"`{shown}`"

    def _fit(self, text: str) -> str:
        """Return the text as the stream's encoding writes it; escapes take more cells."""
        encoding = self._stream.encoding or "utf-8"
        return escape(text).encode(encoding, "backslashreplace").decode(encoding)

    @property
    def is_ascii(self) -> bool:
        try:
            "│║".encode(self._stream.encoding or "utf-8")
        except UnicodeEncodeError:
            return True
        return False

    def _width(self) -> int:
        return self._console.width if self.is_terminal else _columns()


def _erasing(count: int) -> str:
    """Return what erases the row of the cursor and those above it, `count` in all, and leaves it at their start."""
    return "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (count - 1) if count > 0 else ""


def _columns() -> int:
    """Return the width of text in a file or pipe: `COLUMNS`, else that of the command's terminal, else 80."""
    columns = 0
    for number in range(3):
        with contextlib.suppress(OSError):
            columns = os.get_terminal_size(number).columns
            break
    chosen = os.environ.get("COLUMNS", "")
    return (int(chosen) if chosen.isdecimal() else columns) or _USUAL_COLUMNS


_MAX_LINES: Final = 200  # of either sort
_MAX_CHARACTERS: Final = 64 * 1024


class DrawingBacklog:
    """Keeps the first of what is added to it, and counts the rest.

    Drawings of modules and those of the host have limits of their own, so that a module's flood costs no warning of
    Paddock's.
    """

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self._lines = {True: 0, False: 0}
        self._characters = {True: 0, False: 0}
        self._dropped = {True: 0, False: 0}

    def add(self, draw: Callable[[], None], characters: int, *, is_ours: bool) -> None:
        """Keep `draw`, which draws that many characters, for later, or count it as dropped."""
        if self._lines[is_ours] >= _MAX_LINES or self._characters[is_ours] + characters > _MAX_CHARACTERS:
            self._dropped[is_ours] += 1
            return
        self._lines[is_ours] += 1
        self._characters[is_ours] += characters
        self._waiting.append(draw)

    def release(self, draw: Callable[[Callable[[], None]], None], tell: Callable[[str], None]) -> None:
        """Pass the kept drawings to `draw`, one by one, and report the number of dropped ones to `tell`."""
        for waiting in self._waiting:
            draw(waiting)
        for is_ours, whose in ((False, "of modules"), (True, "of Paddock")):
            if self._dropped[is_ours]:
                tell(f"{self._dropped[is_ours]} lines {whose} came while a question stood, and are not shown")


class ScreenDisplay:
    """A display system that writes to the screen, each time after `before`."""

    def __init__(self, screen: Screen, before: Callable[[], None] = lambda: None) -> None:
        self._screen = screen
        self._before = before

    def show_message(self, message: str, level: Literal["info", "warning", "error"], source: str = "hook") -> None:
        """Show one message, line by line, with its secrets masked, up to the length that a person reads."""
        self._before()
        # Masked as a whole: a secret may have lines of its own.
        lines = self._screen.mask(message[:_MAX_MESSAGE_CHARACTERS]).splitlines() or [""]
        for line in lines[:_MAX_MESSAGE_LINES]:
            self._screen.message(level, source, line)
        if len(message) > _MAX_MESSAGE_CHARACTERS or len(lines) > _MAX_MESSAGE_LINES:
            self._screen.message(level, source, "… the rest of this message is not shown")
