"""The text of a lock file, read strictly and written in one way only.

Any deviation from the form is an error with its line. Only text that can be read again is written. The order is stable,
and each thing that can change by itself has its own line, so that a difference is easy to read.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

from paddock_sources.bounded_toml import TomlError, read_toml
from paddock_sources.errors import SourceUriError
from paddock_sources.kinds.mcp_uri import McpUri
from paddock_sources.kinds.npm_name import NPM_NAME, is_npm_path
from paddock_sources.kinds.package_uri import package_key
from paddock_sources.lock.locked_module import LockedDependency, LockedModule, LockedServer
from paddock_sources.uri import SourceUri, parse_source

VERSION: Final = 1
_WITH_SERVERS: Final = 2  # of a file that pins what servers of MCP say of themselves

_HEADER: Final = (
    "# Which code each source stands for. Written by `paddock`; keep it with your plan, and leave the editing to\n"
    "# `paddock add`, `lock`, `update` and `remove`.\n"
)
_MAX_MODULES: Final = 1000
_MAX_DEPENDENCIES: Final = 2000  # of one module
_MAX_HASHES: Final = 2000  # of one distribution: a file for each platform and Python
_MAX_TEXT: Final = 4200  # characters: a source, and the additions of its normal form
_MAX_TOOLS: Final = 512  # of one server
_MAX_NAME: Final = 200  # characters of a tool's name, and of a server's with its version

_Check = Callable[[str], bool]

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TREE: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")
_RELEASE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.!+_-]{0,126}[A-Za-z0-9])?")

_MODULE_TEXTS: Final[Mapping[str, _Check]] = {
    "source": bool,
    "requested_ref": lambda text: not text.startswith("-"),
    "requested_kind": lambda text: text in ("branch", "tag", "commit", "default"),
    "commit": lambda text: bool(_COMMIT.fullmatch(text) or _RELEASE.fullmatch(text)),
    "tree": lambda text: _TREE.fullmatch(text) is not None,
    "subdirectory": lambda text: not text.startswith("/") and posixpath.normpath(text) == text and text[:2] != "..",
    "permissions_digest": lambda text: _TREE.fullmatch(text) is not None,
}
_DEPENDENCY_TEXTS: Final[Mapping[str, _Check]] = {
    "name": lambda text: bool(_NAME.fullmatch(text) or NPM_NAME.fullmatch(text)),
    "version": lambda text: _RELEASE.fullmatch(text) is not None,
    "source": lambda text: text.startswith("git+"),
    "commit": lambda text: _COMMIT.fullmatch(text) is not None,
    "tree": lambda text: _TREE.fullmatch(text) is not None,
    "path": is_npm_path,
}
_SERVER_TEXTS: Final[Mapping[str, _Check]] = {
    "protocol": lambda text: re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None,
    "server": lambda text: len(text) <= _MAX_NAME,
    "instructions": lambda text: _TREE.fullmatch(text) is not None,
}
_MODULE_KEYS: Final = (*_MODULE_TEXTS, "committed_at", "hashes", "dependency")
_BUNDLE_KEYS: Final = ("source", "requested_ref", "requested_kind", "commit", "committed_at", "tree")
_DEPENDENCY_KEYS: Final = (*_DEPENDENCY_TEXTS, "hashes")

_TABLE: Final = re.compile(r"\s*\[\[\s*(module|bundle)\s*(\.\s*dependency\s*)?\]\]")
_OF_SERVER: Final = re.compile(r"\s*\[\s*module\s*\.\s*mcp\s*(\.\s*definitions\s*)?\]")
_KEY: Final = re.compile(r"\s*[\"']?(\w+)[\"']?\s*=", re.ASCII)


class LockTextError(ValueError):
    """Raised for an invalid lock file: `problem` on `line`, if the line is known."""

    def __init__(self, problem: str, line: int | None = None, *hints: str) -> None:
        self.problem = problem
        self.line = line
        self.hints = hints
        super().__init__(problem)


# -- reading -------------------------------------------------------------------------------


class LockRows(NamedTuple):
    """What a lock file pins: sources of modules, and repositories of bundles."""

    modules: tuple[LockedModule, ...] = ()
    bundles: tuple[LockedModule, ...] = ()


def parse_lock(text: str) -> LockRows:
    """Return the rows of a lock file, in the order of their keys.

    Raises:
        LockTextError: the text is invalid, or of another version.
    """
    try:
        table = read_toml(text)
    except TomlError as error:
        raise LockTextError(f"it is {error.problem}", error.line, *_CONFLICT) from error
    lines = _Lines(text)
    version = table.pop("version", None)
    if version not in (VERSION, _WITH_SERVERS) or isinstance(version, bool):
        raise _other_version(version, lines.of("version"))
    modules, bundles = table.pop("module", []), table.pop("bundle", [])
    if table:
        key = min(table)
        raise LockTextError(f"unknown key `{key[:80]}`", lines.of(key))
    keys = _MODULE_KEYS if version == VERSION else (*_MODULE_KEYS, "mcp")
    return LockRows(
        tuple(_rows(modules, "module", keys, lines)),
        tuple(_rows(bundles, "bundle", _BUNDLE_KEYS, lines)),
    )


def _rows(
    tables: object,
    what: str,
    keys: Sequence[str],
    lines: _Lines,
) -> list[LockedModule]:
    found: dict[str, LockedModule] = {}
    for index, written in enumerate(_tables(tables, what, _MAX_MODULES, lambda: lines.of(what))):
        reading = _Reading(written, lambda *place, index=index: lines.of(what, index, *place))
        reading.check_keys(keys)
        row = reading.module() if what == "module" else reading.bundle()
        if row.source in found:
            place = lines.of(what, index, "source")
            raise LockTextError(f"`{row.source}` is locked twice", place, "keep one of the two")
        found[row.source] = row
    return [found[source] for source in sorted(found)]


_CONFLICT: Final = ("if a merge left it so, remove the file and run `paddock lock`, which writes it anew",)


def _other_version(version: object, line: int | None) -> LockTextError:
    if isinstance(version, int) and not isinstance(version, bool) and version > _WITH_SERVERS:
        return LockTextError(
            f"it is of version {version}, and this Paddock knows versions up to {_WITH_SERVERS}",
            line,
            "a newer Paddock wrote it: use that one, or remove the file and lock anew with `paddock lock`",
        )
    return LockTextError(f"it does not begin with `version = {VERSION}`", line, *_CONFLICT)


def _tables(
    written: object,
    what: str,
    most: int,
    line_of: Callable[[], int | None],
) -> Sequence[Mapping[str, Any]]:
    if not isinstance(written, list) or not all(isinstance(one, dict) for one in written):
        raise LockTextError(f"`{what}` is not a list of tables, `[[{what}]]`", line_of())
    if len(written) > most:
        raise LockTextError(f"it has more than {most} of `{what}`", line_of())
    return written


class _Reading:
    """One table, of a module or a dependency; `line_of` finds the lines of its parts."""

    def __init__(self, written: Mapping[str, Any], line_of: Callable[..., int | None]) -> None:
        self._written = written
        self._line_of = line_of

    def module(self) -> LockedModule:
        texts = {key: self._text(key, check) for key, check in _MODULE_TEXTS.items()}
        module = LockedModule(
            **texts,
            hashes=self._hashes(),
            committed_at=self._moment("committed_at"),
            dependencies=tuple(self._dependencies()),
            mcp=self._server(),
        )
        uri = self._uri(module.source)
        expected, hint = uri.lock_spelling()
        if module.source != expected:  # nothing would find it
            raise self._error("`source` is spelled in another way than Paddock does", "source", hint)
        ref, inside = uri.requested
        if (module.requested_ref, module.subdirectory) != (ref, inside):
            key = "requested_ref" if module.requested_ref != ref else "subdirectory"
            raise self._error(f"`{key}` is not what `source` says", key)
        fields = uri.lock_fields
        if not all(check(getattr(module, name)) for name, check in fields.checks.items()):
            raise self._error(fields.problem, fields.at)
        if module.mcp is not None and not isinstance(uri, McpUri):
            raise self._error("only the source of an MCP server has `mcp`", "mcp")
        return module

    def bundle(self) -> LockedModule:
        row = self.module()
        if self._uri(row.source).kind != "git" or row.subdirectory:
            raise self._error("a bundle is pinned with the whole repository that it is in", "source")
        return row

    def dependency(self) -> LockedDependency:
        self.check_keys(_DEPENDENCY_KEYS)
        texts = {key: self._text(key, check) for key, check in _DEPENDENCY_TEXTS.items()}
        found = LockedDependency(**texts, hashes=self._hashes())
        if not (found.name and found.version):
            raise self._error("a dependency has a `name` and a `version`")
        if found.path:
            is_sha512 = len(found.hashes) == 1 and found.hashes[0].startswith("sha512:")
            if not is_sha512 or found.source or found.commit or found.tree:
                raise self._error("a package of npm has a `path` and one sha512 in its `hashes`")
        elif not _NAME.fullmatch(found.name):
            raise self._error("`name` is not what a lock file has there", "name")
        elif found.source:
            uri = self._uri(found.source)
            if uri.kind != "git" or not (found.commit and found.tree) or found.hashes:
                raise self._error("a dependency from git has a `source`, a `commit` and a `tree`, and no hashes")
        elif found.commit or found.tree or not found.hashes:
            raise self._error("a dependency from an index has hashes, and neither `commit` nor `tree`")
        return found

    def _dependencies(self) -> Iterator[LockedDependency]:
        written = self._written.get("dependency", [])
        names: set[str] = set()
        where = partial(self._line_of, "dependency")
        for index, table in enumerate(_tables(written, "module.dependency", _MAX_DEPENDENCIES, where)):
            reading = _Reading(table, lambda *place, index=index: self._line_of(index, *place))
            found = reading.dependency()
            name = found.path or package_key(found.name)
            if name in names:
                raise reading._error(f"dependency `{found.name}` stands twice", "name")
            names.add(name)
            yield found

    def _server(self) -> LockedServer | None:
        table = self._written.get("mcp")
        if table is None:
            return None
        if not isinstance(table, dict):
            raise self._error("`mcp` is not a table, `[module.mcp]`", "mcp")
        return _Reading(table, partial(self._line_of, "mcp")).server()

    def server(self) -> LockedServer:
        self.check_keys((*_SERVER_TEXTS, "definitions"))
        texts = {key: self._text(key, check) for key, check in _SERVER_TEXTS.items()}
        found = LockedServer(
            **texts,
            definitions=self._definitions(),
        )
        if not (found.protocol and found.server):
            raise self._error("a server has a `protocol` and a `server`, its name and version")
        return found

    def _definitions(self) -> Mapping[str, str]:
        found = self._written.get("definitions", {})
        if not isinstance(found, dict) or len(found) > _MAX_TOOLS:
            raise self._error(f"`definitions` is not a table of {_MAX_TOOLS} tools at most", "definitions")
        for name, digest in found.items():
            if (
                not 0 < len(name) <= _MAX_NAME
                or not name.isprintable()
                or not isinstance(digest, str)
                or not _TREE.fullmatch(digest)
            ):
                raise self._error('`definitions` has something that is not `tool = "sha256:…"`', "definitions")
        return dict(sorted(found.items()))

    def check_keys(self, known: Iterable[str]) -> None:
        """Refuse a key that the table may not have."""
        for key in self._written:
            if key not in known:
                raise self._error(f"unknown key `{key[:80]}`", key)

    def _text(self, key: str, check: _Check) -> str:
        value = self._written.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._error(f"`{key}` is not text", key)
        if not value or len(value) > _MAX_TEXT or not value.isprintable() or not check(value):
            raise self._error(f"`{key}` is not what a lock file has there", key)
        return value

    def _hashes(self) -> tuple[str, ...]:
        value = self._written.get("hashes", [])
        if not isinstance(value, list) or len(value) > _MAX_HASHES:
            raise self._error("`hashes` is not a list of them", "hashes")
        for one in value:
            if not isinstance(one, str) or not _HASH.fullmatch(one):
                raise self._error("`hashes` has something that is not `sha256:…`", "hashes")
        if len(set(value)) != len(value):
            raise self._error("`hashes` has one twice", "hashes")
        return tuple(sorted(value))

    def _moment(self, key: str) -> datetime | None:
        value = self._written.get(key)
        if value is None:
            return None
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise self._error(f"`{key}` is no moment, as in 2026-01-31T12:00:00Z", key)
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise self._error(f"`{key}` is no moment that there was", key) from error

    def _uri(self, source: str) -> SourceUri:
        try:
            return parse_source(source)
        except SourceUriError as error:
            raise self._error(f"`source` is not a module source: {error.problem}", "source") from error

    def _error(self, problem: str, key: str = "", *hints: str) -> LockTextError:
        return LockTextError(problem, self._line_of(key) if key else self._line_of(), *hints)


class _Lines:
    """The line of each part of a lock file; a part in another form than ours gets the line of the part around it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, *place: str | int) -> int | None:
        """Return the line of a place, or of the innermost thing around it that was found."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._found:
                return self._found[place[:end]]
        return None

    @cached_property
    def _found(self) -> Mapping[tuple[str | int, ...], int]:
        found: dict[tuple[str | int, ...], int] = {}
        place: tuple[str | int, ...] = ()
        for number, line in enumerate(self._text.split("\n"), start=1):
            table, server, key = _TABLE.match(line), _OF_SERVER.match(line), _KEY.match(line)
            if table is not None:
                place = self._next(place, table[1], is_dependency=table[2] is not None)
                found[place] = number
            elif server is not None:
                place = (*place[:2], "mcp")
                if server[1]:
                    place = (*place, "definitions")
                found[place] = number
            elif key is not None:
                found.setdefault((*place, key[1]), number)
        return found

    @staticmethod
    def _next(place: tuple[str | int, ...], what: str, *, is_dependency: bool) -> tuple[str | int, ...]:
        row = int(place[1]) if place[:1] == (what,) else -1
        if not is_dependency:
            return (what, row + 1)
        before = place[2] if len(place) > 2 else None
        return (what, row, before + 1 if isinstance(before, int) else 0)


# -- writing -------------------------------------------------------------------------------


def lock_text(modules: Iterable[LockedModule], bundles: Iterable[LockedModule] = ()) -> str:
    """Return the text of these modules, and of the repositories of bundles.

    Raises:
        LockTextError: a value has no place in a lock file.
    """
    rows = LockRows(*(tuple(map(_ordered, sorted(some, key=lambda one: one.source))) for some in (modules, bundles)))
    tables = (("bundle", rows.bundles), ("module", rows.modules))
    version = VERSION if all(one.mcp is None for one in rows.modules) else _WITH_SERVERS
    blocks = [f"{_HEADER}version = {version}\n", *(_block(row, what) for what, some in tables for row in some)]
    text = "\n".join(blocks)
    if parse_lock(text) != rows:
        raise LockTextError("what is to be locked cannot be written")
    return text


def _ordered(module: LockedModule) -> LockedModule:
    dependencies = sorted(module.dependencies, key=lambda one: (package_key(one.name), one.path))
    moment = module.committed_at
    try:
        ref, inside = parse_source(module.source).requested
    except SourceUriError as error:
        raise LockTextError(f"`{module.source}` is not a module source: {error.problem}") from error
    return replace(
        module,
        requested_ref=ref,
        subdirectory=inside,
        hashes=tuple(sorted(module.hashes)),
        dependencies=tuple(replace(one, hashes=tuple(sorted(one.hashes))) for one in dependencies),
        committed_at=moment.astimezone(UTC).replace(microsecond=0) if moment is not None else None,
    )


def _block(module: LockedModule, what: str) -> str:
    lines = [f"[[{what}]]", *_texts(module, ("source", "requested_ref", "requested_kind", "commit"))]
    if module.committed_at is not None:
        lines.append(f"committed_at = {module.committed_at.replace(tzinfo=None).isoformat()}Z")
    lines += _texts(module, ("tree", "subdirectory", "permissions_digest"))
    lines += _list("hashes", module.hashes)
    if module.mcp is not None:
        lines += _server(module.mcp)
    for dependency in module.dependencies:
        lines += ["", "[[module.dependency]]", *_texts(dependency, _DEPENDENCY_TEXTS)]
        lines += _list("hashes", dependency.hashes)
    return "\n".join(lines) + "\n"


def _server(server: LockedServer) -> list[str]:
    return [
        "",
        "[module.mcp]",
        *_texts(server, _SERVER_TEXTS),
        "",
        "[module.mcp.definitions]",
        *(f"{_quoted(name)} = {_quoted(digest)}" for name, digest in sorted(server.definitions.items())),
    ]


def _texts(
    value: LockedModule | LockedDependency | LockedServer,
    keys: Iterable[str],
) -> list[str]:
    return [f"{key} = {_quoted(getattr(value, key))}" for key in keys if getattr(value, key)]


def _list(key: str, values: Sequence[str]) -> list[str]:
    return [f"{key} = [", *(f"    {_quoted(value)}," for value in values), "]"] if values else []


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
