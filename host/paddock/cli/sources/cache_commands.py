"""The commands about the cache: what each is given. What they do is in a file of its own, loaded when one is run."""

from __future__ import annotations

from typing import Final

import click

from paddock.cli.command_group import CommandGroup

_JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object to stdout, and nothing else."
)


@click.group(cls=CommandGroup)
def cache() -> None:
    """Look after the cache, which keeps the code of modules and what they depend on.

    Many sessions may use it meanwhile: what one of them runs is never taken away.
    """


@cache.command("dir")
@_JSON
def show_dir(as_json: bool) -> int:
    """Print where it is. PADDOCK_CACHE_DIR puts it elsewhere."""
    from paddock.cli.sources.cache_command import show_dir as run

    return run(as_json=as_json)


@cache.command("size")
@_JSON
def show_size(as_json: bool) -> int:
    """Print how much room it takes."""
    from paddock.cli.sources.cache_command import show_size as run

    return run(as_json=as_json)


@cache.command("list")
@_JSON
def show_list(as_json: bool) -> int:
    """Print all there is in it, with when it was last used."""
    from paddock.cli.sources.cache_command import show_list as run

    return run(as_json=as_json)


@cache.command()
@_JSON
def verify(as_json: bool) -> int:
    """Read all there is in it, and find what is not as it was put there.

    That is handed out no more. Exits with 0 if there is nothing of that kind, with 1 if there is.
    """
    from paddock.cli.sources.cache_command import verify as run

    return run(as_json=as_json)


@cache.command()
@click.option(
    "--older-than",
    metavar="AGE",
    default="30d",
    show_default=True,
    help="Take away what was not used for so long, as in 12h, 30d or 8w.",
)
@_JSON
def prune(older_than: str, as_json: bool) -> int:
    """Take away what was not used for long, what is damaged, and what was left by processes that died."""
    from paddock.cli.sources.cache_command import prune as run

    return run(older_than, as_json=as_json)


@cache.command()
@_JSON
def clean(as_json: bool) -> int:
    """Take away everything that no session uses right now. What is needed again is fetched again."""
    from paddock.cli.sources.cache_command import clean as run

    return run(as_json=as_json)
