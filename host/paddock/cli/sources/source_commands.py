"""The commands about sources: what each is given. What they do is in a file of their own, loaded when one is run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

_WORKING_DIR: Final = click.option(
    "-C",
    "working_dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder whose plan.yaml and paddock.lock are meant; by default the current one.",
)
_JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object to stdout, and nothing else."
)
_OFFLINE: Final = click.option("--offline", is_flag=True, help="Ask nobody; what is not in the cache is an error.")
_PLAN: Final = click.argument("plan", required=False, type=click.Path(path_type=Path))


@click.command()
@click.argument("source")
@click.option("--to", "plan", metavar="PLAN", type=click.Path(path_type=Path), help="Name the module in this plan.")
@click.option("--as", "module_id", metavar="ID", help="Its id: which of several it is, or what the plan calls it.")
@click.option("--yes", is_flag=True, help="Ask nothing before it is written.")
@_OFFLINE
@click.option(
    "--allow-impostor",
    is_flag=True,
    help="Take a commit that no branch or tag of the repository leads to, as one of a stranger's fork.",
)
@_WORKING_DIR
@_JSON
def add(
    source: str,
    plan: Path | None,
    module_id: str | None,
    yes: bool,
    offline: bool,
    allow_impostor: bool,
    working_dir: Path | None,
    as_json: bool,
) -> int:
    """Fetch SOURCE, lock it in paddock.lock and, with --to, name it in a plan.

    SOURCE is a repository (git+https://host/path@ref#subdirectory=folder), a folder (./module), or a package
    (name==version). What the module asks for is shown, with the line that would grant it; nothing is granted.
    """
    from paddock.cli.sources.add_command import AddOptions, run_add

    wishes = AddOptions(source, plan, module_id, asks_nothing=yes, offline=offline, allow_impostor=allow_impostor)
    return run_add(wishes, working_dir, as_json=as_json)


@click.command()
@click.argument("module", metavar="MODULE|SOURCE")
@click.option("--from", "plan", metavar="PLAN", type=click.Path(path_type=Path), help="Take it out of this plan too.")
@_WORKING_DIR
@_JSON
def remove(module: str, plan: Path | None, working_dir: Path | None, as_json: bool) -> int:
    """Take a module out of paddock.lock and, with --from, out of a plan."""
    from paddock.cli.sources.remove_command import run_remove

    return run_remove(module, plan, working_dir, as_json=as_json)


@click.command("list")
@_PLAN
@click.option("--dev", "live", is_flag=True, help="Mark what runs live with `run --dev`: modules in folders.")
@_WORKING_DIR
@_JSON
def list_(plan: Path | None, live: bool, working_dir: Path | None, as_json: bool) -> int:
    """List modules: where each comes from, and what it is pinned to.

    Those of PLAN, by default of plan.yaml, or without a plan those that are locked.
    """
    from paddock.cli.sources.list_command import run_list

    return run_list(plan, working_dir, live=live, as_json=as_json)


@click.command()
@_PLAN
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something is not locked as it is.")
@_OFFLINE
@_WORKING_DIR
@_JSON
def lock(plan: Path | None, check: bool, offline: bool, working_dir: Path | None, as_json: bool) -> int:
    """Lock what PLAN names, by default plan.yaml, and its paddock.lock lacks; what is locked stays as it is."""
    from paddock.cli.sources.lock_command import run_lock

    return run_lock(plan, working_dir, checks=check, offline=offline, as_json=as_json)


@click.command()
@_PLAN
@_OFFLINE
@_WORKING_DIR
@_JSON
def sync(plan: Path | None, offline: bool, working_dir: Path | None, as_json: bool) -> int:
    """Fetch and install all that is locked, so that it runs without a network."""
    from paddock.cli.sources.sync_command import run_sync

    return run_sync(plan, working_dir, offline=offline, as_json=as_json)


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option(
    "--min-age",
    metavar="AGE",
    help="Hold back commits younger than this, as in 12h, 7d or 2w. A commit's date is what its author wrote into it: "
    "whoever may push can write any.",
)
@click.option("--yes", is_flag=True, help="Take also what asks for more than the version that is locked.")
@click.option("--allow-moved-tag", is_flag=True, help="Follow tags that now lead to another commit.")
@click.option("--plan", metavar="PLAN", type=click.Path(path_type=Path), help="The plan; by default plan.yaml.")
@_WORKING_DIR
@_JSON
def update(
    modules: tuple[str, ...],
    min_age: str | None,
    yes: bool,
    allow_moved_tag: bool,
    plan: Path | None,
    working_dir: Path | None,
    as_json: bool,
) -> int:
    """Take newer versions of locked modules, by default of all, and show what moved.

    A MODULE is named by its id or its source. One whose new version asks for more than the old one stays as it is until
    you accept what is shown; that grants nothing yet. Exits with 4 if something newer was refused.
    """
    from paddock.cli.sources.update_command import UpdateOptions, read_age, run_update

    wishes = UpdateOptions(modules, read_age(min_age), accepts_more=yes, allow_moved_tag=allow_moved_tag)
    return run_update(plan, working_dir, wishes, as_json=as_json)


@click.command()
@_PLAN
@_OFFLINE
@_WORKING_DIR
@_JSON
def verify(plan: Path | None, offline: bool, working_dir: Path | None, as_json: bool) -> int:
    """Read again all that is locked, and see whether tags still lead to where they led.

    Exits with 0 when all is as it was locked, else with 1.
    """
    from paddock.cli.sources.verify_command import run_verify

    return run_verify(plan, working_dir, offline=offline, as_json=as_json)


SOURCE_COMMANDS: Final = (add, remove, list_, lock, sync, update, verify)
