"""Draw a conversation: markdown as it comes, a line for each tool call, and the change of a file below it.

Text of modules stands two columns in, in rows that are folded here, so that none of it begins where Paddock's own
lines, questions and marks begin. It is masked before it is cut into blocks, and escaped after markdown was taken apart,
since that can write a control character by its number. On a terminal the open block is redrawn as it grows, at most
once in `_PERIOD`; elsewhere each block is written once it is complete.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.text import Text

from paddock.cli.chat.markdown_stream import Block, MarkdownStream
from paddock.cli.chat.tool_call import CallEnd, Change
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.rows import clip, fold
from paddock.policy.secrets.values import SecretStream
from paddock.text import escape

_MARGIN: Final = "  "
_CODE_MARGIN: Final = "    "
_PERIOD: Final = 0.04  # seconds between two drawings of the open block
_MAX_ROW: Final = 2000  # characters of a line of code or of a change
_MARKS: Final = {"ok": ("●", "*", "green"), "failed": ("●", "!", "bold red"), "refused": ("○", "-", "yellow")}


class ConversationScreen:
    """Draws on `screen`; `secrets` makes a masker for one text of the running session."""

    def __init__(
        self, screen: Screen, secrets: Callable[[], SecretStream], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._screen = screen
        self._secrets = secrets
        self._clock = clock
        self._stream = MarkdownStream()
        self._masked: SecretStream | None = None
        self._is_thought = False
        self._has_gap = True  # whether the row above is blank or missing
        self._was_call = False  # whether the last thing that was written is a tool call
        self._drawn_at = float("-inf")
        self._later: asyncio.TimerHandle | None = None

    def notice(self, text: str, *, is_warning: bool = False) -> None:
        """Write a message of one line."""
        self._screen.warning(text) if is_warning else self._screen.note(text)

    def end_text(self) -> None:
        """Write the rest of the current text, and end it."""
        if self._masked is not None:
            rest, self._masked = self._masked.end(), None
            self._write(self._stream.feed(rest))
        self._write(self._stream.end())
        self._show_open()
        self._drawn_at = float("-inf")  # the first piece of the next text is drawn at once

    def show_change(self, change: Change) -> None:
        """Write the change that a call asks for, above the question whether to allow it."""
        self.end_text()
        summary = f" ({change.summary})" if change.summary else ""
        title = self._screen.mask(f"would change {change.path}{summary}")
        self._rows([Text(row, "bold") for row in self._folded(title, "", "  ")])
        if change.doubt:
            self._rows([Text(row, "bold yellow") for row in self._folded(change.doubt, "  ", "  ")])
        self._show_change(change)

    # -- text ------------------------------------------------------------------------------

    def say(self, text: str, *, is_thought: bool = False) -> None:
        """Draw a piece of the model's text, or of its thinking."""
        if is_thought != self._is_thought:
            self.end_text()
            self._is_thought = is_thought
        if self._masked is None:
            self._masked = self._secrets()
        self._write(self._stream.feed(self._masked.feed(text)))
        now = self._clock()
        if now - self._drawn_at >= _PERIOD:
            self._show_open()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(_PERIOD, self._show_open)

    def _show_open(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._drawn_at = self._clock()
        if not self._screen.can_move:
            return
        opened, is_code = self._stream.open, self._stream.is_code
        margin = _CODE_MARGIN if is_code else _MARGIN
        rows: list[str] = []
        if opened.strip():
            if not self._has_gap and not (is_code and self._stream.is_begun):
                rows.append("")
            for line in escape(opened, multiline=True).expandtabs(4).split("\n"):
                rows += fold(line, self._screen.width, first=margin, rest=margin)
        self._screen.show_open(rows, is_dim=self._is_thought)

    def _write(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block.kind == "code":
                rows = [Text(row, "cyan") for row in self._folded(block.text, _CODE_MARGIN, _CODE_MARGIN)]
            else:
                rows = self._markdown(block.text)
            if block.begins and not self._has_gap:
                rows.insert(0, Text(""))
            if rows:
                self._rows(rows)

    def _rows(self, rows: list[Text]) -> None:
        self._screen.rows(rows)
        self._has_gap = self._was_call = False

    def _markdown(self, text: str) -> list[Text]:
        width = max(1, self._screen.width - len(_MARGIN))
        if self._is_thought:
            lines = escape(text, multiline=True).expandtabs(4).split("\n")
            return [Text(_MARGIN + row, "dim") for line in lines for row in fold(line, width)]
        rows = self._screen.laid_out(_Markdown(escape(text, multiline=True)), width)
        while rows and not rows[0].plain.strip():
            del rows[0]
        while rows and not rows[-1].plain.strip():
            del rows[-1]
        return [Text.assemble(_MARGIN, row) if row.plain else row for row in rows]

    def _folded(self, line: str, first: str, rest: str) -> list[str]:
        shown = escape(line.expandtabs(4)[:_MAX_ROW] + ("…" if len(line) > _MAX_ROW else ""))
        lead = len(shown) - len(shown.lstrip(" "))
        if first == rest and lead < self._screen.width // 2:  # `fold` drops the blanks that a line of code begins with
            return fold(shown[lead:], self._screen.width, first=first + " " * lead, rest=rest + " " * lead)
        return fold(shown, self._screen.width, first=first, rest=rest)

    # -- tool calls ------------------------------------------------------------------------

    def show_call(self, call: CallEnd) -> None:
        """Write the line of a tool call that ended, with its change or what it wrote below."""
        self.end_text()
        mark, ascii_mark, style = _MARKS[call.outcome]
        lead = f"{ascii_mark if self._screen.is_ascii else mark} "
        seconds = "" if call.seconds is None else f", {call.seconds:.1f} s"
        reason = f": {call.reason}" if call.reason else ""
        change = f" {call.change.summary}" if call.change is not None and call.change.summary else ""
        name, argument, reason, change = (
            escape(self._screen.mask(text)) for text in (call.name, call.argument, reason, change)
        )
        nested = "  " if call.is_nested else ""
        ending = f" ({call.outcome}{seconds}){change}"
        # The outcome stays in view: an argument gives way to it.
        room = 2 * self._screen.width - len(nested) - len(lead) - len(name) - len(ending) - 1
        argument = clip(argument, max(12, room))
        text = f"{name} {argument}".rstrip() + ending + reason
        shown = Text("\n".join(fold(text, self._screen.width, first=nested + lead, rest=nested + "    ")))
        shown.stylize(style, 0, len(nested + lead))
        shown.stylize("bold", len(nested + lead), len(nested + lead) + len(name))
        rows = [Text("")] if not self._has_gap and not self._was_call else []
        self._rows([*rows, shown])
        if call.change is not None:
            self._show_change(call.change)
        self._show_lines(call.said, call.left_out, {})
        self._was_call = True

    def _show_change(self, change: Change) -> None:
        self._show_lines(change.lines, change.left_out, {"+": "green", "-": "red", "@": "cyan"})

    def _show_lines(self, lines: Iterable[str], left_out: int, styles: Mapping[str, str]) -> None:
        """Write lines below a call, each in the style of its first character."""
        rows = [
            Text(row, styles.get(line[:1], "dim"))
            for line in lines
            for row in fold(
                escape(self._screen.mask(line).expandtabs(4)[:_MAX_ROW]) or " ",
                self._screen.width,
                first=_CODE_MARGIN,
                rest=_CODE_MARGIN + "  ",
            )
        ]
        if left_out:
            rows.append(Text(f"{_CODE_MARGIN}{left_out} more lines are not shown", "dim"))
        if rows:
            self._rows(rows)


class _LeftHeading(Heading):
    """A heading at the left edge, without a frame."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class _Markdown(Markdown):
    """Markdown whose HTML is text: a model that writes `Vec<String>` means those characters."""

    elements: ClassVar = {**Markdown.elements, "heading_open": _LeftHeading}

    def __init__(self, text: str) -> None:
        super().__init__(text, code_theme="ansi_dark", hyperlinks=False)
        parser = MarkdownIt().enable(["strikethrough", "table"])
        self.parsed = parser.disable(["html_inline", "html_block"]).parse(text)
