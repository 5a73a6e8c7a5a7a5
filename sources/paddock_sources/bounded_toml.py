"""Read untrusted TOML in time and memory bounded by its size.

The standard parser's time and memory grow with the square of the number of a key's parts. For a header's parts this is
repeated on each line below it. Each part, table and list takes about a kilobyte, so thirty kilobytes of text can take
gigabytes. One pass over the tokens bounds all of this before the parser sees a text. Only tokens distinguish keys from
comments and from the text of values. Where the text stops consisting of tokens, the parser stops as well.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

MAX_LEVELS: Final = 32  # of tables and lists in one another, and of a key's parts; people write five
MAX_PARTS: Final = 65_536  # of keys beyond their first, tables and lists; the largest of lock files has fewer
MAX_NUMBER: Final = 256  # characters; a longer one has no use, and in hexadecimal Python would not print it
_MAX_MESSAGE: Final = 200  # characters of the parser's message: it quotes keys in full

_TOKEN: Final = re.compile(r"""\"{3}|'{3}|["']|\#[^\n]*+|[.\[\]{}]|[^"'\#.\[\]{}]++""")
# As the parser has them: a text that begins with three quotes may end in five, one that begins with one ends on its
# line, and "\n" alone ends a line. They are searched for, since a repeated group takes memory for each turn.
_ENDS: Final = {
    '"""': re.compile(r'\\[\s\S]|"{3,5}'),
    "'''": re.compile(r"'{3,5}"),
    '"': re.compile(r'\\[^\n]|["\n]'),
    "'": re.compile(r"['\n]"),
}
_LONG_NUMBER: Final = re.compile(rf"(?<![\w-])[+-]?[0-9]\w{{{MAX_NUMBER}}}")
_PLACE: Final = re.compile(r"\(at line ([0-9]+), column [0-9]+\)$")


class TomlError(ValueError):
    """Raised for a text that is invalid TOML or exceeds the limits; `problem` explains it, `line` is set if known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        self.problem = problem
        self.line = line
        super().__init__(problem)


def read_toml(written: str | bytes) -> dict[str, Any]:
    """Parse a TOML text, or a file's content, and return its value.

    Raises:
        TomlError: it is invalid, or its nesting, keys or values exceed the limits.
    """
    try:
        text = written if isinstance(written, str) else written.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TomlError("not UTF-8 text") from error
    _check_bounds(text)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # malformed, or a date that is none
        message, place = str(error), _PLACE.search(str(error))
        if len(message) > _MAX_MESSAGE:
            message = f"{message[:_MAX_MESSAGE]}… {place[0] if place else ''}"
        raise TomlError(f"not TOML: {message}", int(place[1]) if place else None) from error


def _check_bounds(text: str) -> None:
    """Raise unless there is little enough for the parser in a text.

    A level is a part that the key before us has beyond its first, or a table or list that we are in.
    """
    level = 0
    starts = [0]  # for each open table and list, the level of its contents
    parts, line, at = 0, 1, 0
    while (token := _TOKEN.match(text, at)) is not None:
        piece, at = token[0], token.end()
        if piece in ".[{":
            level += 1
            parts += 1
            if piece != ".":
                starts.append(level)
            if level > MAX_LEVELS:
                raise TomlError(f"nested too deeply: more than {MAX_LEVELS} levels (at line {line})", line)
            if parts > MAX_PARTS:
                problem = f"too large: more than {MAX_PARTS} tables, lists and parts of keys (at line {line})"
                raise TomlError(problem, line)
        elif piece in "]}":
            if len(starts) > 1:  # else it closes nothing, and the parser stops here
                starts.pop()
        elif piece in _ENDS:
            begin, at = at, _end_of_text(text, piece, at)
            if at < 0:
                return  # it has no end, and the parser stops here
            line += text.count("\n", begin, at)
        elif not piece.startswith("#"):
            if "\n" in piece or "," in piece:
                level = starts[-1]  # another key or value begins
            if len(piece) > MAX_NUMBER and _LONG_NUMBER.search(piece):
                raise TomlError(f"too long: a number of more than {MAX_NUMBER} characters (at line {line})", line)
            line += piece.count("\n")


def _end_of_text(text: str, quotes: str, at: int) -> int:
    """Return where the text value ends that begins before `at` with these quotes; -1 if it has no end."""
    for found in _ENDS[quotes].finditer(text, at):
        if found[0][0] == quotes[0]:
            return found.end()
        if found[0] == "\n":
            break
    return -1
