"""Each command that an error, a hint or a note names is one that exists, with the options that it is written with."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from integration.command_line import paddock
from paddock.cli.command_group import LazyCommand
from paddock.cli.commands import paddock as every_command
from paddock.plan.limits import Limits

_ROOT = Path(__file__).resolve().parents[2]
_FILLED_IN = "X"
_MAY_NAME = re.compile(r"""`--|[`"']paddock\b|_max\b""")  # a file without any of these names no command and no limit
# bounds that no plan sets, and one of npm's settings
_OF_THE_HOST = {"open_bytes_max", "described_max", "objects_max", "answer_max", "pid_max", "logs_max"}
_OF_OTHERS = {"--module-path", "--module-config", "--security-opt", "--pids-limit"}  # options of pytest and Docker


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield all text of a file, with a word in place of what is filled in; a list of words as the line that it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List) and node.elts and _text(node.elts[0]) == "paddock":
            yield f"`{' '.join(_text(one) for one in node.elts)}`"
        elif isinstance(node, ast.JoinedStr | ast.Constant) and (text := _text(node)) != _FILLED_IN:
            yield f"`{text}`" if re.match(r"paddock [a-z]+ [^.]*$", text) and "`" not in text else text


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(one) for one in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else _FILLED_IN


@functools.cache
def _product() -> Sequence[tuple[str, str]]:
    """Return each text of the product, with the file that has it."""
    return [
        (text, str(path.relative_to(_ROOT)))
        for package in ("host/paddock", "sources/paddock_sources", "sdk/paddock_sdk")
        for path in sorted((_ROOT / package).rglob("*.py"))
        if _MAY_NAME.search(source := path.read_text(encoding="utf-8"))
        for text in _texts(ast.parse(source))
    ]


def _named() -> dict[str, str]:
    """Return the commands and options in backticks in the text of the product, each with a file that names it."""
    found: dict[str, str] = {}
    for text, place in _product():
        for written in re.findall(r"`((?:paddock |--)[^`\n]+)`", text):
            found.setdefault(written, place)
    return found


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = every_command
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        listed = command.commands[words.pop(0)]
        command = listed.load() if isinstance(listed, LazyCommand) else listed
    return command, words


def _options(command: click.Command) -> set[str]:
    found = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return found | {"--help"}


def _all_options(group: click.Command) -> set[str]:
    found = _options(group)
    for listed in group.commands.values() if isinstance(group, click.Group) else ():
        found |= _all_options(listed.load() if isinstance(listed, LazyCommand) else listed)
    return found


def test_commands_in_hints_exist_with_their_options() -> None:
    named = _named()
    assert len(named) > 30  # the text was found
    every, wrong = _all_options(every_command), []
    for written, place in named.items():
        words = shlex.split(written)
        if words[0] == "paddock" and "--" in words:
            words = words[: words.index("--")]  # the rest is for another program
        command, rest = _command(words[1:]) if words[0] == "paddock" else (None, words)
        known = every if command is None else _options(command)
        if words[0] == "--" or "\\" in written:
            continue  # the arguments of another program; a template of a replacement
        is_whole = not isinstance(command, click.Group) or command.invoke_without_command
        is_whole = is_whole or rest[:1] in ([], [_FILLED_IN], ["…"])
        options = {word.partition("=")[0] for word in rest if word.startswith("--")}
        families = ("--allow-X", "--allow-…", "--X")
        unknown = {one for one in options - known - _OF_OTHERS if one != "--allow-" and not one.startswith(families)}
        if unknown or not is_whole:
            wrong.append((written, place))
    assert not wrong


def test_command_lines_in_hints_are_taken_by_their_command() -> None:
    wrong = []
    lines = {written: place for written, place in _named().items() if written.startswith("paddock ")}
    assert len(lines) > 20
    for written, place in lines.items():
        words = shlex.split(written)[1:]
        command, rest = _command(words)
        if isinstance(command, click.Group) or "\\" in written:
            continue  # the test above has those; a template of a replacement
        if problem := _problem(command, rest):
            wrong.append((written, place, problem))
    assert not wrong


def _problem(command: click.Command, words: list[str]) -> str:
    """Return what the command's own parser has against these words, of which `…` stands for any number."""
    is_whole = bool(words) and not any(word.startswith("…") for word in words)
    given = [word for word in words if not word.startswith(("…", "--allow-X", "--allow-…"))]
    context = click.Context(command, info_name=command.name)
    try:
        values, left, _ = command.make_parser(context).parse_args(given)
    except click.UsageError as error:
        return error.format_message()
    for one in command.params:
        value = values.get(one.name or "")
        is_absent = value in (None, ()) or "UNSET" in str(value)
        if is_whole and isinstance(one, click.Argument) and one.required and is_absent:
            return f"{one.make_metavar(context)} is missing"
        if isinstance(one.type, click.Choice) and isinstance(value, str) and value != _FILLED_IN:
            if not value.isupper() and value not in one.type.choices:
                return f"{value} is none of {one.type.choices}"
    return f"{left} is too much" if left else ""


def test_limits_in_hints_are_limits() -> None:
    named = {(name, place) for text, place in _product() for name in re.findall(r"\b([a-z]+(?:_[a-z]+)*_max)\b", text)}
    wrong = [one for one in named if one[0] not in {*Limits.model_fields, *_OF_THE_HOST}]
    assert len(named) > 10 and not wrong


@pytest.mark.exhaustive("args1", "args3", "args4", "args5", "args6", "args7", "args8")
@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("call", "tool-filesytem", "read_file", "{}"), "did you mean `tool-filesystem`?"),
        (("call", "builtin:tool-filesystem", "read_fiel", "{}"), "did you mean `read_file`?"),
        (("call", "weather-of-mine", "forecast"), "name its code: `paddock call ./folder forecast`"),
        (("call", "builtin:tool-filesystem", "weather", "{}"), ""),
        pytest.param(
            ("call", "builtin:tool-bash", "bash", "{}", "--allow-run=mytool-of-mine"), "", marks=pytest.mark.exhaustive
        ),
        (("call", "builtin:tool-bash", "bash", "{}", "--allow-run=bsah"), "did you mean `bash`?"),
        (("call", "builtin:tool-filesytem", "read_file", "{}"), "did you mean `builtin:tool-filesystem`?"),
        (("run", "plan.yaml", "hi", "--grant", "tool-bash=workspac"), "did you mean `workspace`?"),
        (("help", "permision"), "did you mean `permissions`?"),
        (("help", "modul"), "did you mean `module`?"),
        (("help", "module", "valdate"), "did you mean `module validate`?"),
        (("prune",), "Did you mean `paddock cache prune`?"),
        (("show",), "Did you mean `paddock policy show`?"),
        (("init", "nowhere.yaml", "--provider", "opneai", "--yes"), "did you mean `openai`?"),
        (("init", "nowhere.yaml", "--provider", "clippy", "--yes"), "ollama, vllm, lmstudio, llama.cpp"),
        (("chat", "What is this?"), "if that is a prompt: `paddock run plan.yaml 'What is this?'`"),
        (("module", "validate", "git+file:///a/b.git"), "`git+file:///a/b.git` is an address"),
        (("module", "test", "https://host/b.git"), "`https://host/b.git` is an address"),
        (("module", "shell", "builtin:tool-bash"), "`builtin:tool-bash` is an address"),
    ],
)
def test_a_mistyped_name_gets_a_near_hint_or_none(args: tuple[str, ...], meant: str) -> None:
    done = paddock(*args)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert meant in said if meant else "did you mean" not in said
