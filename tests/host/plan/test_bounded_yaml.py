"""YAML of any kind is read in time and memory of its size, or refused on a line, with what to do about it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paddock.plan.formats import bounded_yaml
from paddock.plan.formats.bounded_yaml import MAX_CHARACTERS, MAX_NUMBER, YamlError, read_yaml, yaml_lines
from paddock.plan.plain_data import MAX_DEPTH
from support.rows import each_row

_LONG = 20_000


def refusal_of(text: str) -> YamlError:
    with pytest.raises(YamlError) as caught:
        read_yaml(text)
    return caught.value


@pytest.mark.costly
@pytest.mark.parametrize(
    "value",
    [
        "1" + ":1" * _LONG,
        "1" + ":1" * _LONG + ".5",
        "0x" + "f" * _LONG,
        "0b" + "1" * _LONG,
        "0" + "7" * _LONG,
        "9" * _LONG,
        "1" + "_" * _LONG + "1",
        "1." + "0" * _LONG,
        "2001-01-01 00:00:00." + "0" * _LONG,
        '!!int "' + "1:" * _LONG + '1"',
        '!!float "' + "1:" * _LONG + '1"',
        '!!timestamp "' + "1" * _LONG + '"',
    ],
    ids=lambda value: value[:16],
)
def test_a_number_of_more_characters_than_any_has_is_not_converted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("int", "float", "timestamp"):
        monkeypatch.setitem(yaml.SafeLoader.yaml_constructors, f"tag:yaml.org,2002:{kind}", pytest.fail)
    error = refusal_of(f"a: b\nx: {value}")
    assert f"more than {MAX_NUMBER} characters" in error.problem
    assert "quote" in error.hint and error.line == 2


def test_numbers_are_what_they_are_in_yaml() -> None:
    text = f"[190:20:30, 190:20:30.15, 0x_0A, 0b{'1' * 64}, -{2**63}, 0o17, 1_000, 1.{'0' * 100}, .inf, 1{':1' * 60}.5]"
    assert read_yaml(text)[0] == yaml.safe_load(text)
    assert math.isfinite(read_yaml(text)[0][-1])


@each_row("number", [2**64, -(2**63) - 1, 10**120])
@each_row("text", ["{{k: {}}}", "{{{}: v}}", "[&a {}, *a]"])
def test_a_whole_number_beyond_64_bits_is_refused_wherever_it_stands(text: str, number: int) -> None:
    assert "beyond 64 bits" in refusal_of(text.format(number)).problem


@each_row(
    "value",
    [
        *(
            '!!int ""',
            "!!int a",
            "!!int 1:a",
            "!!float abc",
            "!!bool maybe",
            "!!timestamp x",
            "!!null [1]",
            "!!str [1]",
        ),
        *("!!int {=: 1}", "!!int [1]", "!!float {=: '1:1'}", "!!timestamp {=: 1}", "!!map 1", "!!seq 1", "!!set 1"),
        *("!!omap [1]", "!!pairs [1]", '!!binary "é"', "!!python/none 1", "!mine 1", "=", "{[a]: 1}", "{{a: 1}: 1}"),
        *("2001-99-99", "2001-02-30", "2001-01-01T99:00:00", "2001-01-01T00:00:00+99:99", "{<<: 1}", "{<<: [1]}"),
    ],
)
def test_a_value_that_cannot_be_made_is_refused_with_line_and_remedy(value: str) -> None:
    error = refusal_of(f"a: b\nx: {value}\n")
    assert error.line == 2
    assert "quote" in error.hint


@each_row(
    ("text", "line"),
    [
        ("a: 1\nb: \0", 2),
        ("%YAML " + "1" * 5000 + ".1\n--- a", 1),
        ('a: 1\nb: "\\U0011ffff"', 2),
        ('a: 1\nb: "\\Uffffffff"', 2),
        ("x: !" + "a" * 9000 + " 1", 1),
    ],
)
def test_what_is_no_yaml_is_told_in_a_few_words_with_its_line(text: str, line: int) -> None:
    error = refusal_of(text)
    assert error.problem.startswith("not YAML: ") and len(error.problem) < 300
    assert error.line == line


@each_row(
    ("text", "is_told"),
    [
        ("read: [., !.env]", True),
        ("read: [., !.env, a]", True),
        ("read: [!@secrets]", True),
        ("read:\n- .\n- !*.key\n", True),
        ("read: [., x", False),
    ],
)
def test_an_exclusion_without_quotes_is_told_to_be_quoted(text: str, is_told: bool) -> None:
    assert ('quote what is text, as in `read: [., "!.env"]`' in refusal_of(text).hint) is is_told


@pytest.mark.costly
@each_row(
    ("text", "said"),
    [
        ("[" * 5000, "nested too deeply"),
        ("{a: " * 5000, "nested too deeply"),
        ("- " * 5000, "nested too deeply"),
        ("? " * 5000, "nested too deeply"),
        ("".join(f"{' ' * depth}a:\n" for depth in range(100)), "nested too deeply"),
        ("a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 40 + "*a" + "]" * 40, "nested too deeply"),
        ("a: &a {" + "".join(f"k{n}: 1, " for n in range(200)) + "}\nb: [" + "{<<: *a}, " * 300 + "]", "values"),
        ('a: &a "' + "x" * (MAX_CHARACTERS // 1000) + '"\nb: [' + "*a, " * 1001 + "]", "characters of text"),
        ("x: {!!merge a: {}, !!merge b: {}}", "twice"),
    ],
)
def test_what_grows_beyond_its_text_is_refused(text: str, said: str) -> None:
    assert said in refusal_of(text).problem


def test_reading_stops_at_the_first_value_that_is_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_yaml, "MAX_VALUES", 50)
    assert "more than 50 values" in refusal_of("- 1\n" * 60 + "]").problem
    assert "not YAML" in refusal_of("- 1\n" * 40 + "]").problem


def test_what_is_as_deep_as_a_plan_may_be_is_read() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert read_yaml("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH)[0] == value


@each_row("text", ["", "# nothing\n", "---\n..."])
def test_an_empty_text_says_nothing(text: str) -> None:
    assert read_yaml(text)[0] is None


PIECES = [
    *("!!int ", "!!float ", "!!timestamp ", "!!bool ", "!!set ", "!!omap ", "!!pairs ", "!!binary ", "!!merge ", "! "),
    *(
        "<<: ",
        "&a ",
        "*a",
        "=",
        "1:1",
        "1.5",
        "0x",
        "0b",
        "0",
        "9",
        "e9",
        "-",
        "_",
        "2001-01-01",
        " 00:00:00",
        "+99:99",
    ),
    *("[", "]", "{", "}", ", ", ": ", "? ", "\n- ", "\n  ", "\n", '"', "'", "|", ">", "#", "%YAML 1", "---", "a", "~"),
]


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from([1, 1, 1, 70, 300])), max_size=15))
def test_whatever_a_text_is_it_is_data_or_one_error_with_its_line(pieces: list[tuple[str, int]]) -> None:
    text = "".join(piece * times for piece, times in pieces)
    try:
        content, _ = read_yaml(text)
    except YamlError as error:
        assert error.line is not None and 1 <= error.line <= text.count("\n") + 2
    else:
        repr(content)  # no number in it is too long for Python to print


@each_row(
    "text",
    [
        "a: {b: [1, 0x10, 1:30, yes, ~, 2024-01-02], c: 'it''s', d: \"\\u263a\\n\"}",
        "a: |\n  one\n  two\nb: >-\n  one\n  two\n",
        "a: &x {b: 1}\nc: {<<: *x, d: *x}\n",
        "# nothing\n",
        "- [a, [b, {c: }]]\n- ? k\n  : v\n",
        "a: é ☺ 😀\nb: [é, {ö: 1}]\n",
    ],
)
def test_libyaml_and_python_read_the_same_with_the_same_lines(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, root = read_yaml(text)
    with monkeypatch.context() as patched:
        patched.setattr(yaml, "__with_libyaml__", False)
        other, other_root = read_yaml(text)
    assert value == other and (root is None) == (other_root is None)
    if root is not None and other_root is not None:
        assert yaml_lines(root) == yaml_lines(other_root)
