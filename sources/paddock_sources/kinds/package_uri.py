"""The kind `package`: a distribution of an index at a version, or one that is installed here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Self

from paddock_sources.errors import SourceError, unavailable
from paddock_sources.kinds.source_uri import Form, LockFields, SourceUri, TableForm
from paddock_sources.kinds.written_table import WrittenTable

_PACKAGE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.!+_-]{0,126}[A-Za-z0-9])?")
_NAME_IN_TABLE: Final = re.compile(r"[A-Za-z0-9._-]+")
_SEPARATORS: Final = re.compile(r"[-_.]+")


def package_key(name: str) -> str:
    """Return the canonical spelling of a distribution's name on an index."""
    return _SEPARATORS.sub("-", name).lower()


def _text_of_table(table: WrittenTable) -> str:
    name, version = table.needed("name"), table.value("version")
    if not _NAME_IN_TABLE.fullmatch(name):
        raise table.refused("its `name` names no package")
    return f"{name}=={version}" if version else name


@dataclass(frozen=True, slots=True)
class PackageUri(SourceUri):
    """A distribution: with a version that one of an index, without the one that is installed."""

    kind: ClassVar[str] = "package"
    form: ClassVar[str] = "a package name"
    table: ClassVar[TableForm | None] = TableForm(
        "package", ("name", "version"), "`{type: package, name, version}`", _text_of_table
    )
    lock_fields: ClassVar[LockFields] = LockFields({})

    name: str
    version: str = ""

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        name, equals, version = text.partition("==")
        if _PACKAGE.fullmatch(name) and (_VERSION.fullmatch(version) or not equals):
            return cls(text, name, version)
        return None

    def key(self, folder: Path) -> str:
        return package_key(self.name) + (f"=={self.version}" if self.version else "")

    @property
    def short_name(self) -> str:
        return self.name

    @property
    def requested(self) -> tuple[str, str]:
        return self.version, ""

    @property
    def bare_id(self) -> str:
        return "" if self.version else self.name

    @property
    def ruled_by(self) -> tuple[Form, str]:
        return "name", package_key(self.name)

    def looseness(self, commit: str) -> tuple[str, str] | None:
        if self.version:
            return None
        hint = "name its version (`name==1.0`), use a repository at a commit, or a folder"
        return "names no exact content", hint

    def pin_word(self, requested_kind: str) -> str:
        return "version" if self.version else "installed"

    def not_here(self) -> SourceError:
        hints = [f"a folder is written `./{self.text}`", "unpack the package and name its folder"]
        return unavailable(self.text, "an installed package", hints=hints)

    def at_any_version(self) -> SourceUri | None:
        return type(self)(self.name, self.name)
