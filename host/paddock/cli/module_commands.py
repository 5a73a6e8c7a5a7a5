"""The commands for authors of modules: what each is given. What they do is loaded when one is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from paddock.authoring.module_name import Kind

_KINDS: Final = ("tool", "hook", "provider", "orchestrator", "context")
_JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object to stdout, and nothing else."
)


@click.group()
def module() -> None:
    """Write modules: start one, see whether it is what hosts expect, run its tests.

    Whatever is run of a module runs in a sandbox, and is granted nothing.
    """


@module.command("new")
@click.argument("kind", type=click.Choice(_KINDS))
@click.argument("name")
@click.option(
    "--path",
    "parent",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The folder to put its folder into; by default the current one.",
)
@_JSON
def new(kind: Kind, name: str, parent: Path, as_json: bool) -> int:
    """Write the project of a new module, with a small example in it, to a folder of its own.

    `paddock module new tool word-count` writes amplifier-module-tool-word-count. It passes `paddock module validate`
    and its own tests as it is. Nothing that is there already is changed.
    """
    from .module_new_command import run_new

    return run_new(kind, name, parent, as_json=as_json)
