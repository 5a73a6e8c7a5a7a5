"""Have a client start its MCP servers through Paddock: show the line for each, write them, or take that back.

Nothing changes without `--write`. Then a person accepts each server with its grants, and only the commands in the file
change. As it was before, it is kept in Paddock's own state, where this user alone reads it, and no repository does. The
program is written with its whole path: programs of a desktop are started without the `PATH` of a shell. A file with
comments is not written; what to write is shown.

`--json`: `{"file", "servers": [{"name", "source", "permissions", "command": [word…], "notes": [text…], "problem": why
it is not touched, or null, "protected": whether Paddock starts it}…], "written", "undone", "error"}`; of a server that
is not touched the first three are null. Exit codes: 0; 1 the file cannot be read, written or undone, or there is nobody
to ask; 4 refused by the answer or a policy.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

import click

from paddock.cli import options
from paddock.cli.answer import CommandAnswer
from paddock.cli.command_group import example
from paddock.cli.mcp.client_file import ClientFile, Keys, not_changed
from paddock.cli.mcp.client_server import FittedServer, fitted_servers, read_file, this_program
from paddock.cli.options import SourceFlags
from paddock.cli.sources.source_command import OFFLINE, REFUSED, CommandContext, run_source_command
from paddock.cli.terminal.consent import ServerConsent
from paddock.cli.terminal.fetch_progress import FetchProgress
from paddock.cli.terminal.render import Screen
from paddock.errors import ConsentRefusedError, PaddockError
from paddock.lookalikes import marked
from paddock.mcp_server.flagged_server import accept
from paddock.plan.edit import replaced
from paddock.policy.owner import Owner
from paddock.state_folder import open_own, state_folder
from paddock.text import reason_of

_NEXT: Final = {
    "--write": "to accept these servers, and write them into the file",
    "--undo": "it is written: start its client again; to take it back",
}
_BY_HAND: Final = "accepted; the file has comments, so it stays as it is: write these lines into it yourself"
_FOLDER: Final = "clients"  # in the state folder: files as they were before Paddock has written them


@click.command(epilog=example("paddock mcp protect .mcp.json"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--write", "writes", is_flag=True, help="Accept these servers, and write their lines into FILE.")
@click.option("--undo", "undoes", is_flag=True, help="Write the commands of FILE as they were before.")
@click.option("--yes", is_flag=True, help="Accept what is shown; without a terminal nobody can be asked.")
@OFFLINE
@options.JSON
def protect(
    file: Path,
    writes: bool,
    undoes: bool,
    yes: bool,
    offline: bool,
    as_json: bool,
) -> int:
    """Have the client that FILE belongs to start its MCP servers through Paddock.

    FILE is one in which Claude, VS Code, Cursor, Zed or Codex has its servers, such as .mcp.json. Each server is shown
    with the line that starts it and the grants that fit. Servers at an address stay as they are.
    """
    if writes and undoes:
        raise click.UsageError("--undo takes back what --write has written: name one")
    path = Path(os.path.abspath(file))

    async def work(context: CommandContext) -> CommandAnswer:
        written = await context.call(read_file, path)
        if undoes:
            return await context.call(_undo, path, written)
        client = ClientFile.read(written, path)
        home = Owner.current(os.environ).home.resolve()
        servers = await fitted_servers(context, client.servers, home)
        new = [one for one in servers if one.flags is not None]
        if not (writes and new):
            return _answer(path, servers, "--write" if new else "")
        accepted, errors = await _accept(context, path, new, says_yes=yes)
        program = this_program()
        commands = {
            one.server.keys: {"command": program, "args": one.flags.words("run")[1:]} for one in accepted if one.flags
        }
        code = errors[0].exit_code if errors else 0 if accepted else REFUSED
        if client.has_comments or not commands:
            return replace(_answer(path, servers, _BY_HAND if commands else ""), errors=errors, code=code)
        try:
            after = client.with_commands(commands).encode()
        except ValueError as error:
            raise not_changed(path, str(error), "write what is shown without --write by hand") from error
        await context.call(_write, path, written, after)
        return replace(_answer(path, servers, "--undo", commands), errors=errors, code=code)

    return run_source_command(work, offline=offline, asks=writes and not yes, as_json=as_json)


async def _accept(
    context: CommandContext, path: Path, servers: Sequence[FittedServer], *, says_yes: bool
) -> tuple[list[FittedServer], list[PaddockError]]:
    """Have each server be accepted with its flags; return those that are, and why others could not be.

    Raises:
        KindError: nobody can be asked.
    """
    dialogue = context.dialogue
    if not (says_yes or context.has_person):
        raise not_changed(path, "nobody can be asked here", "read what is shown without --write, and add `--yes`")
    accepted: list[FittedServer] = []
    errors: list[PaddockError] = []
    for one in servers:
        assert one.flags is not None
        consent = None  # an option has said yes
        if dialogue is not None:
            consent = ServerConsent(dialogue, one.flags.title, (*one.flags.notes, *one.notes), says_yes=False)
        try:
            with FetchProgress(context.screen) as progress:
                sources = SourceFlags(offline=context.is_offline).read(progress)
                await accept(one.flags, os.environ, consent=consent, sources=sources)
            accepted.append(one)
        except ConsentRefusedError:
            continue
        except PaddockError as error:
            errors.append(error)
    return accepted, errors


# -- write and undo ------------------------------------------------------------------------


def _write(path: Path, before: bytes, after: bytes) -> None:
    """Write a file, and keep it as it was before."""
    kept = _kept(path, after)
    try:
        with open(kept, "wb", opener=open_own) as file:
            file.write(before)
    except OSError as error:
        raise not_changed(path, f"it cannot be kept as {kept}: {reason_of(error)}") from error
    _replace(path, before, after)


def _undo(path: Path, now: bytes) -> CommandAnswer:
    kept = _kept(path, now)
    try:
        with open(kept, "rb", opener=open_own) as file:
            before = file.read()
    except OSError as error:
        raise not_changed(path, "Paddock has not written what is in it now") from error
    _replace(path, now, before)
    kept.unlink()
    facts = {**_facts(path, (), ()), "undone": True}
    return CommandAnswer(facts, lambda screen: screen.title(f"{path} has its own commands again"))


def _replace(path: Path, before: bytes, after: bytes) -> None:
    try:
        is_as_read = replaced(path, before, after)
    except OSError as error:
        raise not_changed(path, f"it cannot be written: {reason_of(error)}") from error
    if not is_as_read:
        raise not_changed(path, "somebody else changed it at this moment", "try again")


def _kept(path: Path, written: bytes) -> Path:
    """Return where a file is kept as it was before Paddock has written this into it."""
    place = os.fsencode(os.path.realpath(path))
    return state_folder(None, _FOLDER) / sha256(place + b"\0" + written).hexdigest()[:32]


# -- display -------------------------------------------------------------------------------


def _answer(
    path: Path,
    servers: Sequence[FittedServer],
    then: str,
    written: Collection[Keys] = (),
) -> CommandAnswer:
    """Return the answer about servers, of which some are `written`; `then` is what a person may want next."""

    def show(screen: Screen) -> None:
        for one in servers:
            if one.flags is None:
                said = f"not touched: it {one.problem}" if one.problem else "Paddock starts it already"
                screen.note(f"{one.server.name}: {said}")
                continue
            screen.title(f"{one.server.name} {'is' if one.server.keys in written else 'would be'} started by")
            screen.command(marked(one.flags.line("run")))
            for note in one.notes:
                screen.note(note)
        if then in _NEXT:
            screen.title(_NEXT[then])
            line = f"paddock mcp protect {shlex.quote(str(path))}"
            screen.command(f"{line} {then}")
        elif then:
            screen.title(then)

    return CommandAnswer(_facts(path, servers, written), show)


def _facts(
    path: Path,
    servers: Sequence[FittedServer],
    written: Collection[Keys],
) -> dict[str, object]:
    rows = [
        {
            "name": one.server.name,
            "source": one.flags and one.flags.source,
            "permissions": one.flags and dict(one.flags.permissions),
            "command": one.flags and one.flags.words("run"),
            "notes": one.notes,
            "problem": one.problem or None,
            "protected": one.server.keys in written or (one.flags is None and not one.problem),
        }
        for one in servers
    ]
    return {
        "file": str(path),
        "servers": rows,
        "written": bool(written),
        "undone": False,
    }
