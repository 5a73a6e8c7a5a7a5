"""The kinds of MCP servers: what they have in common, and the kinds of those in packages, `mcp+pypi` and `mcp+npm`.

The code of the module is `tool-mcp`, a reference module; the source is that of the server which it starts.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Self

from paddock_sources.errors import SourceUriError
from paddock_sources.kinds.npm_name import NPM_NAME, NPM_VERSION
from paddock_sources.kinds.package_uri import package_key
from paddock_sources.kinds.source_uri import ANY_COMMIT, Form, LockFields, SourceUri

MCP_MODULE: Final = "tool-mcp"
"""The reference module that starts the servers."""

_PREFIXES: Final = ("mcp-server-", "server-", "mcp-")  # of packages' names; none tells one server from another
_NOT_IN_ID: Final = re.compile(r"[^a-z0-9._-]+")
_LONGEST: Final = 100  # characters of a server's name in an id


@dataclass(frozen=True, slots=True)
class McpUri(SourceUri):
    """A server of MCP. Its `kind` is also what its text begins with, before a colon."""

    is_base: ClassVar[bool] = True
    kind: ClassVar[str]
    form: ClassVar[str]
    lock_fields: ClassVar[LockFields]
    is_apart: ClassVar[bool] = True

    @property
    @abstractmethod
    def server_name(self) -> str:
        """The name of the package or the program."""

    @property
    def short_name(self) -> str:
        """The id of the module, where no entry of a plan gives it one: `tool-mcp-time`."""
        name = self.server_name.rpartition("/")[2].lower()
        told = next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)
        return f"{MCP_MODULE}-{_NOT_IN_ID.sub('-', told or name)[:_LONGEST]}"


@dataclass(frozen=True, slots=True)
class McpPackageUri(McpUri):
    """A server in a package of an index; without a version, the newest of the day on which it is locked.

    Attributes:
        between: what stands between name and version.
        accepted: the two, as groups `name` and `version`, of which the latter may be missing.
    """

    is_base: ClassVar[bool] = True
    kind: ClassVar[str]
    form: ClassVar[str]
    lock_fields: ClassVar[LockFields]
    between: ClassVar[str]
    accepted: ClassVar[re.Pattern[str]]
    has_commits: ClassVar[bool] = True  # its versions

    name: str
    version: str = ""

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        kind, colon, package = text.partition(":")
        if not colon or kind != cls.kind:
            return None
        written = cls.accepted.fullmatch(package)
        if written is None:
            problem = f"what follows `{kind}:` is no package, nor one at an exact version"
            raise SourceUriError(text, problem, hints=[f"write {cls.form}, or leave the version out"])
        return cls(text, written["name"], written["version"] or "")

    @property
    def canonical_name(self) -> str:
        """The one spelling of the package's name."""
        return self.name

    @property
    def server_name(self) -> str:
        return self.canonical_name

    def key(self, folder: Path) -> str:
        return self._at(self.version)

    @property
    def requested(self) -> tuple[str, str]:
        return self.version, ""

    @property
    def ruled_by(self) -> tuple[Form, str]:
        return "name", self.canonical_name

    def looseness(self, commit: str) -> tuple[str, str] | None:
        if self.version or commit:
            return None
        return "names no version", f"name one, as in {self.form}"

    def pin_word(self, requested_kind: str) -> str:
        return "version"

    def at_any_version(self) -> SourceUri | None:
        return replace(self, text=self._at(""), version="")

    def at_ref(self, ref: str) -> SourceUri | None:
        return self.of_text(self._at(ref))

    def at_commit(self, commit: str = ANY_COMMIT) -> str:
        return self.text if self.version else self._at(commit)

    def _at(self, version: str) -> str:
        return f"{self.kind}:{self.canonical_name}" + (f"{self.between}{version}" if version else "")


@dataclass(frozen=True, slots=True)
class McpPypiUri(McpPackageUri):
    """A server in a package of the index of Python packages."""

    kind: ClassVar[str] = "mcp+pypi"
    form: ClassVar[str] = "`mcp+pypi:NAME==VERSION`"
    lock_fields: ClassVar[LockFields] = LockFields(
        {"commit": bool, "hashes": bool, "dependencies": bool}, "a server's package is pinned by version and hashes"
    )
    between: ClassVar[str] = "=="
    accepted: ClassVar[re.Pattern[str]] = re.compile(
        r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?)"
        r"(?:==(?P<version>[A-Za-z0-9](?:[A-Za-z0-9.!+_-]{0,126}[A-Za-z0-9])?))?"
    )

    @property
    def canonical_name(self) -> str:
        return package_key(self.name)


@dataclass(frozen=True, slots=True)
class McpNpmUri(McpPackageUri):
    """A server in a package of npm's registry."""

    kind: ClassVar[str] = "mcp+npm"
    form: ClassVar[str] = "`mcp+npm:[@SCOPE/]NAME@VERSION`"
    lock_fields: ClassVar[LockFields] = LockFields(
        {"commit": bool, "tree": bool, "dependencies": lambda rows: rows and all(one.path for one in rows)},
        "a server's package is pinned by version, `tree`, and packages of npm, each with a `path`",
    )
    between: ClassVar[str] = "@"
    accepted: ClassVar[re.Pattern[str]] = re.compile(
        rf"(?P<name>{NPM_NAME.pattern})(?:@(?P<version>{NPM_VERSION.pattern}))?"
    )
