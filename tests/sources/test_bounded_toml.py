"""TOML of any kind reaches the standard parser only as far as that can read it in time and memory of its size."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sources.bounded_toml import MAX_LEVELS, MAX_NUMBER, MAX_PARTS, TomlError, read_toml
from paddock_sources.errors import ManifestError
from paddock_sources.lock.lock_text import LockTextError, parse_lock
from paddock_sources.manifest.read import ModuleManifest
from support.rows import each_row

from .module_folder import make_module

_LONG = 12_000


class Effort:
    """What the standard parser was put to: the most parts of a key, and the most values in one another."""

    def __init__(self) -> None:
        self.key_parts = 0
        self.depth = 0
        self.calls = 0
        self._inside = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the parser's own steps: what it takes for a key, and when it begins another value."""
        parser: Any = tomllib._parser  # type: ignore[attr-defined]
        with (
            mock.patch.object(parser, "parse_key", self._key(parser.parse_key)),
            mock.patch.object(parser, "parse_value", self._value(parser.parse_value)),
        ):
            yield

    def _key(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def parse_key(*args: Any) -> Any:
            self.calls += 1
            at, key = original(*args)
            self.key_parts = max(self.key_parts, len(key))
            return at, key

        return parse_key

    def _value(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def parse_value(*args: Any) -> Any:
            self.calls += 1
            self._inside += 1
            self.depth = max(self.depth, self._inside)
            try:
                return original(*args)
            finally:
                self._inside -= 1

        return parse_value


ATTACKS = {
    "a key of many parts": "a." * _LONG + "b = 1",
    "a quoted part that holds what other programs end lines at": ("a." * 60 + '"\u2028".') * 200 + "x = 1",
    "a part of nothing but such": ("a." * 60 + "\u2028\x0b\x0c\x85.") * 200 + "x = 1",
    "a carriage return between parts": ("a." * 60 + "\r") * 200 + "x = 1",
    "a quoted part that holds an equals sign": '"=".' + "a." * _LONG + "b = 1",
    "a quoted part that holds a comma": '"[,{#\'".' * _LONG + "b = 1",
    "an escaped quote": r'"\"".' * _LONG + "b = 1",
    "literal parts": "'\"\\'." * _LONG + "b = 1",
    "blanks between parts": "a \t.\t " * _LONG + "b = 1",
    "a key in an inline table": "x = {" + "a." * _LONG + "b = 1}",
    "a later key in an inline table": "x = {a = [1, 2], b = '''\n''', " + "a." * _LONG + "b = 1}",
    "a key in a table in a list": "x = [[], [{" + "a." * _LONG + "b = 1}]]",
    "a key after a text of three quotes": 'x = """ "" \\""" a """"\n' + "a." * _LONG + "b = 1",
    "a key after a comment": "x = 1 # it's \"\n" + "a." * _LONG + "b = 1",
    "the name of a table": "[" + "a." * _LONG + "b]",
    "the name of a list of tables": "[[" + "a." * _LONG + "b]]",
    "lists in one another": "x = " + "[" * _LONG,
    "tables in one another": "x = " + "{a=" * _LONG,
    "keys of tables in one another": "x = " + "{a.b.c.d = " * _LONG,
}


@each_row("text", ATTACKS.values(), ids=ATTACKS.keys())
def test_no_spelling_of_depth_reaches_the_parser(text: str) -> None:
    with pytest.raises(TomlError, match="nested too deeply") as caught, mock.patch.object(tomllib, "loads") as loads:
        read_toml(text)
    loads.assert_not_called()
    assert caught.value.line == text.count("\n") + 1


@pytest.mark.costly
@each_row(
    ("text", "said"),
    [
        ("x = [" + "[]," * (MAX_PARTS + 1) + "]", "too large"),
        ("[a]\n" * (MAX_PARTS + 1), "too large"),
        ("a.b = 1\n" * (MAX_PARTS + 1), "too large"),
        ("x = 0x" + "f" * MAX_NUMBER, "too long"),
        ("x = 1" + "_1" * MAX_NUMBER, "too long"),
        ("x = [1, -" + "9" * 5000 + "]", "too long"),
        ("x = 1." + "0" * 5000, "too long"),
    ],
)
def test_so_are_how_much_a_text_is_divided_and_how_long_numbers_are(text: str, said: str) -> None:
    with pytest.raises(TomlError, match=said), mock.patch.object(tomllib, "loads") as loads:
        read_toml(text)
    loads.assert_not_called()


TOKENS = [
    *("a", '"a"', "'a'", '""', "''", ".", "a.", '"\u2028".', "'='.", '"[{,".', " . ", "=", " = ", "a = ", ",", ", "),
    *("[", "]", "[[", "]]", "{", "}", "[a.", "{a.b=", "\n", "\r\n", "\r", "\u2028", "\x0b", " ", "\t", "#", "# '\n"),
    *('"', "'", '"""', "'''", '""""', "'''''", "\\", '\\"', "\\\n", "\\u2028", "1", "1.5", "-1", "0x", "2001-01-01"),
    *("x=1\n", "[a]\n", "[[a]]\n", "x={", "x=[", "'''\n'''", '"""\\""""'),
]
SOUP = st.lists(
    st.tuples(st.lists(st.sampled_from(TOKENS), max_size=6).map("".join), st.sampled_from([1, 1, 1, 2, 40])),
    max_size=12,
).map(lambda pieces: "".join(piece * times for piece, times in pieces))


@given(SOUP | st.text(max_size=60))
def test_any_text_gives_the_parser_bounded_depth_only(text: str) -> None:
    effort = Effort()
    with effort.watched():
        try:
            read_toml(text)
        except TomlError as error:
            assert error.line is None or 1 <= error.line <= text.count("\n") + 1
    assert effort.key_parts <= MAX_LEVELS + 1
    assert effort.depth <= MAX_LEVELS + 1
    assert effort.calls <= len(text) + 1


@given(SOUP)
def test_what_is_within_bounds_is_read_as_the_standard_parser_reads_it(text: str) -> None:
    try:
        expected = tomllib.loads(text)
    except (ValueError, RecursionError):
        with pytest.raises(TomlError):
            read_toml(text)
        return
    try:
        assert repr(read_toml(text)) == repr(expected)
    except TomlError as error:
        assert error.problem.startswith(("nested too deeply", "too large", "too long"))


def test_what_people_write_is_within_the_bounds() -> None:
    text = (
        "[[tool.mypy.overrides]]\nmodule = ['a.b.c.*']\n"
        '[project]\nversion = "' + "1." * 200 + '0"  # ' + "a." * 200 + "\n"
        "dependencies = [\n" + '  "a>=1.0.0.0",  # 1.0.0\n' * 1000 + "]\n"
        f'digest = "{"f" * 4000}"\n{"a" * 300} = """{"." * 300}"""\n'
        "[a.b.c.d.e.f]\ng.h.i = {j = [[{k.l = 1}]], m.n = 2001-01-01T00:00:00.123456+01:00}\n"
    )
    assert read_toml(text) == tomllib.loads(text)


@each_row(
    "text",
    ["a\n=1", "x = 2001-02-30", '[a]\n[a."' + "b" * 9000 + '"]\n[a."' + "b" * 9000 + '"]', 'x = """' + '\\"""' * 9000],
)
def test_what_the_parser_refuses_is_told_in_a_few_words(text: str) -> None:
    with pytest.raises(TomlError, match="not TOML: ") as caught:
        read_toml(text)
    assert len(str(caught.value)) < 300


def test_each_that_reads_what_a_stranger_wrote_refuses_it(tmp_path: Path) -> None:
    text = ATTACKS["a quoted part that holds what other programs end lines at"]
    with pytest.raises(LockTextError, match="nested too deeply") as caught:
        parse_lock(text)
    assert caught.value.line == 1
    root = make_module(tmp_path / "amplifier-module-tool-x")
    (root / "pyproject.toml").write_text(f'[project]\nname = "x"\n[tool.x]\n{text}', encoding="utf-8")
    with pytest.raises(ManifestError, match="nested too deeply"):
        ModuleManifest.read(root, "tool-x")
