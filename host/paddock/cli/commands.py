"""Which commands there are, and what each is given; what they do is in a file of their own, loaded when one is run."""

from __future__ import annotations

from pathlib import Path

import click

import paddock as package

_WORKING_DIR = click.option(
    "-C",
    "working_dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder modules work in; by default the current one.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout, and nothing else.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__, prog_name="paddock", message="%(prog)s %(version)s")
def paddock() -> None:
    """Run Amplifier plug-in modules, each in a process of its own.

    Data goes to stdout, everything else to stderr.
    """


@paddock.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.argument("prompt", required=False)
@_WORKING_DIR
@_JSON
@click.option("-v", "--verbose", is_flag=True, help="List every module, and tell more of what happens.")
def run(plan: Path, prompt: str | None, working_dir: Path | None, as_json: bool, verbose: bool) -> int:
    """Run one turn of a session: start the modules of PLAN, hand them PROMPT, print the answer.

    Without PROMPT it is read from stdin.
    """
    from .run_command import run_turn

    return run_turn(plan, prompt, working_dir, as_json=as_json, verbose=verbose)


@paddock.command()
@click.argument("source")
@click.argument("tool")
@click.argument("arguments", metavar="[JSON|-]", default="{}")
@click.option("--config", metavar="JSON", default="{}", help="The module's configuration.")
@click.option(
    "--limit", "limits", metavar="K=V", multiple=True, help="A limit, as in runtime_max=30s; can be repeated."
)
@_WORKING_DIR
@_JSON
def call(
    source: str,
    tool: str,
    arguments: str,
    config: str,
    limits: tuple[str, ...],
    working_dir: Path | None,
    as_json: bool,
) -> int:
    """Call one tool of one module and print what it returns.

    SOURCE is what a plan accepts: a folder (./module), builtin:<id>, or the id of a module that is shipped. The tool's
    input is a JSON object; `-` reads it from stdin.
    """
    from .call_command import call_tool

    return call_tool(source, tool, arguments, config, limits, working_dir, as_json=as_json)


@paddock.command()
@_JSON
def demo(as_json: bool) -> int:
    """Run a small job with five kinds of modules, three misbehaving ones beside them, and show what became of each."""
    from .demo_command import run_demo

    return run_demo(as_json=as_json)
