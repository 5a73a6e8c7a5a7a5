"""Find the line of each part of a valid TOML text.

It follows headers, dotted keys, arrays of tables, arrays and inline tables, and ignores what values mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paddock.plan.source_map import SourceNode
from paddock_sources.bounded_toml import read_toml

_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\[\s\S])*?"""(?:"{0,2})'
    r"|'''[\s\S]*?'''(?:'{0,2})"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|\n"
    r"|[\[\]{},=.]"
    r"|[^\s\[\]{},=.\"'\#]+"
)
_END: Final = ""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    start: int


def toml_lines(text: str) -> SourceNode:
    """Return the parts of a TOML text; a value has the line of its key, a table that of its header."""
    return _Scan(text).document()


class _Scan:
    """One pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._tokens: list[_Token] = []
        line, last = 1, 0
        for match in _TOKEN.finditer(text):
            line, last = line + text.count("\n", last, match.start()), match.start()
            if not match[0].startswith("#"):
                self._tokens.append(_Token(match[0], line, match.start()))
        self._tokens.append(_Token(_END, line, len(text)))
        self._at = 0

    def document(self) -> SourceNode:
        root = table = SourceNode(1)
        while (token := self._next()).text != _END:
            if token.text == "\n":
                continue
            if token.text == "[":
                table = self._header(root, token)
            else:
                self._key_and_value(table, token)
        return root

    # -- tokens ----------------------------------------------------------------------------

    @property
    def _ahead(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _skip_to_value(self) -> None:
        while self._ahead.text in ("\n", ","):
            self._next()

    # -- statements ------------------------------------------------------------------------

    def _header(self, root: SourceNode, opening: _Token) -> SourceNode:
        is_array = self._ahead.text == "[" and self._ahead.start == opening.start + 1
        if is_array:
            self._next()
        *above, name = self._keys(self._next(), end="]")
        self._next()
        if is_array:
            self._next()
        part = root
        for key in above:
            part = _last_of_array(_child(part, key, opening.line))
        part = _child(part, name, opening.line)
        if is_array:
            part.parts[len(part.parts)] = SourceNode(opening.line)
        return _last_of_array(part)

    def _keys(self, first: _Token, end: str) -> list[str]:
        """Return the parts of a dotted key; the token that ends it is the next one."""
        keys = [_key(first.text)]
        while self._ahead.text not in (end, _END):
            token = self._next()
            if token.text != ".":
                keys.append(_key(token.text))
        return keys

    def _key_and_value(self, table: SourceNode, first: _Token) -> None:
        part = table
        for key in self._keys(first, end="="):
            part = _child(part, key, first.line)
        self._next()
        self._value(part)

    def _value(self, part: SourceNode) -> None:
        opening = self._next().text
        if opening == "[":
            self._skip_to_value()
            while self._ahead.text not in ("]", _END):
                item = part.parts[len(part.parts)] = SourceNode(self._ahead.line)
                self._value(item)
                self._skip_to_value()
            self._next()
        elif opening == "{":
            self._skip_to_value()
            while self._ahead.text not in ("}", _END):
                self._key_and_value(part, self._next())
                self._skip_to_value()
            self._next()
        else:
            while self._ahead.text not in (",", "]", "}", "\n", _END):  # the rest of a number or a date
                self._next()


def _child(part: SourceNode, key: str, line: int) -> SourceNode:
    return part.parts.setdefault(key, SourceNode(line))


def _last_of_array(part: SourceNode) -> SourceNode:
    last = len(part.parts) - 1
    return part.parts.get(last, part)


def _key(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    if text.startswith('"'):
        return str(read_toml(f"k = {text}")["k"]) if "\\" in text else text[1:-1]
    return text
