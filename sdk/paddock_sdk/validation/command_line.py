"""The command `amplifier-core`: check a module from a shell.

The module's code runs in this process, unconfined, as in its author's own tests. Output for people goes to stdout; the
exit status is 0 for a module that passed and 1 for one that did not.
"""

from __future__ import annotations

import asyncio
import sys

import click

from paddock_sdk.validation import KINDS, ValidationCheck, ValidationResult, validator_for

__all__ = ["list_types", "main", "print_result", "validate"]

# Of this command, which has kept it through every version of the contracts.
_VERSION = "1.0.0"

_SEVERITY_WIDTH = len("[warning]")


@click.group(name="amplifier-core")
@click.version_option(_VERSION, prog_name="amplifier-core")
def main() -> None:
    """Check modules written for the Amplifier contracts."""


@main.command()
@click.argument("module_type", metavar="TYPE", type=click.Choice(KINDS))
@click.argument("module_path", metavar="PATH")
@click.option("-e", "--entry-point", metavar="NAME", help="The entry point, or the function, that mounts the module.")
@click.option("-q", "--quiet", is_flag=True, help="Print the summary alone.")
def validate(module_type: str, module_path: str, entry_point: str | None, quiet: bool) -> None:
    """Check the module whose package is at PATH.

    PATH is the folder with the `__init__.py`, not the repository around it; TYPE is one of those `list-types` prints.
    """
    result = asyncio.run(validator_for(module_type).validate(module_path, entry_point))
    if quiet:
        click.echo(result.summary())
    else:
        print_result(result)
    sys.exit(0 if result.passed else 1)


@main.command("list-types")
def list_types() -> None:
    """Print the types of modules there are."""
    for kind in KINDS:
        click.echo(kind)


def print_result(result: ValidationResult) -> None:
    """Print a summary, and each check below it."""
    click.echo(f"Validating {result.module_type} module: {result.module_path}\n\n{result.summary()}\n")
    for check in result.checks:
        click.echo(_line(check))


def _line(check: ValidationCheck) -> str:
    mark = "✓" if check.passed else "✗"
    return f"  {mark} {f'[{check.severity}]':<{_SEVERITY_WIDTH}} {check.name}: {check.message}"
