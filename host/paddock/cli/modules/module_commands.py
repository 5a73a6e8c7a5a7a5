"""The commands for authors of modules: what each is given. What they do is loaded when one is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from paddock.cli.command_group import CommandGroup

if TYPE_CHECKING:
    from paddock.authoring.module_name import Kind
    from paddock_sandbox.profile import IsolationLevel

_KINDS: Final = ("tool", "hook", "provider", "orchestrator", "context")
_JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object to stdout, and nothing else."
)
_PATH: Final = click.argument("path", type=click.Path(path_type=Path))
_TYPE: Final = click.option(
    "-t", "--type", "kind", type=click.Choice(_KINDS), help="What kind of module it is; by default what it says."
)
_LIMITS: Final = click.option(
    "--limit", "limits", metavar="K=V", multiple=True, help="A limit, as in runtime_max=30s; can be repeated."
)
_LEVEL: Final = click.option(
    "--isolation",
    type=click.Choice(["ns", "bwrap", "landlock", "none"]),
    help="The isolation level, accepted however weak it is; by default the strongest there is.",
)
_OFFLINE: Final = click.option(
    "--offline", is_flag=True, help="Fetch nothing: use what was chosen the last time, or say what is lacking."
)


@click.group(cls=CommandGroup)
def module() -> None:
    """Write modules: start one, see whether it is what hosts expect, run its tests.

    Whatever is run of a module runs in a sandbox, which is gone afterwards.
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
    from paddock.cli.modules.module_new_command import run_new

    return run_new(kind, name, parent, as_json=as_json)


@module.command("validate")
@_PATH
@_TYPE
@click.option(
    "-o",
    "--output",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="How what was found out is written to stdout.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as `-o json`.")
@click.option("-b", "--behavioral", is_flag=True, help="Run the tests that every module of its kind has to pass, too.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the module prints meanwhile.")
@_LIMITS
@_LEVEL
@_OFFLINE
def validate(
    path: Path,
    kind: Kind | None,
    output: str,
    as_json: bool,
    behavioral: bool,
    verbose: bool,
    limits: tuple[str, ...],
    isolation: IsolationLevel | None,
    offline: bool,
) -> int:
    """Find out whether the module at PATH, its repository or its package, is what hosts expect of its kind.

    It is imported and mounted in a worker that is granted nothing, and gone afterwards. Exits with 0 if it is, with 1
    if it is not, with 5 if the module died over it or did not come to an end.
    """
    from paddock.cli.modules.module_trial import TrialOptions
    from paddock.cli.modules.module_validate_command import run_validate

    return run_validate(
        path,
        kind,
        TrialOptions.of(limits, isolation, offline=offline),
        as_json=as_json or output == "json",
        behavioral=behavioral,
        verbose=verbose,
    )


class _PassingOn(click.Command):
    """A command that says where options for pytest go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse them; an option that is not the command's own may have been meant for pytest."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = f"one for pytest comes behind `--`, as in `-- {error.option_name}`"
            raise click.UsageError(f"{error.format_message()} ({hint})", ctx) from error


@module.command("test", cls=_PassingOn)
@_PATH
@click.argument("pytest_args", nargs=-1, metavar="[-- PYTEST_ARGS]...")
@_LIMITS
@_LEVEL
@_OFFLINE
def test(
    path: Path,
    pytest_args: tuple[str, ...],
    limits: tuple[str, ...],
    isolation: IsolationLevel | None,
    offline: bool,
) -> int:
    """Run the tests of the module at PATH with pytest, over a copy of it, in a worker that is gone afterwards.

    Tests have what the module depends on, what its developers install (its extras or dependency groups `dev` and
    `test`), pytest and pytest-asyncio. They reach no network, and write nowhere but to a folder of the worker's own.
    Exits with 0 if all pass, with 1 if one fails or there is none, with 5 if they died or did not come to an end.
    """
    from paddock.cli.modules.module_test_command import run_test
    from paddock.cli.modules.module_trial import TrialOptions

    return run_test(path, pytest_args, TrialOptions.of(limits, isolation, offline=offline))
