"""The one name of a source that rules use, for every way a plan may spell it.

A repository's name is its host and path: no user, no ref, no `.git`, no default port. A folder's name is its real
place, and so is that of a repository on this machine (`without_git` says where `.git` is part of it). A spelling that a
server could read as another path than Paddock does is no name at all, and is refused wherever a rule asks for one.
"""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, Self
from urllib.parse import unquote, urlsplit

from paddock.plan.host_name import host_text, parse_host
from paddock.plan.problems import NotAcceptedError
from paddock_sources import SourceUriError, parse_source

Family = Literal["git", "folder", "builtin", "package", "mcp+pypi", "mcp+npm", "mcp+command"]

DEFAULT_PORTS: Final = {"https": 443, "http": 80, "ssh": 22, "git": 9418}

_CREDENTIALS: Final = re.compile(r"//[^/]*@")
_PLAINLY: Final = "write the address plainly: scheme, host and path, with nothing encoded and no `..`"


@dataclass(frozen=True, slots=True)
class SourceName:
    """A source as rules name it, `family` being its kind.

    `host` is empty except for what has an address, `port` None where it is the scheme's own. `pins` say which version
    of the code it is, as far as that is known: `commit:<digits>`, and the digest of its files.
    """

    family: str
    path: str
    scheme: str = ""
    host: str = ""
    port: int | None = None
    pins: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, source: str) -> Self:
        """Return the name of a source that was chosen; one on this machine is held to its real place (`held`).

        Raises:
            NotAcceptedError: it is no source, it could be read in two ways, or a link is in its place by now.
        """
        if source.startswith("/"):  # also unprintable text: a folder may have any name
            return cls("folder", _still_real(source))
        try:
            uri = parse_source(source)
        except SourceUriError as error:
            raise NotAcceptedError(
                f"`{without_credentials(source)}` is not a module source: {error.problem}"
            ) from error
        match uri.ruled_by:
            case "address", url:
                return cls._at_address(uri.kind, url)
            case "folder", path:
                return cls(uri.kind, _still_real(path))
            case _, name:
                return cls(uri.kind, name)

    @classmethod
    def _at_address(cls, family: str, url: str) -> Self:
        scheme, host, port, path = split_repository(url)
        components = [plain_component(component) for component in path.split("/") if component]
        if scheme == "file":
            components = _still_real("/" + "/".join(components)).strip("/").split("/")
        components = without_git(components, is_here=scheme == "file")
        if not components:
            raise NotAcceptedError(f"`{without_credentials(url)}` names no repository", _PLAINLY)
        if scheme == "file":
            return cls(family, "/" + "/".join(components), scheme)
        return cls(family, "/".join(components), scheme, host_text(parse_host(host)), port)

    @property
    def text(self) -> str:
        """Return the name as rules are written: `git+https://github.com/org/repo`, `/home/x/module`, `builtin:x`."""
        if self.scheme == "file":
            return f"{self.family}+file://{self.path}"
        if self.scheme:
            return f"{self.family}+{self.scheme}://{self.host}{f':{self.port}' if self.port else ''}/{self.path}"
        return self.path if self.family in ("folder", "package") else f"{self.family}:{self.path}"

    @property
    def folded_path(self) -> str:
        """Return the one spelling of all that a server or a file system may take for the same path."""
        is_here = self.family == "folder" or self.scheme == "file"
        return "/".join(without_git(folded(self.path).split("/"), is_here=is_here))


def without_credentials(source: str) -> str:
    """Return a source for display: without a user and anything that may be a password."""
    return _CREDENTIALS.sub("//", source, count=1)


def split_repository(url: str) -> tuple[str, str, int | None, str]:
    """Return scheme, host, port if it is not the scheme's own, and path of a repository's address.

    Raises:
        NotAcceptedError: it could be read in two ways.
    """
    shown = without_credentials(url)
    if "\\" in url or not url.isprintable() or any(char.isspace() for char in url):
        raise NotAcceptedError(f"`{shown}` has a backslash or a space in it", _PLAINLY)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise NotAcceptedError(f"`{shown}` is not an address: {error}", _PLAINLY) from error
    if port == 0:
        raise NotAcceptedError(f"`{shown}` names port 0, at which no server listens", _PLAINLY)
    if parts.netloc.count("@") > 1:
        raise NotAcceptedError(f"`{shown}` has more than one `@` before its path", _PLAINLY)
    if parts.scheme == "file":
        if host not in ("", "localhost"):
            raise NotAcceptedError(f"`{shown}` is a file of another machine", _PLAINLY)
        host, port = "", None
    elif not host:
        raise NotAcceptedError(f"`{shown}` names no host", _PLAINLY)
    return parts.scheme, host, None if port == DEFAULT_PORTS.get(parts.scheme) else port, parts.path


def plain_component(component: str) -> str:
    """Return a part of a path with nothing encoded.

    Raises:
        NotAcceptedError: servers and clients read it differently.
    """
    plain = unquote(component)
    if plain in (".", "..") or any(char in "/\\%?#\0" or not char.isprintable() for char in plain):
        raise NotAcceptedError(f"`{component}` in a path can be read in two ways", _PLAINLY)
    return plain


def without_git(components: list[str], *, is_here: bool) -> list[str]:
    """Return a repository's path without each `.git` that does not tell it from another repository.

    At a host, `x`, `x.git` and `x/.git` are one: a server that is asked for the one adds or drops the rest by itself.
    On this machine, `x` and `x.git` are two folders, and there may be another repository in each. `x/.git` is the
    repository of `x`: git reads that where it is given `x`.
    """
    if is_here:
        return components[:-1] if components[-1:] == [".git"] else components
    while components and components[-1].endswith(".git"):
        last = components[-1].removesuffix(".git")
        components = [*components[:-1], last] if last else components[:-1]
    return components


def _still_real(path: str) -> str:
    """Return a path that led through no link when its source was chosen, and does not now.

    Raises:
        NotAcceptedError: it does now. What was fetched from there is not what rules about the link's target are for.
    """
    plain = "/" + os.path.normpath(path).lstrip("/")
    if os.path.realpath(path) != plain:
        raise NotAcceptedError(f"`{path}` leads elsewhere through a link", "write where it leads, or start again")
    return plain


@lru_cache(maxsize=1024)
def folded(text: str) -> str:
    """Return the one spelling of all that a server or a file system may take for the same text."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
