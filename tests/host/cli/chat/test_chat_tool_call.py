"""What a person is told of a tool call: its telling argument, and the change that it asks for, both bounded."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.cli.chat.tool_call import change_of, short_argument
from paddock.policy.secrets.values import SecretValues
from support.rows import each_row


@each_row(
    ("arguments", "expected"),
    [
        ({}, ""),
        ({"command": "pytest -q\n  -x"}, "pytest -q -x"),
        ({"file_path": "/code/a/b.txt", "limit": 3}, "a/b.txt"),
        ({"path": "/etc/hosts"}, "/etc/hosts"),
        ({"limit": 3, "deep": {"x": [1]}}, '{"limit": 3, "deep": {"x": [1]}}'),
        ({"command": "x" * 5000}, "x" * 200 + "…"),
        ({"command": ["not", "text"]}, '{"command": ["not", "text"]}'),
    ],
)
def test_the_argument_that_tells_most_is_one_short_line(arguments: dict[str, Any], expected: str) -> None:
    assert short_argument(arguments, "/code") == expected


def _edit(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"file_path": "/code/a.txt", "old_string": old, "new_string": new, **more}


_FILE = "".join(f"line {number}\n" for number in range(1, 101))


@each_row(
    ("arguments", "text", "lines"),
    [
        pytest.param({"command": "ls"}, None, None, id="no-path"),
        pytest.param({"file_path": "a"}, None, None, id="no-content"),
        pytest.param(_edit("b", "c"), "a\nb\n", ("@ line 1", " a", "-b", "+c"), id="edit"),
        pytest.param(_edit("b", "c"), None, ("-b", "+c"), id="edit-of-a-file-that-is-not-shown"),
        pytest.param(_edit("x", "c"), "a\nb\n", ("-x", "+c"), id="edit-that-does-not-fit"),
        pytest.param(_edit("b", "c"), "b\nb\n", ("@ line 1", "+c", " b", "-b"), id="first-occurrence"),
        pytest.param(_edit("b", "c", replace_all=True), "b\nb\n", ("@ line 1", "-b", "-b", "+c", "+c"), id="all"),
        pytest.param({"path": "/code/n", "content": "a\nb"}, None, ("+a", "+b"), id="new-file"),
        pytest.param({"path": "/code/n", "content": "a\n"}, "a\n", (), id="nothing-changes"),
        pytest.param(
            _edit("line 50\n", "fifty\n"),
            _FILE,
            ("@ line 48", " line 48", " line 49", "-line 50", "+fifty", " line 51", " line 52"),
            id="in-the-middle",
        ),
        pytest.param({"patch": "@@\n-a\n+b"}, None, ("@@", "-a", "+b"), id="patch"),
    ],
)
def test_a_change_is_shown_with_what_is_around_it(
    arguments: dict[str, Any], text: str | None, lines: tuple[str, ...] | None
) -> None:
    change = change_of(arguments, lambda path: text, "/code")
    assert (None if change is None else change.lines) == lines


@each_row(
    ("arguments", "text", "doubt"),
    [
        (_edit("b", "c"), "a\nb\n", ""),
        (_edit("x", "c"), "a\nb\n", "was not found in the file"),
        (_edit("", "c"), "a\nb\n", "was not found in the file"),
        (_edit("b", "b"), "a\nb\n", "nothing should change"),
        (_edit("b", "c"), "b\nb\n", "there 2 times"),
        (_edit("b", "c", replace_all=True), "b\nb\n", ""),
        (_edit("b", "c"), None, "cannot be shown"),
        (_edit("a\nb", "a\nc"), "a\r\nb\r\n", ""),
    ],
)
def test_an_edit_that_may_not_come_about_says_so(arguments: dict[str, Any], text: str | None, doubt: str) -> None:
    change = change_of(arguments, lambda path: text, "/code")
    assert change is not None and (doubt in change.doubt if doubt else not change.doubt)
    assert bool(change.lines) == (arguments["old_string"] != arguments["new_string"])


def test_a_large_change_is_told_by_its_size() -> None:
    many = "\n".join(str(number) for number in range(3000))
    lines = change_of({"path": "a", "content": many}, lambda path: None)
    assert lines is not None and lines.lines == () and lines.summary == "0 lines become 3000"
    huge = change_of({"path": "a", "content": "x" * 300_000}, lambda path: "")
    assert huge is not None and huge.summary == "0 characters become 300000"
    patch = change_of({"path": "a", "patch": "+x\n" * 100_000}, lambda path: None)
    assert patch is not None and patch.lines == () and patch.summary == "a patch of 300000 characters"
    long = change_of({"path": "a", "content": "\n".join(map(str, range(500)))}, lambda path: None)
    assert long is not None and len(long.lines) == 30 and long.left_out == 470 and long.summary == "+500 -0"


_KEY = "sk-123456"
_LINES = "one\ntwo\nthree"  # each too short to be hidden alone
_SECRETS = SecretValues({"KEY": _KEY, "LINES": _LINES, "FILE": "/code/key.json"})


@each_row(
    "arguments",
    [
        {"command": "x" * 195 + _KEY},
        {"command": " " * 795 + _KEY},
        {"path": "/code/" + "x" * 195 + _KEY},
        {"path": "/code/key.json"},
        {"limit": "x" * 185 + _KEY},
        {"command": f"echo {_LINES}"},
    ],
)
def test_an_argument_is_masked_before_it_is_cut(arguments: dict[str, Any]) -> None:
    shown = short_argument(arguments, "/code", _SECRETS.mask)
    assert not any(part in shown for part in ("sk-", "one", "key.json"))


@each_row(
    ("arguments", "text", "lines"),
    [
        pytest.param(
            _edit("c", "d"),
            f"a\n{_LINES}\nc\n",
            ("@ line 1", " a", " [secret LINES]", "-c", "+d"),
            id="around-the-change",
        ),
        pytest.param(_edit("c", _LINES), "a\nc\n", ("@ line 1", " a", "-c", "+[secret LINES]"), id="in-the-new-text"),
        pytest.param(_edit(_LINES, "c"), None, ("-[secret LINES]", "+c"), id="in-the-old-text"),
        pytest.param({"path": "n", "content": f"k={_LINES}"}, None, ("+k=[secret LINES]",), id="new-file"),
        pytest.param(
            {"patch": "@@\n a\n+one\n+two\n+three\n-b"}, None, ("@@", " a", "+[secret LINES]", "-b"), id="patch"
        ),
        pytest.param({"patch": "@@\n one\n+two\n three"}, None, (), id="patch-within-a-secret"),
        pytest.param({"patch": f"{_KEY}\n+{_KEY}"}, None, ("[secret KEY]", "+[secret KEY]"), id="patch-without-mark"),
    ],
)
def test_a_change_hides_a_secret_of_two_lines(
    arguments: dict[str, Any], text: str | None, lines: tuple[str, ...]
) -> None:
    change = change_of(arguments, lambda path: text, "/code", _SECRETS.mask)
    assert change is not None and change.lines == lines


def test_a_changes_path_is_masked_and_its_file_is_read() -> None:
    change = change_of({"path": f"/code/{_KEY}", "content": "b"}, {f"/code/{_KEY}": "a"}.get, "/code", _SECRETS.mask)
    assert change is not None and (change.path, change.lines) == ("[secret KEY]", ("@ line 1", "-a", "+b"))
