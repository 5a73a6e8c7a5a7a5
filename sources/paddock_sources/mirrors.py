"""The user's mirrors: from where repositories are fetched in place of their public addresses.

A mirror stands for every repository below a prefix of addresses; of two prefixes the longer one counts. Only fetching
knows of it: names, keys of lock files and messages keep the public address.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from paddock_sources.errors import SourceUriError
from paddock_sources.kinds.address import file_url
from paddock_sources.kinds.git_uri import GitUri, Mirrored, git_text, repository
from paddock_sources.kinds.source_uri import SourceUri

_PREFIX: Final = "a prefix is the beginning of addresses, and ends at a slash: `https://github.com/`"
_TARGET: Final = "a mirror is the beginning of addresses, or a folder: `https://git.example.org/mirror/`, `/srv/git/`"


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The beginnings of mirrors' addresses by those of public ones; each ends at a slash."""

    by_prefix: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def prefix(self, uri: GitUri) -> str:
        """Return the public prefix that counts for a repository; empty for none. Raises as `of` does."""
        return max(filter(uri.plain_url.startswith, self.by_prefix), key=len, default="") if self.by_prefix else ""

    def notes(self, uris: Iterable[SourceUri]) -> tuple[str, ...]:
        """Return from which mirrors sources are fetched, in words."""
        found = {self.prefix(uri): None for uri in uris if isinstance(uri, GitUri)}
        return tuple(
            f"what is at {prefix} is fetched from the mirror {self.by_prefix[prefix]}, by your sources.toml"
            for prefix in filter(None, found)
        )

    def of(self, uri: GitUri) -> GitUri | None:
        """Return the mirror of a repository, held as it is now; None without one.

        Raises:
            SourceUriError: the public address could be read in two ways.
        """
        prefix = self.prefix(uri)
        if not prefix:
            return None
        public = uri.plain_url
        mirror, rest = self.by_prefix[prefix], public.removeprefix(prefix)
        url = mirror + rest
        if mirror.startswith("/"):
            folder = mirror + unquote(rest)
            url = file_url(Path(next(filter(os.path.isdir, (folder, f"{folder}.git")), folder)))
        held = repository(git_text(url, uri.ref, uri.subdirectory)).held()
        return replace(held, mirrored=Mirrored(public, mirror + rest))


def prefix_of(written: str) -> str:
    """Return the beginning of addresses as it is compared with them.

    Raises:
        SourceUriError: it is none, or does not end at a slash.
    """
    if not written.endswith("/"):
        raise SourceUriError(
            written, "it does not end at a slash, so it would stand for other names as well", hints=[_PREFIX]
        )
    try:
        return repository(f"git+{written}x").plain_url.removesuffix("x")
    except SourceUriError as error:
        raise SourceUriError(written, error.problem, hints=[_PREFIX]) from error


def target_of(written: str) -> str:
    """Return the beginning of a mirror's addresses, or its folder, with a slash at the end.

    Raises:
        SourceUriError: it is neither, or holds credentials.
    """
    written = f"{written.rstrip('/')}/"
    if written.startswith("/"):
        return written
    try:
        uri = repository(f"git+{written}x")
    except SourceUriError as error:
        raise SourceUriError(written, error.problem, hints=[_TARGET]) from error
    from paddock_sources.git.remote import Remote  # checks more than most commands need

    Remote.of(uri)
    return written
