"""What a client's server is to Paddock: the source of its program, the arguments after it, and grants that fit.

Grants are suggested by what the client's file and this machine say; options of Paddock in the file grant nothing. What
a project's file names outside of the project's folder is not suggested: a repository may have written it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from paddock.authorization.suggestions.vendors import vendor_of_key, words_of
from paddock.cli.failure import SourceFailedError
from paddock.cli.mcp.client_file import MAX_BYTES, ClientServer, not_changed
from paddock.plan.families import EXCLUDED_SECRETS
from paddock.plan.permissions import Permissions
from paddock.plan.problems import NotAcceptedError
from paddock.plan.server_flags import ServerFlags
from paddock.policy.programs import look_up
from paddock.text import reason_of
from paddock_sources import SourceUriError, parse_source
from paddock_sources.kinds.mcp_uri import McpNpmUri, McpPackageUri, McpPypiUri

if TYPE_CHECKING:
    from paddock.cli.sources.source_command import CommandContext


# Programs that get a package and run its program, with the kind of source that their packages have.
_LAUNCHERS: Final[Mapping[tuple[str, ...], type[McpPackageUri]]] = {
    ("npx",): McpNpmUri,
    ("npm", "exec"): McpNpmUri,
    ("npm", "x"): McpNpmUri,
    ("uvx",): McpPypiUri,
    ("uv", "tool", "run"): McpPypiUri,
    ("pipx", "run"): McpPypiUri,
}
_NAMING: Final = ("--package", "--from", "--spec")  # their options that name another package than the program
_CHANGE_NOTHING: Final = ("-y", "--yes", "-q", "--quiet", "--")
_WRAPPERS: Final = frozenset(
    "docker podman nerdctl sh bash zsh env sudo ssh uv npm pnpm yarn bun bunx deno poetry conda flatpak nix".split()
)
_INTERPRETER: Final = re.compile(r"python[0-9.]*|node")
_PACKAGE: Final = re.compile(r"(@?[^@=\s]+)(?:(?:@|==)([^@=\s]+))?")
_PROJECT_FILES: Final = ("package.json", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class FittedServer:
    """A client's server, and the flags with which Paddock would start it; None where it stays as it is.

    `problem` says why it has to, as the end of a sentence; `lacks` is what it names and is not granted.
    """

    server: ClientServer
    flags: ServerFlags | None = None
    lacks: tuple[str, ...] = ()
    problem: str = ""

    @property
    def notes(self) -> list[str]:
        """What a person may want to know who accepts it, a sentence each."""
        notes = [f"it goes without {one}" for one in self.lacks]
        if self.flags is not None and "read" in self.flags.permissions:
            notes.append("to let it write as well, write --allow-write in place of --allow-read")
            if "run" in self.flags.permissions:
                notes.append("for git to commit in a folder, it takes --allow-write of that and of the .git in it")
        return notes


def read_file(path: Path) -> bytes:
    """Return the content of a client's file; of one that is too large the beginning, with a byte too many.

    Raises:
        KindError: it cannot be read, or is no regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise not_changed(path, "it is not a regular file")
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise not_changed(path, f"it cannot be read: {reason_of(error)}") from error


async def fitted_servers(
    context: CommandContext,
    servers: Sequence[ClientServer],
    home: Path,
) -> list[FittedServer]:
    """Return what the servers are to Paddock, in their order; the index says the version of a package without one.

    `home` is the user's own folder, without links: what a file there names is the user's.
    """
    found = await context.side_by_side(servers, partial(_fitted, context, home))
    return [
        FittedServer(one, problem=f"is not to be had: {got.summary}") if isinstance(got, SourceFailedError) else got
        for one, got in found
    ]


def _fitted(context: CommandContext, home: Path, server: ClientServer) -> FittedServer:
    problem = server.problem
    if server.is_protected and not problem:
        program = shutil.which(server.command) or server.command
        if os.path.realpath(program) != os.path.realpath(this_program()):
            has_its_name = "which has the name of paddock and is another program than this one"
            problem = f"is started by `{server.command}`, {has_its_name}"
    if problem or server.is_protected:
        return FittedServer(server, problem=problem)
    try:
        flags = _started(server)
        uri = parse_source(flags.source)
        granted, lacks = _suggested(server, flags, is_git="git" in words_of(uri.short_name), home=home)
    except NotAcceptedError as error:
        return FittedServer(server, problem=error.problem)
    except SourceUriError as error:
        return FittedServer(server, problem=f"would be a source that is none: {error.summary}")
    except ValidationError:
        return FittedServer(server, problem="has a path or a variable that no grant can name")
    if uri.at_commit() != uri.text:  # it has no version
        uri = uri.at_ref(context.provider.supply(uri).pin(uri).commit) or uri
    return FittedServer(server, replace(flags, source=uri.text, permissions=granted), lacks)


