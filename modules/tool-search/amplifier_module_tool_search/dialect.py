"""The regular expressions of `grep`: RE2's, in which time grows with the text alone, as far as ripgrep has them too.

Both engines give a pattern the same meaning, or it is refused. A construct that only one knows, or that they read in
different ways, is either rewritten for ripgrep or an error that names an alternative.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .failure import Failure

try:
    re2: Any = import_module("re2")
except ImportError:  # without an installer of the dependencies
    re2 = None

_MAX_PROGRAM = 2_000  # instructions; a pattern of usual size has a hundred
_CLASSES = {"d": "0-9", "s": r"\t\n\f\r ", "w": "0-9A-Za-z_"}  # of ASCII in RE2, of all of Unicode in ripgrep
_SPECIAL = r"\.+*?()|[]{}^$#&-~"
_REPEAT = re.compile(r"\{\d+(,\d*)?\}")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A pattern for both engines: compiled, and as text for ripgrep."""

    compiled: Any
    for_ripgrep: str


def compile_pattern(text: str, *, literal: bool, case_insensitive: bool, multiline: bool) -> LinePattern:
    """Return the pattern for both engines.

    Raises:
        Failure: it is not of the dialect; the message names an alternative.
    """
    if "\n" in text and not multiline:
        raise Failure("invalid_pattern", "`pattern` has a line end in it; set multiline to search across lines.")
    if re2 is None:
        message = "Searching takes the package `google-re2`, which is not installed beside this module."
        raise Failure("not_installed", message)
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not case_insensitive
    options.literal = False
    written = re2.escape(text) if literal else text
    for_ripgrep = "".join(re.escape(one) if one in _SPECIAL else one for one in text) if literal else ""
    if not literal:
        try:
            re2.compile(text, options)
        except re2.error as error:
            reason = error.args[0].decode("utf-8", "replace") if error.args else "it is not understood"
            raise Failure("invalid_pattern", f"`pattern` is no regular expression of RE2: {reason}. {_HINT}") from error
        for_ripgrep = _Translation(text, multiline=multiline).text
    try:
        compiled = re2.compile(f"(?{'ms' if multiline else 'm'}){written}", options)
    except re2.error as error:
        raise Failure("invalid_pattern", "`pattern` is too large: search for something simpler.") from error
    if compiled.programsize > _MAX_PROGRAM:
        raise Failure("invalid_pattern", "`pattern` repeats too much: search for something simpler.")
    return LinePattern(compiled, for_ripgrep)


_HINT = "There is no look-around and no backreference; set literal to search for the text as it is."


class _Translation:
    """A pattern in ripgrep's syntax; RE2 has accepted it, so it is known to be complete."""

    def __init__(self, pattern: str, *, multiline: bool) -> None:
        self._pattern = pattern
        self._multiline = multiline
        self._at = 0
        written: list[str] = []
        while self._at < len(pattern):
            written.append(self._next())
        self.text = "".join(written)

    def _next(self) -> str:
        character = self._pattern[self._at]
        self._at += 1
        match character:
            case "\\":
                return self._escape(in_class=False)
            case "[":
                return self._class()
            case "$":
                return r"(?:\r?$)"  # the lines that are shown have lost the first half of a Windows line end
            case "{":
                repeat = _REPEAT.match(self._pattern, self._at - 1)
                if repeat is None:
                    return r"\{"
                self._at = repeat.end()
                return repeat[0]
            case "}" | "]":
                return f"\\{character}"
        return character

    def _escape(self, *, in_class: bool) -> str:
        character = self._pattern[self._at]
        self._at += 1
        if character in "QEC":
            raise Failure("invalid_pattern", f"`pattern` has \\{character}, which is not supported. {_HINT}")
        if character in "Az":
            raise Failure("invalid_pattern", f"`pattern` has \\{character}; use ^ and $ for the ends of a line.")
        if character == "n" and not self._multiline:
            raise Failure("invalid_pattern", "`pattern` has \\n in it; set multiline to search across lines.")
        if character in "bB" and not in_class:
            return rf"(?-u:\{character})"
        if character.lower() in _CLASSES:
            inside = _CLASSES[character.lower()]
            if character.isupper():
                return f"[^{inside}]"
            return inside if in_class else f"[{inside}]"
        if character in "pPx" and self._pattern.startswith("{", self._at):
            begin, self._at = self._at, self._pattern.index("}", self._at) + 1
            return f"\\{character}{self._pattern[begin : self._at]}"
        if character.isalnum():
            return f"\\{character}"
        return f"\\{character}" if character in _SPECIAL else character

    def _class(self) -> str:
        written = ["["]
        if self._pattern.startswith("^", self._at):
            written.append("^")
            self._at += 1
        first = self._at
        while (character := self._pattern[self._at]) != "]" or self._at == first:
            posix = _POSIX.match(self._pattern, self._at)
            if posix is not None:
                written.append(posix[0])
                self._at = posix.end()
                continue
            self._at += 1
            if character == "\\":
                written.append(self._escape(in_class=True))
            elif character == "-" and self._pattern.startswith("-", self._at):
                raise Failure("invalid_pattern", r"`pattern` has -- in a set of characters; write \- there.")
            else:
                written.append(f"\\{character}" if character in "[]&~" else character)
        self._at += 1
        return "".join((*written, "]"))
