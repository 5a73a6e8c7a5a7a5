"""The address of a repository as git gets it, and the hosts that git may reach for it.

It is stricter than the grammar of sources, which must parse every address that a rule may refuse. An accepted address
has one spelling, the one that policies judged: no user except ssh's, nothing encoded that decodes to more than a name,
no query.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, cast
from urllib.parse import quote, unquote, urlsplit

from paddock_sources.errors import SourceUriError
from paddock_sources.kinds.address import is_loopback
from paddock_sources.kinds.git_uri import DEFAULT_PORTS, GitUri, Mirrored, repository

Scheme = Literal["https", "ssh", "file", "http"]

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_SAFE = "!$&'()*+,;=:@~"  # characters that RFC 3986 allows unencoded in a path, besides those that `quote` keeps
_PLAINLY = "write the address plainly: scheme, host and path, with nothing encoded and no `..`"


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository that may be fetched from; `url` is passed to git, and `folder` is that of a `file` address.

    `mirrored` is set for a mirror.
    """

    url: str
    scheme: Scheme
    host: str = ""
    port: int = 0
    folder: Path | None = None
    mirrored: Mirrored | None = None

    @classmethod
    def of(cls, uri: GitUri) -> Self:
        """Return where a source is fetched from.

        Raises:
            SourceUriError: its address holds credentials, can be read in two ways, or is one that nothing protects.
        """
        parts = urlsplit(uri.url)
        scheme = cast(Scheme, parts.scheme)
        if "?" in uri.text.partition("#")[0]:
            raise SourceUriError(uri.text, "a git address has no query")
        path = "/" + "/".join(_plain(uri, component) for component in parts.path.split("/") if component)
        if scheme == "file":
            folder = Path(os.path.realpath(path)) if uri.place is None else uri.place.path
            return cls(
                "file://" + quote(os.fsencode(folder), safe="/" + _SAFE), scheme, folder=folder, mirrored=uri.mirrored
            )
        user = _user(uri, scheme, parts.netloc.rpartition("@")[0])
        host, port = (parts.hostname or "").rstrip("."), parts.port or DEFAULT_PORTS[scheme]
        if scheme == "http" and not is_loopback(host):
            raise SourceUriError(uri.text, "`http` is for this machine only", hints=["write `git+https://…`"])
        shown = f"[{host}]" if ":" in host else host
        suffix = "" if port == DEFAULT_PORTS[scheme] else f":{port}"
        return cls(
            f"{scheme}://{user}{shown}{suffix}{quote(path, safe='/' + _SAFE)}",
            scheme,
            shown,
            port,
            mirrored=uri.mirrored,
        )

    @classmethod
    def of_text(cls, address: str) -> Self:
        """Return where the repository at an address is fetched from.

        Raises:
            SourceUriError: it is no repository's, or one that git never gets.
        """
        return cls.of(repository(address))

    @property
    def is_outside(self) -> bool:
        """Whether git has to run with all that the user may touch: ssh needs the user's keys."""
        return self.scheme == "ssh"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that git has to connect to."""
        return (f"{self.host}:{self.port}",) if self.host else ()

    @property
    def shown(self) -> str:
        """The repository, in a form fit for people."""
        place = str(self.folder) if self.folder is not None else self.url
        return f"{place}, the mirror of {self.mirrored.public}" if self.mirrored else place


def _plain(uri: GitUri, component: str) -> str:
    try:
        plain = unquote(component, errors="strict")
    except UnicodeDecodeError:
        plain = ""
    if plain in ("", ".", "..") or not plain.isprintable() or any(char in "/\\%?#" for char in plain):
        raise SourceUriError(uri.text, f"`{component}` in its path can be read in two ways", hints=[_PLAINLY])
    return plain


def _user(uri: GitUri, scheme: Scheme, written: str) -> str:
    if not written:
        return ""
    if scheme != "ssh" or ":" in written:
        hints = [
            "take them out of the address: who may read a plan or a lock file could read them there",
            "git's own helpers are asked for them when the server wants some: `git help credentials`",
        ]
        raise SourceUriError(uri.text, "credentials do not belong in an address", hints=hints)
    if not _USER.fullmatch(written):
        raise SourceUriError(uri.text, "what stands before its host is no user", hints=[_PLAINLY])
    return f"{written}@"
