"""The MCP servers in a client's own file: read as untrusted text, and written with others in their place.

Nothing is opened here. The text may be JSON, JSON with comments, or TOML; a text with comments is never written, since
JSON has no place for them. Values of `env` are kept where they are and returned nowhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, Field, ValidationError

from paddock.errors import KindError
from paddock.plan.formats.document import KeyTwiceError, table_of
from paddock.plan.problems import StrictModel
from paddock_sources.bounded_toml import read_toml

MAX_BYTES: Final = 8 << 20  # one client keeps its whole history in the same file
_MAX_SERVERS: Final = 200

Keys = tuple[str, ...]

# Where the servers are, by client; `*` is any key. One file has the servers of one client.
_TABLES: Final[tuple[Keys, ...]] = (
    ("mcpServers", "*"),  # Claude, Cursor and most others
    ("projects", "*", "mcpServers", "*"),  # Claude Code's own file, by the folder of a project
    ("servers", "*"),  # VS Code: `.vscode/mcp.json`
    ("context_servers", "*"),  # Zed
    ("mcp_servers", "*"),  # Codex
)
_CLIENTS_FOLDERS: Final = (".vscode", ".cursor", ".codex", ".zed", ".config/zed", ".config/Claude")

# Its client sets these for all that it starts, so for Paddock outside of the sandbox as well.
_ACTS_ON_PADDOCK: Final = re.compile(
    r"PATH|HOME|TMPDIR|TE?MP|PYTHON.*|(LD|GCONV|GLIBC|MALLOC|OPENSSL|SSL|PADDOCK|XDG|GIT|UV|PIP|NPM_CONFIG)_.*"
    r"|(HTTPS?|ALL|NO)_PROXY|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|RESOLV_HOST_CONF|LOCPATH|NLSPATH|TZDIR",
    re.IGNORECASE,
)
_FILLED_IN: Final = re.compile(r"\$\{[^}]*\}")
# Of a text in quotes nothing is a comment; what has no end lasts until the end of the text, or of the line.
_COMMENT: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_LAST_COMMA: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|,(?=\s*+[}\]])')
_INDENT: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class _Entry(StrictModel):
    """What is read of a server's table; clients have further keys for themselves."""

    model_config = ConfigDict(extra="ignore")

    command: str = Field(default="", max_length=4096)
    args: list[str] = Field(default_factory=list, max_length=1000)
    env: dict[str, str] = Field(default_factory=dict, max_length=200)
    cwd: str = Field(default="", max_length=4096)


