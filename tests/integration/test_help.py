"""`paddock help` shows the manual and the help of commands."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import click
import pytest

from integration.command_line import Terminal, paddock
from integration.manual_pages import MANUALS, ROOT
from paddock.cli.command_group import LazyCommand
from paddock.cli.commands import paddock as ROOT_GROUP


def test_help_lists_every_page_of_the_manual() -> None:
    done = paddock("help")
    assert done.returncode == 0
    listed = {line.split()[0] for line in done.stdout.partition("Topics:\n")[2].splitlines() if line.startswith("  ")}
    assert {page.stem for page in MANUALS if page.parent != ROOT} <= listed


def test_the_manual_lists_every_command_of_a_group() -> None:
    page = (ROOT / "host/docs/commands.md").read_text(encoding="utf-8")
    listed = {name: set(inside.split(",")) for name, inside in re.findall(r"`paddock (\w+) \{([\w,]+)\}", page)}
    loaded = {name: one.load() for name, one in ROOT_GROUP.commands.items() if isinstance(one, LazyCommand)}
    assert listed == {name: set(one.commands) for name, one in loaded.items() if isinstance(one, click.Group)}


def test_help_prints_a_page_as_it_is() -> None:
    for topic, page in {"permissions": "host/docs/permissions.md", "security": "SECURITY.md"}.items():
        done = paddock("help", topic)
        assert (done.returncode, done.stdout) == (0, (ROOT / page).read_text(encoding="utf-8"))


def test_help_lays_a_page_out_on_a_terminal() -> None:
    with Terminal("help", "limits", environ={"COLUMNS": "60"}) as terminal:
        assert terminal.exit_code() == 0
        assert "memory_max" in terminal.shown and "| `memory_max`" not in terminal.shown


def test_help_ignores_a_size_that_is_no_number() -> None:
    with Terminal("help", "limits", environ={"COLUMNS": "²", "LINES": "9" * 5000}) as terminal:
        assert terminal.exit_code() == 0
        assert "memory_max" in terminal.shown


@pytest.mark.parametrize("words", [("run",), ("module", "test"), ("cache",)])
def test_help_of_a_command_is_what_the_command_prints(words: tuple[str, ...]) -> None:
    if " ".join(words) in {page.stem for page in MANUALS}:
        assert paddock("help", *words).stdout.startswith("# ")
        return
    assert paddock("help", *words).stdout == paddock(*words, "--help").stdout


def test_an_option_that_is_typed_in_part_is_followed_by_all_that_begin_so() -> None:
    done = paddock("call", "--allow=.")
    assert done.returncode == 2 and "'--allow-read'" in done.stderr and "'--allow-write'" in done.stderr


def test_an_unknown_topic_is_a_usage_error_that_names_the_pages() -> None:
    done = paddock("help", "permisions")
    assert done.returncode == 2 and "permissions" in done.stderr and not done.stdout
    done = paddock("help", "resume")
    assert done.returncode == 2 and "it is in `paddock help sessions`" in done.stderr and not done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    done = paddock(environ={**os.environ, "_PADDOCK_COMPLETE": f"{shell}_source"})
    assert done.returncode == 0 and "_PADDOCK_COMPLETE" in done.stdout


def _commands(group: click.Group, *above: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, listed in group.commands.items():
        command = listed.load() if isinstance(listed, LazyCommand) else listed
        if isinstance(command, click.Group):
            yield from _commands(command, *above, name)
        else:
            yield (*above, name), command


@pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*one, id=" ".join(one[0])) for one in _commands(ROOT_GROUP)]
)
def test_a_commands_help_ends_with_an_example_of_it(words: tuple[str, ...], command: click.Command) -> None:
    line = (command.epilog or "").splitlines()[-1].strip()
    assert tuple(line.split()[: len(words) + 1]) == ("paddock", *words)
    assert len(line) <= 78  # two columns in, of 80
    options = {text for option in command.params for text in option.opts}
    typed = [word.partition("=")[0] for word in line.split() if word.startswith("-") and word not in ("-", "--", "-k")]
    assert {*typed} <= options
