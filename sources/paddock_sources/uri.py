"""The value of `source:` in a plan, parsed into one class per family.

Parsing touches no file and no network; only `anchored` and `held` look at folders. It accepts `builtin:<id>`, folders
(`/abs`, `./rel`, `../rel`, `file:///abs`), git addresses (`git+https://…@ref#subdirectory=…`, also `git+ssh`,
`git+file`, and `git+http` to this machine), packages (`name`, `name==version`), and the equivalent tables
(`{type: git, url, ref, subdirectory}`). All else raises `SourceUriError`. A parsed value is one that rules
can match; `git.remote` decides whether git may get its address.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, quote, unquote, urlsplit

from paddock_sources.errors import ModuleIdError, SourceUriError
from paddock_sources.module_id import checked_module_id
from paddock_sources.ref_name import problem_of_ref
from paddock_sources.tree import HeldFolder
from paddock_sources.uri_mapping import text_of_mapping

_MAX_LENGTH = 4096  # PATH_MAX: nothing longer can name a folder
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.!+_-]{0,126}[A-Za-z0-9])?")
_NUMBERS = re.compile(r"[0-9a-fx.]+", re.IGNORECASE)  # `127.1`, `0x7f000001`: addresses to some resolvers
_TWO_WAYS = re.compile(r"[/\\%?#\0]")  # in a part of a path: some read it as another path
_PLAIN = "+,=:~"  # besides letters, digits and `-._`; a shell gives none of them a meaning
_SCHEMES = ("https", "ssh", "file", "http")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
_LIKE_SSH = re.compile(r"(?:[^\s/@:]+(?::[^\s/@]*)?@)?(?P<host>[A-Za-z0-9.-]+\.[A-Za-z0-9-]+):(?P<path>[^\s:]+)")
_ACCEPTED = (
    "a source is `builtin:<id>`, a folder (`/abs`, `./rel`, `../rel`, `file:///abs`), "
    "`git+https://…@ref` or a package name"
)


@dataclass(frozen=True, slots=True)
class SourceUri:
    """A parsed source; `text` is the original text."""

    text: str

    @staticmethod
    def parse(text: object) -> SourceUri:
        """Parse `text` into the value of its family. A table is first turned into text, which the value then has.

        Raises:
            SourceUriError: the text belongs to no family, or is malformed in its own.
        """
        if isinstance(text, Mapping):
            text = text_of_mapping(text)
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
        if text.startswith(("zip+", "http://", "https://", "ssh://", "git://")):
            hints = [f"a git repository is written `git+{text}`"] if text.startswith(("https:", "ssh:")) else []
            raise SourceUriError(text, "archives are not available in this version", hints=[*hints, _ACCEPTED])
        if text.startswith("~"):
            raise SourceUriError(text, "`~` is not expanded", hints=["write the whole path, from `/`"])
        if like_ssh := _LIKE_SSH.fullmatch(text):
            address = f"git+ssh://git@{like_ssh['host']}/{like_ssh['path']}"
            raise SourceUriError(
                f"{like_ssh['host']}:…", "it is of no known form", hints=[f"write `{address}`", _ACCEPTED]
            )
        name, equals, version = text.partition("==")
        if _PACKAGE.fullmatch(name) and (_VERSION.fullmatch(version) or not equals):
            return PackageUri(text, name, version)
        if re.search(r"[=<>!~]=|[<>]", text):
            raise SourceUriError(text, "a version is pinned exactly", hints=["write `name==1.2.3`, or the name alone"])
        hints = [f"a folder beside the plan is written `./{text}`"] if "/" in text and ":" not in text else []
        raise SourceUriError(text, "it is of no known form", hints=[*hints, _ACCEPTED])

    def anchored(self, base: Path) -> SourceUri:
        """Return the same source with a relative folder made absolute below `base`."""
        return self

    def held(self) -> SourceUri:
        """Return the same source, bound to the folder of this machine that it leads to now, if it leads to one.

        Rules judge that folder, and code is read from it alone, even if links lead elsewhere by then.
        """
        return self


@dataclass(frozen=True, slots=True)
class BuiltinUri(SourceUri):
    """A reference module that ships with the distribution."""

    module_id: str


@dataclass(frozen=True, slots=True)
class FolderUri(SourceUri):
    """A folder of this machine, and optionally one inside it; `place` is set once it is `held`."""

    path: Path
    subdirectory: str = ""
    place: HeldFolder | None = field(default=None, compare=False)

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


@dataclass(frozen=True, slots=True)
class GitUri(SourceUri):
    """A git repository, a ref in it (empty: its default branch) and a folder inside.

    `place` is set once a repository of this machine is `held`.
    """

    url: str
    ref: str = ""
    subdirectory: str = ""
    place: HeldFolder | None = field(default=None, compare=False)

    def held(self) -> GitUri:
        parts = urlsplit(self.url)
        components = [unquote(component) for component in parts.path.split("/") if component]
        if parts.scheme != "file" or any(one in (".", "..") or _TWO_WAYS.search(one) for one in components):
            return self  # at a host; or an address that git never gets
        path = "/" + "/".join(components)
        place = HeldFolder.of(Path(path))
        if str(place.path) == path:
            return replace(self, place=place)
        url = file_url(place.path)
        return GitUri(git_text(url, self.ref, self.subdirectory), url, self.ref, self.subdirectory, place)

    @property
    def is_inside(self) -> bool:
        """Whether only the machine's owner may ask this host; an undecided case counts as inside."""
        parts = urlsplit(self.url)
        host = (parts.hostname or "").rstrip(".").lower()
        if parts.scheme in ("file", "http") or not host or host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return not ipaddress.ip_address(host).is_global
        except ValueError:
            return bool(_NUMBERS.fullmatch(host)) or "." not in host


