"""Show the audit log, follow it, and check that each of its lines goes on from the one before.

With `--json`, one JSON object a line of the log. Exit codes: 0, also if no line is like that; 1 there is no audit log,
or it cannot be read.

`verify` with `--json`: `{"ok", "lines", "before", "ends_with", "since", "wrong", "error"}`: `lines` are linked and
follow `before` that are not, `wrong` names the first that does not go on from the one before. Exit codes: 0; 1 there is
such a line, none has the digest that was asked for, or there is nothing to check.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import click

from paddock.audit import audit_path
from paddock.audit_reading import Chain, audit_lines, follow_lines
from paddock.cli import options
from paddock.cli.answer import DONE, CommandAnswer, CommandReport
from paddock.cli.command_group import CommandGroup, example
from paddock.cli.terminal.json_output import printable_json
from paddock.cli.terminal.render import Screen
from paddock.errors import KindError
from paddock.text import escaped_line

_SHORT: Final = 8  # characters of an id, as other commands show it
_POLL_SECONDS: Final = 0.25
_IN_FRONT: Final = ("time", "session", "event", "module")
_OF_EACH: Final = frozenset({*_IN_FRONT, "seq", "uid", "pid", "prev"})
_PLAIN: Final = re.compile(r"[\w./:@+-]+", re.ASCII)


@click.group(cls=CommandGroup, invoke_without_command=True, epilog=example("paddock audit --event denial"))
@click.option("--session", metavar="ID", help="Only lines of this session, by its id or the beginning of it.")
@click.option("--event", metavar="EVENT", help="Only this event, such as denial, or its group, such as session.")
@click.option("--module", metavar="MODULE", help="Only lines about this module.")
@click.option("-f", "--follow", is_flag=True, help="Show the lines that come from now on, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Write each line as one JSON object.")
@click.pass_context
def audit(
    context: click.Context, session: str | None, event: str | None, module: str | None, follow: bool, as_json: bool
) -> int:
    """Show what ran, what was refused and how modules ended; `verify` checks that no line was changed."""
    screen, output = Screen(sys.stderr), Screen(sys.stdout)

    def show(facts: Mapping[str, Any]) -> None:
        if as_json:
            sys.stdout.write(printable_json(facts) + "\n")
        else:
            output.text(_shown(facts))

    def is_wanted(facts: Mapping[str, Any]) -> bool:
        sessions = str(facts.get("session")), str(facts.get("sub_session"))
        modules = facts.get("modules")
        return (
            (session is None or any(one.startswith(session) for one in sessions))
            and (event is None or f"{facts.get('event')}.".startswith(f"{event}."))
            and (module is None or module == facts.get("module") or (isinstance(modules, dict) and module in modules))
        )

    def work() -> str:
        is_empty = True
        events: set[str] = set()
        for line in (follow_lines if follow else audit_lines)(audit_path()):
            if line is None:
                sys.stdout.flush()  # a reader that has left ends it
                time.sleep(_POLL_SECONDS)
            elif (facts := line.facts) is None:
                screen.warning(f"{line.place} is none that Paddock wrote as it stands")
            elif is_wanted(facts):
                is_empty = False
                show(facts)
            else:
                events.add(str(facts.get("event")))
        if is_empty:
            screen.note("the audit log has no such line")
            if event is not None and events:
                screen.note(f"its events are {', '.join(sorted(events))}")
        return DONE

    done = DONE if context.invoked_subcommand is not None else CommandReport(screen, as_json).attempt(work)
    return done if isinstance(done, int) else 0


@audit.command(epilog=example("paddock audit verify --ends-with 6f1c0a27d3e84b95a1c07d52e9f3b846"))
@click.option("--ends-with", metavar="DIGEST", help="A digest that `verify` printed before: its line has to be there.")
@options.JSON
def verify(ends_with: str | None, as_json: bool) -> int:
    """Check that each line goes on from the one before, and name the first that does not.

    Prints the digest of the last line. An end that was cut off is found by a digest that you kept elsewhere. Whoever
    owns the file can write a new chain.
    """

    def work() -> CommandAnswer:
        chain = Chain.of(audit_lines(audit_path()), ends_with)
        problem = chain.wrong
        if not problem and not chain.lines:
            problem = "no line of the audit log is linked to the one before it: there is nothing to check"
        elif not problem and ends_with is not None and chain.since is None:
            problem = f"no line has the digest {ends_with}: the end was cut off, or the line is older than what is kept"
        errors = [KindError("AuditError", problem)] if problem else []
        facts = {"ok": not problem, **asdict(chain)}
        return CommandAnswer(facts, lambda screen: _show(screen, chain), len(errors), errors)

    return CommandReport(Screen(sys.stderr), as_json, beside={"ok": False}).answer(work)


def _show(screen: Screen, chain: Chain) -> None:
    rows = [("linked     ", f"{chain.lines} lines, each to the one before")]
    if chain.before:
        rows.append(("before     ", f"{chain.before} lines of an older Paddock, which are not linked"))
    if chain.since is not None:
        rows.append(("since      ", f"{chain.since} lines after the one with the digest that you gave"))
    if not chain.wrong:
        rows.append(("ends with  ", chain.ends_with))
    screen.labelled(rows)


def _shown(facts: Mapping[str, Any]) -> str:
    time, session, event, module = (str(facts.get(key, "")) for key in _IN_FRONT)
    report = facts.get("report")
    if isinstance(report, dict):
        facts = {**facts, "report": report.get("message")}  # which says what people ask for
    rest = [f"{key}={_value(value)}" for key, value in facts.items() if key not in _OF_EACH]
    return escaped_line("  ".join(filter(None, [time, session[:_SHORT], event, module, " ".join(rest)])))


def _value(value: object) -> str:
    """Return a value so that no text of a module passes for the next one."""
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)
