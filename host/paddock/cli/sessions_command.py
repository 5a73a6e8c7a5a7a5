"""Show, export and delete the sessions that were kept.

`list` with `--json`: `{"sessions": [{"id", "state", "plan", "folder", "began", "last", "incomplete_since", "turns",
"bytes", "prompt", "unknown": [{"tool", "module", "at"}…]}…], "unread": [text…], "error"}`; `state` is `running`,
`interrupted` or `ended`; `incomplete_since` is null unless something is missing at the end; `unknown` are calls of
tools whose end was not recorded, among those near the end of the journal. `show`: the same facts as `session`, with all
such calls, `turns`, `messages` and `calls`. `delete`: `{"deleted": [id…], "error"}`. `lift`: `{"lifted": module
or null, "error"}`. Exit codes: 0; 1 there is no such session, it is in use, its journal cannot be used, or the module
is not quarantined in it.

A session is named by its id, by the beginning of one (four characters at least), or by `last`; to be read also by the
path of its journal, as one that a run of many tasks keeps with its results.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any, Final

import click

from paddock.audit import AuditLog
from paddock.cli import options
from paddock.cli.answer import CommandAnswer, CommandReport
from paddock.cli.command_group import CommandGroup, example
from paddock.cli.terminal.render import Screen
from paddock.cli.terminal.standard_streams import print_answer
from paddock.errors import KindError
from paddock.isolation.record import SessionInUseError
from paddock.plan.units import size_text
from paddock.session.journals.context_journal import text_of_message
from paddock.session.journals.journal_folder import SHORT_ID, SUFFIX, Journals
from paddock.session.journals.kept_session import KeptCall, KeptSession, time_text
from paddock.session.journals.quarantines import Quarantines
from paddock.text import escape

_PROMPT: Final = 60  # characters
_TITLES: Final = ("ID", "WHEN", "STATE", "PLAN", "TURNS", "SIZE", "FIRST PROMPT")


_SESSION: Final = click.argument("session", shell_complete=options.session_ids)


@click.group(cls=CommandGroup, epilog=example("paddock sessions list"))
def sessions() -> None:
    """List, show, export and delete the sessions that were kept; `run --resume` goes on with one."""


@sessions.command("list", epilog=example("paddock sessions list"))
@options.JSON
def list_sessions(as_json: bool) -> int:
    """List the sessions, the latest first, with the state and the first prompt of each."""

    def work() -> CommandAnswer:
        unread: list[str] = []
        listed = Journals().all(lambda error: unread.append("; ".join([error.summary, *error.hints])))
        facts = [_facts(kept, in_use) for kept, in_use in listed]
        rows = [_TITLES, *map(_row, facts)] if facts else []
        nothing = () if facts else ("no session was kept yet; `paddock run` and `paddock chat` keep each",)
        return CommandAnswer(
            {"sessions": facts, "unread": unread},
            lambda screen: screen.listing(rows),
            notes=(*nothing, *unread),
        )

    return _report(as_json, {"sessions": []}).answer(work)


@sessions.command("show", epilog=example("paddock sessions show last"))
@_SESSION
@options.JSON
def show_session(session: str, as_json: bool) -> int:
    """Show the turns of SESSION, its messages, and what became of each call of a tool."""

    def work() -> CommandAnswer:
        kept, in_use = _found(session)
        messages = kept.messages()
        turns = [
            {
                "prompt": turn.prompt,
                "began": time_text(turn.began),
                "ended": None if turn.ended is None else time_text(turn.ended),
                "outcome": turn.outcome,
            }
            for turn in kept.turns
        ]
        calls = [_call_facts(call) for call in kept.calls.values()]
        facts = {**_facts(kept, in_use), "turns": turns, "calls": calls}
        return CommandAnswer({"session": facts, "messages": messages}, lambda screen: _show(screen, facts, messages))

    return _report(as_json, {"session": None, "messages": []}).answer(work)


@sessions.command("export", epilog=example("paddock sessions export last"))
@_SESSION
@click.option("--markdown", is_flag=True, help="Write Markdown to read, instead of one JSON object a message.")
def export_session(session: str, markdown: bool) -> int:
    """Write the messages of SESSION to stdout, each as a line of JSON."""

    def work() -> CommandAnswer:
        messages = _found(session)[0].messages()
        if markdown:
            # As quotations, so that no line of one passes for a heading of ours.
            quoted = ["\n".join(f"> {line}" for line in text_of_message(one).splitlines()) for one in messages]
            roles = [escape(str(one.get("role"))) for one in messages]
            lines = [f"## {role}\n\n{text}\n" for role, text in zip(roles, quoted, strict=True)]
        else:
            lines = [json.dumps(message, default=str) for message in messages]
        return CommandAnswer({}, lambda screen: print_answer("\n".join(lines)))

    return _report(False, {}).answer(work)


@sessions.command("delete", epilog=example("paddock sessions delete --older-than 30d"))
@click.argument("session", required=False, shell_complete=options.session_ids)
@click.option(
    "--older-than", metavar="AGE", callback=options.read_age, help="Delete those that ended longer ago, as in 30d."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@options.JSON
def delete_sessions(session: str | None, older_than: float | None, dry_run: bool, as_json: bool) -> int:
    """Delete SESSION, or all that are older than an age; one that runs is never deleted."""
    if (session is None) == (older_than is None):
        raise click.UsageError("name a session, or an age with --older-than")

    def work() -> CommandAnswer:
        journals = Journals()
        if session is not None:
            ids = [journals.find(session)]
        else:
            before = time.time() - (older_than or 0.0)
            ids = [kept.id for kept, in_use in journals.all() if kept.last < before and not in_use]
        for id in ids if not dry_run else ():
            journals.delete(id)
        said = "would be deleted" if dry_run else "deleted"
        return CommandAnswer(
            {"deleted": ids},
            lambda screen: screen.labelled([(f"{said}  ", id) for id in ids] or [(f"{said}  ", "nothing")]),
        )

    return _report(as_json, {"deleted": []}).answer(work, "they are deleted")


@sessions.command("lift", epilog=example("paddock sessions lift last tool-bash"))
@_SESSION
@click.argument("module")
@options.JSON
def lift_quarantine(session: str, module: str, as_json: bool) -> int:
    """Let MODULE, which ended too often in SESSION, be started again when the session is resumed."""

    def work() -> CommandAnswer:
        kept, in_use = _found(session)
        if in_use:
            raise SessionInUseError(kept.id, kept.metas[-1].pid)
        quarantines = Quarantines(kept.path, kept.id)
        if not quarantines.lift(module):
            known = ", ".join(quarantines.modules) or "none"
            problem = f"no module `{module}` is quarantined in session `{kept.id}`"
            raise KindError("NotQuarantinedError", problem, hints=[f"the modules that are: {known}"])
        AuditLog(kept.id).record("quarantine.lifted", module=module)
        return CommandAnswer({"lifted": module}, lambda screen: screen.labelled([("lifted  ", module)]))

    return _report(as_json, {"lifted": None}).answer(work, "it is started again")


def _report(as_json: bool, beside: dict[str, object]) -> CommandReport:
    return CommandReport(Screen(sys.stderr), as_json, beside=beside)


def _found(asked: str) -> tuple[KeptSession, bool]:
    if asked.endswith(SUFFIX) and Path(asked).is_file():
        return Journals.read_at(Path(asked))
    journals = Journals()
    return journals.read(journals.find(asked))


def _facts(kept: KeptSession, in_use: bool) -> dict[str, Any]:
    ended = "interrupted" if kept.was_interrupted else "ended"
    return {
        "id": kept.id,
        "state": "running" if in_use else ended,
        "plan": kept.metas[-1].plan,
        "folder": kept.metas[-1].working_dir,
        "began": time_text(kept.began),
        "last": time_text(kept.last),
        "incomplete_since": time_text(kept.last) if kept.is_cut else None,
        "turns": kept.turn_count,
        "bytes": kept.path.stat().st_size,
        "prompt": kept.turns[0].prompt if kept.turns else "",
        "unknown": [_call_facts(call) for call in kept.open_calls()],
    }


def _call_facts(call: KeptCall) -> dict[str, object]:
    return {"tool": call.tool, "module": call.module, "at": time_text(call.began), "outcome": call.outcome}


def _row(facts: dict[str, Any]) -> tuple[str, ...]:
    prompt = " ".join(str(facts["prompt"]).split())
    calls = [f"{one['tool']}: outcome unknown" for one in facts["unknown"]]
    since = facts["incomplete_since"]
    missing = [f"incomplete since {_when(since)}"] if since is not None else []
    if len(prompt) > _PROMPT:
        prompt = f"{prompt[: _PROMPT - 1]}…"
    return (
        str(facts["id"])[:SHORT_ID],
        _when(facts["last"]),
        facts["state"],
        PurePath(facts["plan"] or "-").name,
        str(facts["turns"]),
        size_text(facts["bytes"]),
        "; ".join([prompt, *calls, *missing]),
    )


def _when(time: str) -> str:
    """Return a time as people tell it, in the time zone of this machine."""
    local = datetime.fromisoformat(time).astimezone()
    return f"today {local:%H:%M}" if local.date() == datetime.now().date() else f"{local:%Y-%m-%d %H:%M}"


def _show(screen: Screen, facts: dict[str, Any], messages: Sequence[dict[str, Any]]) -> None:
    screen.title(f"session {facts['id']}, {facts['state']}, of {facts['plan'] or 'a plan without a file'}")
    if facts["incomplete_since"] is not None:
        since = _when(facts["incomplete_since"])
        screen.warning(f"it is incomplete since {since}: what came then is not in its journal")
    turn_of = itemgetter("began", "outcome", "prompt")
    call_of = itemgetter("at", "module", "tool", "outcome")
    screen.listing([turn_of(turn) for turn in facts["turns"]])
    screen.listing([call_of(call) for call in facts["calls"]])
    screen.labelled([(f"{message.get('role')}  ", text_of_message(message)) for message in messages])