@dataclass(frozen=True, slots=True)
class PackageUri(SourceUri):
    """A distribution: with a version that one of an index, without the one that is installed."""

    name: str
    version: str = ""


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


def file_url(folder: Path) -> str:
    """Return the address of a folder of this machine."""
    return f"file://{quote(os.fsencode(folder), safe='/' + _PLAIN)}"


def git_text(url: str, ref: str, subdirectory: str) -> str:
    """Return the text of a git source."""
    at = f"@{encoded(ref, '/')}" if ref else ""
    inside = f"#subdirectory={encoded(subdirectory, '/')}" if subdirectory else ""
    return f"git+{url}{at}{inside}"


def encoded(text: str, kept: str = "") -> str:
    """Return a part of an address in its encoded form; the characters in `kept` stay as they are."""
    return quote(text, safe=_PLAIN + kept)


def _parse_git(text: str) -> GitUri:
    try:
        parts = urlsplit(text.removeprefix("git+"))
        port = parts.port
    except ValueError as error:
        raise SourceUriError(
            text, str(error), hints=["after the host comes a `/`: `git+ssh://git@host/org/repo`"]
        ) from error
    if parts.scheme not in _SCHEMES or not text.removeprefix("git+")[len(parts.scheme) :].startswith("://"):
        hints = ["`git://` has neither encryption nor proof of who answers"] if parts.scheme == "git" else []
        raise SourceUriError(text, "a git source is `git+https://host/path@ref`", hints=hints)
    _check_authority(text, parts, port)
    # The ref follows the last `@` of the path; one in the host part introduces a user name.
    path, at, ref = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
    if "@" in path:
        hints = ["an `@` that is part of a name is written `%40`"]
        raise SourceUriError(text, "it has more than one `@` after the host", hints=hints)
    if not path.strip("/"):
        raise SourceUriError(text, "a git source names a repository after the host")
    if at:
        ref = _decoded(text, ref)
        if problem := problem_of_ref(ref):
            raise SourceUriError(text, f"what follows the `@` is no branch, tag or commit: {problem}")
    return GitUri(text, f"{parts.scheme}://{parts.netloc}{path}", ref, _subdirectory(text, parts.fragment))


def _check_authority(text: str, parts: SplitResult, port: int | None) -> None:
    if "\\" in text:
        raise SourceUriError(text, "it has a backslash, which some take for a slash")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise SourceUriError(text, "it is a folder of another machine", hints=["write `git+file:///abs`"])
        return
    user, at, host = parts.netloc.rpartition("@")
    if port == 0:
        raise SourceUriError(text, "no server listens at port 0")
    if not _HOST.fullmatch(host):
        raise SourceUriError(text, "it names no host, or one with a character that no host's name has")
    if "@" in user or user.startswith("-") or (at and not user):
        raise SourceUriError(text, "what stands before its host is no user")


def _decoded(text: str, encoded: str) -> str:
    """Return the decoded part of an address, which may have been encoded once."""
    try:
        return unquote(encoded, errors="strict")
    except UnicodeDecodeError as error:
        raise SourceUriError(text, "what it has encoded with `%` is no text") from error


def _subdirectory(text: str, fragment: str) -> str:
    if not fragment:
        return ""
    name, _, value = fragment.partition("=")
    if name != "subdirectory" or not value or "&" in value:
        raise SourceUriError(text, "only `#subdirectory=<folder>` may follow")
    decoded = _decoded(text, value)
    folder = PurePosixPath(decoded)
    if folder.is_absolute() or ".." in folder.parts or "\\" in decoded:
        raise SourceUriError(text, "the subdirectory must lie inside the source")
    if not decoded.isprintable():
        raise SourceUriError(text, "the subdirectory has an unprintable character")
    return str(folder) if folder.parts else ""
