"""The top of a command: it does the work, then reports the answer, or why there is none, to people and scripts.

stdout receives the answer, or exactly one JSON object; everything else goes to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final, TypeVar

import click

from paddock.cli import failure
from paddock.cli.command_group import INTERRUPTED, Interrupted
from paddock.cli.failure import SourceFailedError
from paddock.cli.terminal.json_output import Mask, print_json
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.standard_streams import reporting
from paddock.errors import PaddockError
from paddock_sources.errors import SourceError

DONE: Final = "the command has done its work"

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command: its exit code, the object for scripts, and the text on stdout for people.

    On stderr, people also get `notes`, and everybody the `errors`, of which scripts get the first.
    """

    facts: Mapping[str, object]
    show: Callable[[Screen], None] = field(default=lambda screen: None)
    code: int = 0
    errors: Sequence[PaddockError] = ()
    notes: Sequence[str] = ()


def answer(
    work: Callable[[], Answer],
    screen: Screen,
    *,
    as_json: bool,
    mask: Mask = str,
    beside: Mapping[str, object] | None = None,
    as_error: Callable[[SourceError], PaddockError] = SourceFailedError.of,
    done: str = "",
) -> int:
    """Do the work, report its answer, and return the exit code; the arguments are those of `attempt`.

    `done` is what to say where stdout takes no report of work that changed something.
    """
    found = attempt(work, screen, as_json=as_json, mask=mask, beside=beside, as_error=as_error)
    if isinstance(found, int):
        return found
    with reporting(screen, done) if done and found.code == 0 else nullcontext():
        if as_json:
            print_json({**found.facts, "error": failure.as_dict(found.errors[0]) if found.errors else None}, mask)
        else:
            found.show(Screen(sys.stdout, mask))
    for note in () if as_json else found.notes:
        screen.note(note)
    for error in found.errors:
        screen.text(failure.text(error))
    return found.code


def attempt(
    work: Callable[[], _Found],
    screen: Screen,
    *,
    as_json: bool,
    mask: Mask = str,
    beside: Mapping[str, object] | None = None,
    as_error: Callable[[SourceError], PaddockError] = SourceFailedError.of,
) -> _Found | int:
    """Return the result of `work`, or the exit code where it was interrupted or failed, which is reported.

    `mask` hides secrets in what scripts get, `beside` are their facts beside the error, and `as_error` makes the error
    to report of one about a source.
    """
    try:
        return work()
    except (KeyboardInterrupt, Interrupted) as caught:
        interrupted = caught if isinstance(caught, Interrupted) else Interrupted()
        if as_json:
            print_json({**(beside or {}), "error": interrupted.as_dict()})
        screen.ending(interrupted.text)
        return INTERRUPTED
    except (click.ClickException, SystemExit):
        raise
    except BaseException as caught:  # the top of a command: an unforeseen error is reported here
        error = as_error(caught) if isinstance(caught, SourceError) else caught
        screen.text(failure.text(error))
        if as_json:
            print_json({**(beside or {}), "error": failure.as_dict(error)}, mask)
        return failure.exit_code(error)
