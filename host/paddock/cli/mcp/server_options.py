"""The source, arguments and flags of one server: `run` has them from a client's file, `accept` from a person."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

import click

from paddock.cli import options, plan_options
from paddock.cli.options import GrantFlags
from paddock.plan.server_flags import ServerFlags
from paddock_sources import SourceUriError

_OPTIONS: Final = (
    click.argument("source"),
    click.argument("arguments", metavar="[-- ARGS]", nargs=-1),
    click.option("--config", metavar="JSON", default="{}", help="The module's configuration, as a JSON object."),
    options.LIMITS,
    options.working_dir("The folder that the server works in; by default the current one."),
    click.option("--offline", is_flag=True, help="Fetch nothing: take what the cache has, or name what it lacks."),
)


def server_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that name a server and what it may do, which `command` gets as `flags`."""

    @wraps(command)
    def with_flags(
        source: str,
        arguments: tuple[str, ...],
        config: str,
        limits: tuple[str, ...],
        working_dir: Path | None,
        grants: GrantFlags,
        **given: Any,
    ) -> int:
        flags = ServerFlags(
            source,
            working_dir or Path.cwd(),
            arguments,
            plan_options.read_grants(grants.allowed, grants.deny_read),
            plan_options.read_limits(limits),
            plan_options.read_object(config, "--config"),
        )
        try:
            _ = flags.key
        except SourceUriError as error:
            raise click.UsageError(f"`{error.text}` is not a module source: {error.problem}") from error
        if arguments and "args" in flags.config:
            raise click.UsageError("the server's arguments are in --config and after `--`: name them once")
        return command(flags=flags, **given)

    return partial(options.added, _OPTIONS)(options.grant_options(with_flags))
