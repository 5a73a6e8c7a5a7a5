"""Which commands there are and what each is given, as their `--help` says it; its prose is not looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from blackbox.commands import World

_ITEM = re.compile(r"^  (\S.*?)(?:  .*)?$", re.MULTILINE)
_OPTION = re.compile(r"-.*\S")


def all_commands(world: World) -> dict[str, Any]:
    """Return each command's usage line, options and commands below it, by the command's words."""
    return {" ".join(path): facts for path, facts in _walk(world, ())}


def _walk(world: World, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    done = world.run(*path, "--help")
    assert (done.code, done.stderr) == (0, "")
    usage = " ".join(done.stdout.partition("\n\n")[0].split())
    commands = _items(done.stdout, "Commands")
    options = [one for one in _items(done.stdout, "Options") if _OPTION.match(one)]
    yield path, {"usage": usage, "options": options, "commands": commands}
    for command in commands:
        yield from _walk(world, (*path, command))


def _items(text: str, section: str) -> list[str]:
    _, _, rest = text.partition(f"\n{section}:\n")
    return [" ".join(match[1].split()) for match in _ITEM.finditer(rest.partition("\n\n")[0])]
