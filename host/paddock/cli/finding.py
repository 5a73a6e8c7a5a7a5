"""The top of a command with one finding as its result: a diagnosis, a demonstration, a list of attacks.

If there is no finding, this reports the reason to people and scripts, and returns an exit code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from paddock.cli import failure
from paddock.cli.command_group import INTERRUPTED, Interrupted
from paddock.cli.terminal.interruption import interruptible
from paddock.cli.terminal.json_output import print_json
from paddock.cli.terminal.log_lines import LogLines
from paddock.cli.terminal.render import Screen

_Finding = TypeVar("_Finding")


def find(
    search: Callable[[], Coroutine[Any, Any, _Finding]],
    screen: Screen,
    activity: Callable[[], str],
    *,
    as_json: bool,
    level: int = logging.WARNING,
) -> _Finding | int:
    """Return the result of `search`, or the exit code when it was interrupted or failed.

    `activity` describes the work in a few words; log records below `level` are not shown.
    """
    with LogLines(screen, level=level):
        try:
            return asyncio.run(interruptible(search, screen, activity))
        except KeyboardInterrupt:
            interrupted = Interrupted()
        except Interrupted as error:
            interrupted = error
        except SystemExit:
            raise
        except BaseException as error:  # the top of a command: an unforeseen error is reported here
            screen.text(failure.text(error))
            if as_json:
                print_json({"ok": False, "error": failure.as_dict(error)})
            return failure.exit_code(error)
    if as_json:
        print_json({"ok": False, "error": interrupted.as_dict()})
    screen.ending(interrupted.text)
    return INTERRUPTED
