"""Write a new module, and print the next steps."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from paddock.authoring.module_name import KINDS, ModuleName
from paddock.authoring.project import write_module
from paddock.cli import options
from paddock.cli.answer import CommandReport
from paddock.cli.command_group import example
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.standard_streams import reporting
from paddock.plan.model import Kind
from paddock.text import escape


@click.command(epilog=example("paddock module new tool word-count"))
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option(
    "--path",
    "parent",
    metavar="DIR",
    type=options.FOLDER,
    default=".",
    help="The folder in which the project's folder is made, or a project with modules; by default the current one.",
)
@options.JSON
def new(kind: Kind, name: str, parent: Path, as_json: bool) -> int:
    """Write the project of a new module, with a small example, to a new folder.

    `paddock module new tool word-count` writes amplifier-module-tool-word-count. It passes `paddock module
    validate` and its own tests at once. In a project that holds modules, the new one becomes a further package of it.
    Of existing files only its pyproject.toml is changed, which gets an entry point.
    """
    screen = Screen(sys.stderr)
    project = CommandReport(screen, as_json).attempt(lambda: write_module(ModuleName.of(kind, name), parent))
    if isinstance(project, int):
        return project
    with reporting(screen, f"{project.folder} is written"):
        if as_json:
            facts = {"module_id": project.name.module_id, "kind": kind, "folder": str(project.folder)}
            print_json({**facts, "files": list(project.files), "error": None})
            return 0
        for file in project.files:
            click.echo(escape(str(project.folder / file)))
    shown = escape(shlex.quote(str(project.folder)))
    screen.text(
        f"hint: `paddock module validate {shown}` checks it\nhint: `paddock module test {shown}` runs its tests"
    )
    return 0