def this_program() -> str:
    """Return the whole path of `paddock`; links on the way stay, since an upgrade changes where they lead."""
    own = os.path.abspath(sys.argv[0])
    return own if os.path.basename(own) == "paddock" else shutil.which("paddock") or "paddock"


# -- programs ------------------------------------------------------------------------------


def _started(server: ClientServer) -> ServerFlags:
    """Return the program of a server as a source, without a version if none is written, and its arguments.

    Raises:
        NotAcceptedError: it is started in a way that is not known.
    """
    name, words = Path(server.command).name, server.args
    for begin, kind in _LAUNCHERS.items():
        if (name, *words)[: len(begin)] == begin:
            return _of_package(server, kind, " ".join(begin), words[len(begin) - 1 :])
    if name in _WRAPPERS:
        raise NotAcceptedError(f"is started by `{name}`, which starts something else")
    command = server.command
    if "/" in command:
        command = os.path.abspath(server.folder / command)
    program = shutil.which(command)
    if program is None:
        raise NotAcceptedError(f"is started by `{server.command}`, and there is no such program")
    first = words[0] if words else "-"
    if _INTERPRETER.fullmatch(name) and first != "-m" and first.startswith("-"):
        raise NotAcceptedError(f"gives `{name}` an option that is not known here")
    return ServerFlags(f"mcp+command:{program}", server.folder, words)


def _of_package(
    server: ClientServer,
    kind: type[McpPackageUri],
    name: str,
    words: tuple[str, ...],
) -> ServerFlags:
    rest, named = [*words], ""
    while rest and rest[0].startswith("-"):
        option, _, value = rest.pop(0).partition("=")
        if option in _NAMING:
            named = value or (rest.pop(0) if rest else "")
        elif option not in _CHANGE_NOTHING:
            raise NotAcceptedError(f"gives `{name}` the option `{option}`, which is not known here")
    program = rest.pop(0) if rest else ""
    package = _PACKAGE.fullmatch(named or program)
    if package is None:
        raise NotAcceptedError(f"names no package of the index after `{name}`")
    if name.startswith("npm ") and rest[:1] == ["--"]:
        del rest[0]
    version = "" if package[2] in (None, "latest") else f"{kind.between}{package[2]}"
    config = {"bin": program} if named and program != package[1] else {}
    return ServerFlags(f"{kind.kind}:{package[1]}{version}", server.folder, tuple(rest), config=config)


# -- grants --------------------------------------------------------------------------------


def _suggested(
    server: ClientServer, flags: ServerFlags, *, is_git: bool, home: Path
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the grants that fit a server, in a plan's form, and what it names and is not granted."""
    paths = [*_paths(server, flags.arguments)]
    inside = paths
    if server.base != home:
        inside = [one for one in paths if _real(server, one).is_relative_to(server.base)]
    outside = (one for one in paths if one not in inside)
    lacks = tuple(f"{one}, which is outside of {server.base}" for one in outside)
    vendors = filter(None, map(vendor_of_key, server.env))
    places = filter(None, (one.destination for one in vendors))
    granted = Permissions(
        read=(*inside, *([EXCLUDED_SECRETS] if inside else [])),
        run=("git",) if is_git and look_up("git") else (),
        net=tuple(dict.fromkeys(one.text for one in places)),
        env=server.env,
    )
    return granted.model_dump(exclude_defaults=True), lacks


def _paths(server: ClientServer, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths that arguments name, as they are written; of an interpreter its environment and its program."""
    if _INTERPRETER.fullmatch(Path(server.command).name):
        environment = (server.folder / server.command).parent.parent
        if (environment / "pyvenv.cfg").is_file():
            yield str(environment)
        if words[0] != "-m":
            real = _real(server, words[0])
            projects = (one for one in real.parents if any((one / name).is_file() for name in _PROJECT_FILES))
            yield str(next(projects, real.parent))
        words = words[1:]
    for word in words:
        path = word.partition("=")[2] if word.startswith("-") else word
        if path and os.path.exists(_real(server, path)):
            yield path


def _real(server: ClientServer, path: str) -> Path:
    """Return where a path leads that is granted as it is written: from `~`, into the home of the user."""
    return Path(os.path.realpath(server.folder / os.path.expanduser(path)))
