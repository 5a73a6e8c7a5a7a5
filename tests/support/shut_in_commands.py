"""Commands that are shut in, for tests that may block: the runner has a loop of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio.from_thread
import pytest

from paddock.isolation.commands.source_commands import SourceCommands
from paddock_sandbox.profile import IsolationLevel
from paddock_sources.commands.command_runner import CommandAccess, CommandError

LEVELS: Final[tuple[IsolationLevel, ...]] = ("ns", "bwrap", "landlock")


@contextmanager
def commands_at(level: IsolationLevel | None) -> Iterator[SourceCommands]:
    """Yield a runner, without a level at the strongest that can be had.

    Where there is none, the test is skipped with what stands in the way.
    """
    with anyio.from_thread.start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(SourceCommands.started(os.environ, isolation=level)) as runner:
            try:
                with runner.open(CommandAccess("trial")):
                    pass
            except CommandError as error:
                if "cannot be shut in" not in error.problem:
                    raise
                pytest.skip(error.problem)
            yield runner
