"""The kind `folder`: a folder of this machine."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, field
from operator import not_
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import unquote, urlsplit

from paddock_sources.errors import SourceUriError
from paddock_sources.kinds.address import file_url, subdirectory
from paddock_sources.kinds.source_uri import Form, LockFields, SourceUri, TableForm
from paddock_sources.kinds.written_table import WrittenTable
from paddock_sources.tree import HeldFolder


def _text_of_table(table: WrittenTable) -> str:
    path, folder = table.needed("path"), table.value("subdirectory")
    if folder and (folder.startswith("/") or ".." in folder.split("/")):
        raise table.refused("the subdirectory must lie inside the source")
    if path.startswith(("~", "file:")):
        raise table.refused("its `path` is not plain", "write the whole path, from `/`")
    if not path.startswith(("/", "./", "../")) and path not in (".", ".."):
        path = f"./{path}"
    return posixpath.join(path, folder) if folder else path


@dataclass(frozen=True, slots=True)
class FolderUri(SourceUri):
    """A folder of this machine, and optionally one inside it; `place` is set once it is `held`."""

    kind: ClassVar[str] = "folder"
    form: ClassVar[str] = "a folder (`/abs`, `./rel`, `../rel`, `file:///abs`)"
    table: ClassVar[TableForm | None] = TableForm(
        "file", ("path", "subdirectory"), "`{type: file, path}`", _text_of_table
    )
    lock_fields: ClassVar[LockFields] = LockFields(
        {"commit": not_, "tree": bool}, "a folder is pinned by its `tree` alone"
    )

    path: Path
    subdirectory: str = ""
    place: HeldFolder | None = field(default=None, compare=False)

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        if text.startswith("file:"):
            return cls._of_address(text)
        if text in (".", "..") or text.startswith(("/", "./", "../")):
            return cls(text, Path(text))
        return None

    @classmethod
    def _of_address(cls, text: str) -> Self:
        try:
            parts = urlsplit(text)
        except ValueError as error:
            raise SourceUriError(text, str(error)) from error
        if parts.netloc not in ("", "localhost") or not text.startswith("file://") or not parts.path.startswith("/"):
            raise SourceUriError(
                text, "a file address names an absolute path of this machine", hints=["write `file:///abs`"]
            )
        if parts.query:
            hints = ["write `%3F` for a `?` in a folder's name"]
            raise SourceUriError(text, "a file address has no query", hints=hints)
        path = unquote(parts.path, errors="surrogateescape")
        if "\0" in path:
            raise SourceUriError(text, "a path cannot hold a NUL character")
        return cls(text, Path(path), subdirectory(text, parts.fragment))

    def anchored(self, base: Path) -> SourceUri:
        if self.path.is_absolute():
            return self
        # resolve(), not joining: the text is what policies match on, so `./a` and `./b/../a` must read the same.
        try:
            path = (base / self.path).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
            reason = (
                error.strerror.lower() if isinstance(error, OSError) and error.strerror else "its links form a loop"
            )
            raise SourceUriError(self.text, reason) from error
        return FolderUri(str(path), path, self.subdirectory)

    def held(self) -> FolderUri:
        place = HeldFolder.of(self.folder)
        return FolderUri(str(place.path), place.path, place=place)

    @property
    def folder(self) -> Path:
        """The folder, with `subdirectory` applied."""
        return self.path / self.subdirectory if self.subdirectory else self.path

    def key(self, folder: Path) -> str:
        base = Path(os.path.realpath(folder))
        meant = Path(os.path.realpath(base / self.folder))
        text = str(meant)
        if meant.is_relative_to(base):
            inside = str(meant.relative_to(base))
            text = inside if inside == "." else f"./{inside}"
        if text.isprintable() and text == text.strip():
            return text
        return file_url(meant)

    def lock_spelling(self) -> tuple[str, str]:
        return _spelled(self.text), "write `./` and the folder's place below this one, or its whole path"

    @property
    def short_name(self) -> str:
        return Path(os.path.realpath(self.folder)).name

    @property
    def ruled_by(self) -> tuple[Form, str]:
        return "folder", str(self.folder)

    def looseness(self, commit: str) -> tuple[str, str] | None:
        return None

    def pin_word(self, requested_kind: str) -> str:
        return "folder"

    def written(self, key: str, module_id: str) -> str | None:
        return key


def _spelled(source: str) -> str:
    """Return how a folder is spelled, without looking for it; one that is not below the file's own is absolute."""
    if source.startswith("file:"):
        return source if source.startswith("file:///") else f"file:///{source.removeprefix('file:').lstrip('/')}"
    plain = posixpath.normpath(source)
    if source.startswith("/"):
        return f"/{plain.lstrip('/')}"
    return plain if plain == "." else f"./{plain.removeprefix('../')}"
