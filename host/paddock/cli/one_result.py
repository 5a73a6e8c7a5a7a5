"""The top of a command with one result: a diagnosis, a demonstration, a list of attacks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from paddock.cli.answer import CommandReport
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen

_Result = TypeVar("_Result")


def result_of(
    work: Callable[[], Coroutine[Any, Any, _Result]],
    screen: Screen,
    activity: Callable[[], str],
    *,
    as_json: bool,
    level: int = logging.WARNING,
) -> _Result | int:
    """Return the result of `work`, or the exit code when it was interrupted or failed, which is reported.

    `activity` describes the work in a few words; log records below `level` are not shown.
    """

    def attempted() -> _Result:
        with LogLines(screen, level=level):
            return asyncio.run(interruptible(work, screen, activity))

    return CommandReport(screen, as_json, beside={"ok": False}).attempt(attempted)
