"""What may stand after `source:`, parsed into a value per family.

Parsing touches no file and no network. It accepts `builtin:<id>`, folders (`/abs`, `./rel`, `../rel`, `file:///abs`),
git addresses and package names; the last two are values that a resolver may refuse. All other text raises
`SourceUriError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from .errors import ModuleIdError, SourceUriError
from .module_id import checked_module_id

_MAX_LENGTH = 4096  # PATH_MAX: nothing longer can name a folder
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_ACCEPTED = (
    "a source is `builtin:<id>`, a folder (`/abs`, `./rel`, `../rel`, `file:///abs`), "
    "`git+https://…@ref` or a package name"
)


@dataclass(frozen=True, slots=True)
class SourceUri:
    """A parsed source; `text` is what was written."""

    text: str

    @staticmethod
    def parse(text: object) -> SourceUri:
        """Return the value of its family that `text` stands for.

        Raises:
            SourceUriError: the text belongs to no family, or is malformed in its own.
        """
        if not isinstance(text, str):
            raise SourceUriError(text, f"it is {type(text).__name__}, not text", hints=[_ACCEPTED])
        if len(text) > _MAX_LENGTH:
            raise SourceUriError(text[:80] + "…", f"it is longer than {_MAX_LENGTH} characters")
        if not text.strip():
            raise SourceUriError(text, "it is empty", hints=[_ACCEPTED])
        if text != text.strip() or not text.isprintable():
            raise SourceUriError(text, "it has surrounding space or an unprintable character")
        if text.startswith("builtin:"):
            return _parse_builtin(text)
        if text.startswith("file:"):
            return _parse_file_url(text)
        if text in (".", "..") or text.startswith(("/", "./", "../")):
            return FolderUri(text, Path(text))
        if text.startswith("git+"):
            return _parse_git(text)
        if text.startswith(("zip+", "http://", "https://")):
            raise SourceUriError(text, "archives are not available in this version", hints=[_ACCEPTED])
        if text.startswith("~"):
            raise SourceUriError(text, "`~` is not expanded", hints=["write the whole path, from `/`"])
        if _PACKAGE.fullmatch(text):
            return PackageUri(text, text)
        hints = [f"a folder beside the plan is written `./{text}`"] if "/" in text and ":" not in text else []
        raise SourceUriError(text, "it is of no known form", hints=[*hints, _ACCEPTED])

    def anchored(self, base: Path) -> SourceUri:
        """Return the same source with a relative folder made absolute below `base`."""
        return self


@dataclass(frozen=True, slots=True)
class BuiltinUri(SourceUri):
    """A reference module that ships with the distribution."""

    module_id: str


@dataclass(frozen=True, slots=True)
class FolderUri(SourceUri):
    """A folder of this machine, and optionally one inside it."""

    path: Path
    subdirectory: str = ""

    def anchored(self, base: Path) -> SourceUri:
        if self.path.is_absolute():
            return self
        # resolve(), not joining: the text is what policies match on, so `./a` and `./b/../a` must read the same.
        path = (base / self.path).resolve()
        return FolderUri(str(path), path, self.subdirectory)

    @property
    def folder(self) -> Path:
        """The folder meant, with `subdirectory` applied."""
        return self.path / self.subdirectory if self.subdirectory else self.path


@dataclass(frozen=True, slots=True)
class GitUri(SourceUri):
    """A git repository, a ref in it (empty: its default branch) and a folder inside."""

    url: str
    ref: str = ""
    subdirectory: str = ""


@dataclass(frozen=True, slots=True)
class PackageUri(SourceUri):
    """An installed distribution, by name."""

    name: str


def _parse_builtin(text: str) -> BuiltinUri:
    try:
        return BuiltinUri(text, checked_module_id(text.removeprefix("builtin:")))
    except ModuleIdError as error:
        raise SourceUriError(text, f"what follows `builtin:` is no module id: {error.problem}") from error


def _parse_file_url(text: str) -> FolderUri:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise SourceUriError(text, str(error)) from error
    if parts.netloc not in ("", "localhost") or not text.startswith("file://") or not parts.path.startswith("/"):
        raise SourceUriError(
            text, "a file address names an absolute path of this machine", hints=["write `file:///abs`"]
        )
    if parts.query:
        raise SourceUriError(text, "a file address has no query", hints=["write `%3F` for a `?` in a folder's name"])
    path = unquote(parts.path, errors="surrogateescape")
    if "\0" in path:
        raise SourceUriError(text, "a path cannot hold a NUL character")
    return FolderUri(text, Path(path), _subdirectory(text, parts.fragment))


def _parse_git(text: str) -> GitUri:
    try:
        parts = urlsplit(text.removeprefix("git+"))
    except ValueError as error:
        raise SourceUriError(text, str(error)) from error
    if parts.scheme not in ("https", "http", "ssh", "git", "file") or not (parts.netloc or parts.scheme == "file"):
        raise SourceUriError(text, "a git source is `git+https://host/path@ref`")
    # The ref follows the last `@` of the path; one in the host part introduces a user name.
    path, _, ref = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
    if not path.strip("/"):
        raise SourceUriError(text, "a git source names a repository after the host")
    return GitUri(text, f"{parts.scheme}://{parts.netloc}{path}", ref, _subdirectory(text, parts.fragment))


def _subdirectory(text: str, fragment: str) -> str:
    if not fragment:
        return ""
    name, _, value = fragment.partition("=")
    folder = PurePosixPath(unquote(value))
    if name != "subdirectory" or not value:
        raise SourceUriError(text, "only `#subdirectory=<folder>` may follow")
    if folder.is_absolute() or ".." in folder.parts or "\0" in str(folder):
        raise SourceUriError(text, "the subdirectory must lie inside the source")
    return str(folder)
