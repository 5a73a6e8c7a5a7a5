"""Where the links of a tree lead: never out of it, whatever other links are on the way."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

from paddock_sources.cache.errors import UnsafeTreeError

_MAX_FOLLOWED: Final = 40  # as many as Linux follows
_MAX_TARGET_BYTES: Final = 1024


def check_target(path: str, target: str) -> None:
    """Check what can be told of a link by itself.

    Raises:
        UnsafeTreeError: it leads to a place that has nothing to do with the tree.
    """
    if not target or target.startswith("/"):
        raise UnsafeTreeError(path, "it is a link that leads out of the tree")
    if any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F or 0xD800 <= ord(char) <= 0xDFFF for char in target):
        raise UnsafeTreeError(path, "it is a link to a name that no file should have")
    if len(target.encode()) > _MAX_TARGET_BYTES:
        raise UnsafeTreeError(path, f"it is a link to a path longer than {_MAX_TARGET_BYTES} bytes")


def check_links(links: Mapping[str, str]) -> None:
    """Check where links lead, given all there are in the tree, each with its target.

    One that leads to nothing is let through, as long as even its name stays inside: nothing can be put there later.

    Raises:
        UnsafeTreeError: one leads out, or nowhere for ever.
    """
    for path, target in links.items():
        _follow(path, target, links)


def _follow(path: str, target: str, links: Mapping[str, str]) -> None:
    at = posixpath.dirname(path)
    pending = target.split("/")[::-1]
    followed = 1
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not at:
                raise UnsafeTreeError(path, "it is a link that leads out of the tree")
            at = posixpath.dirname(at)
            continue
        at = f"{at}/{name}" if at else name
        if at in links:
            followed += 1
            if followed > _MAX_FOLLOWED:
                raise UnsafeTreeError(path, "it is a link that leads nowhere, over other links")
            pending += links[at].split("/")[::-1]
            at = posixpath.dirname(at)
