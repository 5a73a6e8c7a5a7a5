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
class CommandAnswer:
    """The result of a command: its exit code, the object for scripts, and the text on stdout for people.

    On stderr, people also get `notes`, and everybody the `errors`, of which scripts get the first.
    """

    facts: Mapping[str, object]
    show: Callable[[Screen], None] = field(default=lambda screen: None)
    code: int = 0
    errors: Sequence[PaddockError] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CommandReport:
    """How a command reports what comes of its work: `screen` is that of stderr.

    `mask` hides secrets in what scripts get, `beside` are their facts beside an error, and `as_error` makes the error
    to report of one about a source.
    """

    screen: Screen
    as_json: bool
    mask: Mask = str
    beside: Mapping[str, object] = field(default_factory=dict)
    as_error: Callable[[SourceError], PaddockError] = SourceFailedError.of

    def answer(self, work: Callable[[], CommandAnswer], done: str = "") -> int:
        """Do the work, report its answer, and return the exit code.

        `done` is what to say where stdout takes no report of work that changed something.
        """
        found = self.attempt(work)
        if isinstance(found, int):
            return found
        with reporting(self.screen, done) if done and found.code == 0 else nullcontext():
            if self.as_json:
                error = failure.as_dict(found.errors[0]) if found.errors else None
                print_json({**found.facts, "error": error}, self.mask)
            else:
                found.show(Screen(sys.stdout, self.mask))
        for note in () if self.as_json else found.notes:
            self.screen.note(note)
        for one in found.errors:
            self.screen.text(failure.text(one))
        return found.code

    def attempt(self, work: Callable[[], _Found]) -> _Found | int:
        """Return the result of `work`, or the exit code where it was interrupted or failed, which is reported."""
        try:
            return work()
        except (KeyboardInterrupt, Interrupted) as caught:
            interrupted = Interrupted.of(caught)
            if self.as_json:
                print_json({**self.beside, "error": interrupted.as_dict()})
            self.screen.ending(interrupted.text)
            return INTERRUPTED
        except (click.ClickException, click.Abort, SystemExit):
            raise
        except BaseException as caught:  # the top of a command: an unforeseen error is reported here
            error = self.as_error(caught) if isinstance(caught, SourceError) else caught
            self.screen.text(failure.text(error))
            if self.as_json:
                print_json({**self.beside, "error": failure.as_dict(error)}, self.mask)
            return failure.exit_code(error)