@dataclass(frozen=True, slots=True)
class ClientServer:
    """A server as its client starts it; `problem` says why it cannot be taken over, as the end of a sentence.

    `keys` lead to its table in the file. `base` is the folder that the file is for, `folder` the one where the server
    works. `env` are the names of the variables that it is given.
    """

    keys: Keys
    base: Path
    folder: Path
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    problem: str = ""

    @property
    def name(self) -> str:
        """Its name in the file."""
        return self.keys[-1]

    @property
    def is_protected(self) -> bool:
        """Whether a program of Paddock's name starts it already."""
        return Path(self.command).name == "paddock" and self.args[:2] == ("mcp", "run")


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The text of a client's file, its content and its servers; `has_comments` where the text is not to be written."""

    text: str
    content: Mapping[str, Any]
    servers: tuple[ClientServer, ...]
    is_toml: bool
    has_comments: bool = False

    @classmethod
    def read(cls, written: bytes, path: Path) -> ClientFile:
        """Return what a client's file says; `path` is absolute, and gives its format and its servers' folder.

        Raises:
            KindError: it is no text of that format, too large, or has no table of servers.
        """
        is_toml = path.suffix.lower() == ".toml"
        if len(written) > MAX_BYTES:
            raise _not_understood(path, f"is larger than {MAX_BYTES >> 20} MiB")
        try:
            text = written.decode("utf-8-sig")
            content, has_comments = (read_toml(text), False) if is_toml else _json(text)
        except (KeyTwiceError, ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise _not_understood(path, f"cannot be read: {reason}") from error
        base = folder_of(path)
        entries = (entry for pattern in _TABLES for entry in _entries(content, pattern))
        found = [_server(keys, table, base) for keys, table in entries]
        if not found:
            known = ", ".join(f"`{'.'.join(keys[:-1])}`" for keys in _TABLES)
            raise _not_understood(path, f"names no MCP server: it has none of {known}")
        if len(found) > _MAX_SERVERS:
            raise _not_understood(path, f"names more than {_MAX_SERVERS} servers")
        return cls(text, content, tuple(found), is_toml, has_comments)

    def with_commands(self, commands: Mapping[Keys, Mapping[str, Any]]) -> str:
        """Return the text in which servers are started as these tables say, and everything else is as it was.

        Raises:
            ValueError: it cannot be written so.
        """
        content = _with(deepcopy(dict(self.content)), commands)
        if self.is_toml:
            import tomlkit  # most clients have JSON

            written = tomlkit.dumps(_with(tomlkit.parse(self.text), commands))
            if read_toml(written) != content:
                raise ValueError("its tables are written in an unusual way")
            return written
        indent = _INDENT.search(self.text)
        text = json.dumps(
            content,
            indent=indent and indent[1],
            ensure_ascii=self.text.isascii(),
        )
        if self.text.endswith("\n"):
            text += "\n"
        return text.replace("\n", "\r\n") if "\r\n" in self.text else text


def folder_of(path: Path) -> Path:
    """Return the folder that a client's file is for, without links: of a project, or the home of the user.

    It is the file's own, without the one that a client keeps there for itself.
    """
    folder = os.path.realpath(path.parent)
    own = next((f"/{one}" for one in _CLIENTS_FOLDERS if folder.endswith(f"/{one}")), "")
    return Path(folder.removesuffix(own) or "/")


def not_changed(path: Path, problem: str, *hints: str) -> KindError:
    """Return the error for a client's file that is not written, or cannot be."""
    return KindError("ClientFileError", f"`{path}` was left as it is: {problem}", hints=hints)


def _not_understood(path: Path, problem: str) -> KindError:
    return not_changed(path, f"it {problem}", "name the file in which a client has its MCP servers, such as .mcp.json")


def _json(text: str) -> tuple[Any, bool]:
    """Return the value of JSON, and whether it has comments or last commas."""
    try:
        return json.loads(text, object_pairs_hook=table_of), False
    except json.JSONDecodeError:
        plain = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
        return json.loads(plain, object_pairs_hook=table_of), True


def _blank(found: re.Match[str]) -> str:
    """Return a text in quotes as it is, and spaces for anything else, so that lines keep their numbers."""
    text = found[0]
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _entries(table: Any, pattern: Keys, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yield what is in a table at each place of a pattern, with the keys that lead to it."""
    if len(keys) == len(pattern):
        yield keys, table
    elif isinstance(table, dict):
        for key, value in table.items():
            if pattern[len(keys)] in ("*", key):
                yield from _entries(value, pattern, (*keys, key))


def _server(keys: Keys, table: Any, base: Path) -> ClientServer:
    folder = base / keys[1] if keys[0] == "projects" else base
    server = ClientServer(keys, base, folder)
    if not isinstance(table, dict):
        return replace(server, problem="is no table")
    if table.get("type", "stdio") != "stdio" or any(map(table.get, ("url", "serverUrl", "httpUrl"))):
        return replace(server, problem="is remote, and Paddock starts programs of this machine")
    try:
        entry = _Entry.model_validate(table)
    except ValidationError as error:  # which quotes the values
        return replace(server, problem=f"has a `{error.errors()[0]['loc'][0]}` that is not understood")
    words = [entry.command, entry.cwd, *entry.args]
    command, cwd, *args = (one.replace("${workspaceFolder}", str(folder)) for one in words)
    server = replace(
        server,
        folder=Path(os.path.realpath(folder / cwd)),
        command=command,
        args=tuple(args),
        env=tuple(entry.env),
    )
    return replace(server, problem=_problem(server, [command, cwd, *args], table))


def _problem(server: ClientServer, words: list[str], table: Mapping[str, Any]) -> str:
    """Return why a server cannot be taken over, as the end of a sentence; empty if it can."""
    if not server.command:
        return "has no `command`"
    if not all(map(str.isprintable, [server.name, *words, *server.env])):
        return "has an unprintable character"
    filled_in = next(filter(None, map(_FILLED_IN.search, words)), None)
    if filled_in is not None:
        return f"has `{filled_in[0]}`, which its client fills in: write its value, so that it can be accepted"
    if table.get("envFile"):
        return "has an `envFile`: write its variables into `env`, where they can be seen"
    acting = next(filter(_ACTS_ON_PADDOCK.fullmatch, server.env), None)
    if acting is not None:
        return f"sets `{acting}`, which would act on Paddock itself, outside of the sandbox: take it out of `env`"
    return ""


def _with(content: Any, commands: Mapping[Keys, Mapping[str, Any]]) -> Any:
    for keys, command in commands.items():
        table = content
        for key in keys:
            table = table[key]
        table.update(command)
    return content
