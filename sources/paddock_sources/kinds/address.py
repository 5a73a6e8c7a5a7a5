"""Parts of addresses, decoded and encoded, as several kinds of sources have them."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote

from paddock_sources.errors import SourceUriError

_PLAIN = "+,=:~"  # besides letters, digits and `-._`; a shell gives none of them a meaning


def file_url(folder: Path) -> str:
    """Return the address of a folder of this machine."""
    return f"file://{quote(os.fsencode(folder), safe='/' + _PLAIN)}"


def is_loopback(host: str) -> bool:
    """Return whether a host of an address is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def encoded(text: str, kept: str = "") -> str:
    """Return a part of an address in its encoded form; the characters in `kept` stay as they are."""
    return quote(text, safe=_PLAIN + kept)


def decoded(text: str, part: str) -> str:
    """Return the decoded part of the address `text`, which may have been encoded once.

    Raises:
        SourceUriError: it is no text.
    """
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise SourceUriError(text, "what it has encoded with `%` is no text") from error


def subdirectory(text: str, fragment: str) -> str:
    """Return the folder that the fragment of the address `text` names; empty for an empty fragment.

    Raises:
        SourceUriError: the fragment says something else, or the folder does not lie inside.
    """
    if not fragment:
        return ""
    name, _, value = fragment.partition("=")
    if name != "subdirectory" or not value or "&" in value:
        raise SourceUriError(text, "only `#subdirectory=<folder>` may follow")
    plain = decoded(text, value)
    folder = PurePosixPath(plain)
    if folder.is_absolute() or ".." in folder.parts or "\\" in plain:
        raise SourceUriError(text, "the subdirectory must lie inside the source")
    if not plain.isprintable():
        raise SourceUriError(text, "the subdirectory has an unprintable character")
    return str(folder) if folder.parts else ""
