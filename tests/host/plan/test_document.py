from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.errors import PlanError, render
from paddock.plan.formats.document import read_document
from paddock.plan.load import load_plan
from support.rows import each_row


def problem_of(path: Path) -> str:
    with pytest.raises(PlanError) as caught:
        read_document(path, converts=True)
    (problem,) = caught.value.problems
    assert caught.value.origin == str(path)
    return f"{problem.message} | {problem.hint}"


@each_row(
    ("name", "text"),
    [
        ("plan.yaml", "a: {b: [1, x]}"),
        ("plan.YML", "a:\n  b:\n  - 1\n  - x\n"),
        ("plan.json", '{"a": {"b": [1, "x"]}}'),
        ("plan.toml", '[a]\nb = [1, "x"]\n'),
    ],
)
@each_row("mark", ["", "\ufeff"])
def test_a_file_is_read_by_its_extension(tmp_path: Path, name: str, text: str, mark: str) -> None:
    (tmp_path / name).write_text(mark + text, encoding="utf-8")
    assert read_document(tmp_path / name, converts=True).content == {"a": {"b": [1, "x"]}}


@pytest.mark.parametrize("content", ["[session]\n", "a = "])
def test_a_plan_in_toml_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, command in (
        ("plan.toml", "paddock init --from plan.toml"),
        ("a b.TOML", "paddock init --from 'a b.TOML'"),
    ):
        Path(name).write_text(content)
        with pytest.raises(PlanError) as caught:
            load_plan(name)
        assert caught.value.hints == (f"`{command}`",)


def test_a_word_that_is_no_file_is_not_told_of_its_extension(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="there is no such file"):
        load_plan(tmp_path / "sessions")


@each_row(
    ("name", "content", "said"),
    [
        ("plan.ini", b"", "`.ini` is no extension of a plan | plans are .yaml"),
        ("plan", b"", "no extension"),
        ("plan.yaml", b"a: \xff", "not UTF-8 text, at byte 3"),
        ("plan.yaml", b"a: [1", "not YAML: line 1, column 6"),
        ("plan.yaml", b"a: 1\n---\nb: 2\n", "not YAML"),
        ("plan.yaml", b"a: !!python/object/apply:os.system [id]", "not YAML"),
        ("plan.yaml", b"a: !!int ''", "is no `!!int` | a plan holds text"),
        ("plan.yaml", b"a: 2024-99-99", "is no `!!timestamp` | a plan holds text"),
        ("plan.yaml", b"a: 1\nb: 2\na: 3\n", "key `a` on line 3 stands twice in its table | keep one"),
        ("plan.yaml", b"x: {y: {a: 1, a: 1}}", "key `a` on line 1 stands twice"),
        ("plan.yaml", b"a: &a [*a]", "contains an alias of itself"),
        ("plan.json", b"[" * 50_000, "nested too deeply"),
        ("plan.json", b'{"a": 1, "b": {"c": 1, "c": 2}}', "key `c` stands twice"),
        ("plan.json", b"{'a': 1}", "not JSON"),
        ("plan.json", b"", "not JSON"),
        ("plan.toml", b"a = 1\na = 2\n", "not TOML"),
        ("plan.toml", b"a = ", "not TOML"),
        ("plan.toml", b"a." * 12_000 + b"b = 1", "nested too deeply"),
        ("plan.json", b" " * (1024 * 1024 + 1), "larger than 1024 KiB"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_file_that_is_no_plan_says_why(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert said in problem_of(tmp_path / name)


def test_a_folder_is_said_to_be_one(tmp_path: Path) -> None:
    assert "is a folder" in problem_of(tmp_path)


@each_row(
    ("name", "content", "line"),
    [
        ("plan.yaml", b"a: 1\nb: [\n", 3),
        ("plan.yaml", b"a: 1\nb: 2\na: 3\n", 3),
        ("plan.json", b'{"a": 1,\n "b" 2}', 2),
        ("plan.toml", b"a = 1\nb = \n", 2),
        ("plan.toml", b"a = 1\nb = " + b"[" * 99, 2),
        ("plan.yaml", b"a: 1\nb: 2024-99-99\n", 2),
        ("plan.yaml", b"a: 1\nb: \x07\n", 2),
        ("plan.yaml", b'a: 1\nb: "\\U0011ffff"\n', 2),
    ],
)
def test_what_cannot_be_parsed_is_told_with_its_line(tmp_path: Path, name: str, content: bytes, line: int) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PlanError) as caught:
        read_document(tmp_path / name, converts=True)
    assert caught.value.problems[0].line == line
    assert f"{tmp_path / name}:{line}: " in render(caught.value)


def bomb(make_level: str, levels: int = 40) -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [make_level.format(this=f"a{level}", last=f"a{level - 1}") for level in range(1, levels)]
    return "\n".join(lines)


@each_row(
    "level",
    [
        "{this}: &{this} [*{last}, *{last}]",
        "{this}: &{this} {{x: *{last}, y: *{last}}}",
        "{this}: &{this} {{<<: [*{last}, *{last}]}}",
    ],
)
def test_a_bomb_of_aliases_is_refused_before_it_is_built(tmp_path: Path, level: str) -> None:
    (tmp_path / "plan.yaml").write_text(bomb(level))
    assert "counting what its aliases stand for" in problem_of(tmp_path / "plan.yaml")


def test_modest_aliases_and_merges_are_followed(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("base: &base {a: 1, b: 2}\nmine: {<<: *base, b: 3}\n")
    assert read_document(tmp_path / "plan.yaml").content["mine"] == {"a": 1, "b": 3}


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan.yaml")
    assert "not a regular file" in problem_of(tmp_path / "plan.yaml")
    (tmp_path / "folder.yaml").mkdir()
    assert "cannot be read: is a directory" in problem_of(tmp_path / "folder.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "cannot be read: no such file" in problem_of(tmp_path / "plan.yaml")
    assert "cannot be read" in problem_of(Path("nul\0.yaml"))


@given(
    name=st.sampled_from(["plan.yaml", "plan.json", "plan.toml"]),
    content=st.binary(max_size=200) | st.text(max_size=200),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_content_is_data_or_a_plan_error(tmp_path: Path, name: str, content: bytes | str) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        read_document(path, converts=True)
    except PlanError as error:
        assert "\n" not in render(error).splitlines()[0]


YAML_TOKENS = [
    *"ab:-[]{}&*!<|>'\"#%@ \n,?0123.~",
    "!!",
    "!!int ",
    "!!set ",
    "<<: ",
    "&a ",
    "*a",
    "- ",
    ": ",
    "\n- ",
    "\n  ",
]
YAML_SOUP = st.lists(st.sampled_from(YAML_TOKENS), max_size=40).map("".join)


@given(YAML_SOUP)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_yaml_looking_text_is_data_or_a_plan_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    try:
        read_document(tmp_path / "plan.yaml")
    except PlanError as error:
        assert len(error.problems) == 1


def test_a_missing_plan_is_answered_with_the_one_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("{}")
    with pytest.raises(PlanError) as raised:
        read_document(tmp_path / "plan.yml")
    assert raised.value.problems[0].hint == f"did you mean `{tmp_path}/plan.yaml`?"


def test_a_missing_plan_is_answered_with_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as raised:
        read_document(tmp_path / "plan.yaml")
    assert raised.value.problems[0].hint == f"`paddock init {tmp_path}/plan.yaml` writes a plan"
