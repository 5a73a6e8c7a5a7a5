"""The drawings that take `rich`: styles, tables, and what moves.

A file of its own, because loading `rich` takes a twentieth of a short command, and off a terminal most commands draw
nothing but plain lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from rich import box
from rich.console import Console, ConsoleDimensions, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from paddock.cli.terminal.rows import cells, fold
from paddock.text import escape

_DRAWINGS_PER_SECOND: Final = 12.5
_THEME: Final = Theme({"markdown.code": "cyan", "markdown.item.bullet": "none", "markdown.item.number": "none"})


class ScreenConsole(Console):
    """A console as large as its terminal that does not exit when its reader leaves."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(
            file=stream, highlight=False, markup=False, emoji=False, force_terminal=stream.isatty(), theme=_THEME
        )

    @property
    def size(self) -> ConsoleDimensions:
        try:
            columns, rows = os.get_terminal_size(self.file.fileno())
        except (OSError, ValueError):
            columns = rows = 0
        otherwise = super().size
        return ConsoleDimensions(columns or otherwise.width, rows or otherwise.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def on_broken_pipe(self) -> None:
        self.quiet = True

    def write(self, text: str, style: str, mark: str, mark_style: str, end: str) -> None:
        """Write text in a style, and the `mark` that it begins with in another."""
        shown = Text(text, style)
        shown.stylize(mark_style, 0, len(mark))
        self.print(shown, soft_wrap=True, end=end)

    def write_rows(self, rows: Sequence[Text]) -> None:
        """Write rows one below the other."""
        self.print(Text("\n").join(rows), soft_wrap=True)

    def write_table(self, titles: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        """Write a table with titles; its cells are folded to fit the width there is."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in titles:
            table.add_column(title, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        self.print(table, soft_wrap=False)

    def laid_out(self, shown: RenderableType, width: int) -> list[Text]:
        """Return the rows of a drawing for a width, escaped; a row that may be wider on some terminals is folded."""
        options = self.options.update(width=max(1, width), height=None, highlight=False)
        rows: list[Text] = []
        for line in self.render_lines(shown, options, pad=False):
            row = Text.assemble(*((escape(part.text), part.style or "") for part in line if not part.control))
            row.rstrip()
            rows += [row] if cells(row.plain) <= width else [Text(one) for one in fold(row.plain, width)]
        return rows


class MovingText(Live):
    """Text behind something that turns; it is drawn from `start` to `stop`."""

    def __init__(self, console: ScreenConsole, text: str) -> None:
        self._spinner = Spinner("dots", text=Text(text), style="status.spinner")
        # Nothing is redirected: otherwise data for stdout would be drawn here while something moves.
        super().__init__(
            self._spinner,
            console=console,
            refresh_per_second=_DRAWINGS_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def show(self, text: str) -> None:
        """Draw other text from now on."""
        self._spinner.update(text=Text(text))
