"""The kind `git`: a repository at a ref.

A parsed address is one that rules can match; `git.remote` decides whether git may get it.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from paddock_sources.errors import SourceError, SourceUriError, unavailable
from paddock_sources.kinds.address import decoded, encoded, file_url, subdirectory
from paddock_sources.kinds.source_uri import ANY_COMMIT, Form, LockFields, SourceUri, TableForm
from paddock_sources.kinds.written_table import WrittenTable
from paddock_sources.ref_name import is_commit, problem_of_ref
from paddock_sources.tree import HeldFolder

_NUMBERS: Final = re.compile(r"[0-9a-fx.]+", re.IGNORECASE)  # `127.1`, `0x7f000001`: addresses to some resolvers
_TWO_WAYS: Final = re.compile(r"[/\\%?#\0]")  # in a part of a path: some read it as another path
_SCHEMES: Final = ("https", "ssh", "file", "http")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
DEFAULT_PORTS: Final = {"https": 443, "http": 80, "ssh": 22}


def _text_of_table(table: WrittenTable) -> str:
    url = table.needed("url").removeprefix("git+")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise table.refused(f"its `url` is malformed: {error}") from error
    if "://" not in url:
        raise table.refused(
            "its `url` has no scheme", "write `https://host/path`, `ssh://git@host/path` or `file:///abs`"
        )
    if "?" in url or "#" in url:
        raise table.refused("its `url` has a query or a fragment", "a folder inside is named by `subdirectory`")
    if "@" in parts.path.rpartition("/")[2]:
        raise table.refused("its `url` ends with an `@…`", "a branch, tag or commit is named by `ref`")
    address = url.removesuffix(parts.path) + parts.path.replace("@", "%40")
    ref, folder = table.value("ref"), table.value("subdirectory")
    if ref and (problem := problem_of_ref(ref)):
        raise table.refused(f"its `ref` is none that git would accept: {problem}")
    at = f"@{quote(ref)}" if ref else ""
    return f"git+{address}{at}" + (f"#subdirectory={quote(folder)}" if folder else "")


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The public address that a mirror stands for, and the mirror's own, as the user's settings lead to it."""

    public: str
    address: str


@dataclass(frozen=True, slots=True)
class GitUri(SourceUri):
    """A git repository, a ref in it (empty: its default branch) and a folder inside.

    `place` is set once a repository of this machine is `held`, and `mirrored` for a mirror.
    """

    kind: ClassVar[str] = "git"
    form: ClassVar[str] = "`git+https://…@ref`"
    table: ClassVar[TableForm | None] = TableForm(
        "git", ("url", "ref", "subdirectory"), "`{type: git, url, ref, subdirectory}`", _text_of_table
    )
    lock_fields: ClassVar[LockFields] = LockFields(
        {"commit": is_commit, "tree": bool},
        "a repository is pinned by a `commit` of 40 or 64 hexadecimal digits, and a `tree`",
    )
    has_commits: ClassVar[bool] = True
    one_of_several: ClassVar[str] = " or, if it is in a folder of its own, `#subdirectory=FOLDER`"

    url: str
    ref: str = ""
    subdirectory: str = ""
    place: HeldFolder | None = field(default=None, compare=False)
    mirrored: Mirrored | None = field(default=None, compare=False)

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        if not text.startswith("git+"):
            return None
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
            ref = decoded(text, ref)
            if problem := problem_of_ref(ref):
                raise SourceUriError(text, f"what follows the `@` is no branch, tag or commit: {problem}")
        return cls(text, f"{parts.scheme}://{parts.netloc}{path}", ref, subdirectory(text, parts.fragment))

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

    @property
    def server(self) -> str:
        """The host and port as written, without a user."""
        return urlsplit(self.url).netloc.rpartition("@")[2].lower()

    def key(self, folder: Path) -> str:
        inside = posixpath.normpath(self.subdirectory) if self.subdirectory else ""
        return git_text(self.plain_url, self.ref, inside)

    @property
    def plain_url(self) -> str:
        """The repository's address as it is compared with others: in one spelling, and without credentials.

        Raises:
            SourceUriError: it could be read in two ways.
        """
        try:
            parts = urlsplit(self.url)
            host, port = (parts.hostname or "").rstrip("."), parts.port
        except ValueError as error:
            raise SourceUriError(self.text, str(error)) from error
        components = [component for component in parts.path.split("/") if component]
        if any(unquote(component) in (".", "..") or "/" in unquote(component) for component in components):
            raise SourceUriError(self.text, "its path has a part that could be read in two ways")
        components = [unquote(component) for component in components]
        if parts.scheme == "file":
            # `x.git` is another folder than `x`; only the one in a repository is the repository.
            components = components[:-1] if components[-1:] == [".git"] else components
            return "file:///" + "/".join(map(encoded, components))
        if components and (last := components[-1].removesuffix(".git")):
            components[-1] = last
        path = "/".join(map(encoded, components))
        # With ssh the user is a part of the address (`git@`), elsewhere it may well be a token.
        user = f"{encoded(unquote(parts.username))}@" if parts.scheme == "ssh" and parts.username else ""
        shown_host = f"[{host}]" if ":" in host else host
        shown_port = "" if port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
        return f"{parts.scheme}://{user}{shown_host}{shown_port}/{path}"

    @property
    def short_name(self) -> str:
        return PurePosixPath(self.subdirectory or unquote(self.url)).name.removesuffix(".git")

    @property
    def requested(self) -> tuple[str, str]:
        return self.ref, self.subdirectory

    @property
    def ruled_by(self) -> tuple[Form, str]:
        return "address", self.url

    def looseness(self, commit: str) -> tuple[str, str] | None:
        if is_commit(commit or self.ref):
            return None
        said = f"is at `{self.ref}`, which may be something else tomorrow" if self.ref else "names no commit"
        hint = "lock it, with `paddock lock`, or name the whole commit: `@` and its 40 digits"
        return said, hint

    def pin_word(self, requested_kind: str) -> str:
        return requested_kind or ("commit" if is_commit(self.ref) else "ref" if self.ref else "default")

    def written(self, key: str, module_id: str) -> str | None:
        parts = urlsplit(self.url)
        has_credentials = "@" in parts.netloc and not self.url.startswith("ssh:")
        has_password = ":" in parts.netloc.rpartition("@")[0]
        return key if has_credentials or has_password else self.text

    def at_any_version(self) -> SourceUri | None:
        inside = f"#subdirectory={self.subdirectory}" if self.subdirectory else ""
        return replace(self, text=f"git+{self.url}{inside}", ref="")  # kept homes go by this text, so it stays as it is

    def at_ref(self, ref: str) -> SourceUri | None:
        return GitUri.of_text(git_text(self.url, ref, self.subdirectory))

    def at_commit(self, commit: str = ANY_COMMIT) -> str:
        return git_text(self.url, commit, self.subdirectory)

    def not_here(self) -> SourceError:
        hints = ["clone the repository and name the folder: `source: /path/to/clone`"]
        return unavailable(self.text, "a git repository", hints=hints)


def repository(address: str) -> GitUri:
    """Return the repository at an address that has to be one.

    Raises:
        SourceUriError: it is none, or malformed.
    """
    uri = GitUri.of_text(address)
    if uri is None:
        raise SourceUriError(address, "what has a commit is a repository")
    return uri


def git_text(url: str, ref: str, inside: str) -> str:
    """Return the text of a git source."""
    at = f"@{encoded(ref, '/')}" if ref else ""
    fragment = f"#subdirectory={encoded(inside, '/')}" if inside else ""
    return f"git+{url}{at}{fragment}"


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
