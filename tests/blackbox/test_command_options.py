"""The commands, their arguments and options are those that scripts use."""

from __future__ import annotations

from blackbox.command_options import all_commands
from blackbox.commands import World
from blackbox.frozen import assert_as_frozen


def test_commands_and_their_options_are_the_same(world: World) -> None:
    assert_as_frozen("command_options", all_commands(world))


def test_version_and_short_help_are_the_same(world: World) -> None:
    done = world.run("--version")
    assert (done.code, done.stdout.split()[0], done.stderr) == (0, "paddock", "")
    assert world.run("-h").stdout == world.run("--help").stdout
