"""Find the line of each part of a valid TOML text.

It follows headers, dotted keys, arrays of tables, arrays and inline tables, and ignores what values mean.
"""

from __future__ import annotations

import re
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

_Words = list[tuple[str, int]]
"""The words of a text with their lines, the next one last."""


def toml_lines(text: str) -> SourceNode:
    """Return the parts of a TOML text; a value has the line of its key, a table that of its header."""
    words = _words(text)
    root = table = SourceNode(1)
    while words:
        word, line = words[-1]
        if word == "[":
            table = _header(root, words)
        elif word == "\n":
            words.pop()
        else:
            _key_and_value(table, words, line)
    return root


def _words(text: str) -> _Words:
    found: _Words = []
    line, last = 1, 0
    for match in _TOKEN.finditer(text):
        line, last = line + text.count("\n", last, match.start()), match.start()
        if not match[0].startswith("#"):
            found.append((match[0], line))
    return found[::-1]


def _header(root: SourceNode, words: _Words) -> SourceNode:
    _, line = words.pop()
    is_array = words[-1][0] == "["
    if is_array:
        words.pop()
    *above, name = _keys(words, end="]")
    if is_array:
        words.pop()
    part = root
    for key in above:
        part = _last_of_array(_child(part, key, line))
    part = _child(part, name, line)
    if is_array:
        part.parts[len(part.parts)] = SourceNode(line)
    return _last_of_array(part)


def _keys(words: _Words, end: str) -> list[str]:
    """Take a dotted key and the word that ends it, and return the key's parts."""
    keys = []
    while (word := words.pop()[0]) != end:
        if word != ".":
            keys.append(_key(word))
    return keys


def _key_and_value(table: SourceNode, words: _Words, line: int) -> None:
    part = table
    for key in _keys(words, end="="):
        part = _child(part, key, line)
    _value(part, words)


def _value(part: SourceNode, words: _Words) -> None:
    opening, _ = words.pop()
    if opening not in ("[", "{"):
        while words and words[-1][0] not in (",", "]", "}", "\n"):  # the rest of a number or a date
            words.pop()
        return
    while (word := words[-1][0]) not in ("]", "}"):
        line = words[-1][1]
        if word in ("\n", ","):
            words.pop()
        elif opening == "{":
            _key_and_value(part, words, line)
        else:
            item = part.parts[len(part.parts)] = SourceNode(line)
            _value(item, words)
    words.pop()


def _child(part: SourceNode, key: str, line: int) -> SourceNode:
    return part.parts.setdefault(key, SourceNode(line))


def _last_of_array(part: SourceNode) -> SourceNode:
    return part.parts.get(len(part.parts) - 1, part)


def _key(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    if text.startswith('"'):
        return str(read_toml(f"k = {text}")["k"]) if "\\" in text else text[1:-1]
    return text
