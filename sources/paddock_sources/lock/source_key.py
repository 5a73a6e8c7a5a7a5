"""The one text that identifies a source in a lock file, however a plan spells it.

It is a source itself, which can be parsed and fetched. Credentials are left out, and so are defaults: a default port or
`.git`. Letters with the same meaning are written the same. Two texts may still be one repository; one text is never
two. On this machine only folders are looked at, to follow their links.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from paddock_sources.errors import SourceUriError
from paddock_sources.uri import BuiltinUri, FolderUri, GitUri, PackageUri, SourceUri, encoded, file_url, git_text

_DEFAULT_PORTS: Final = {"https": 443, "http": 80, "ssh": 22}
_SEPARATORS: Final = re.compile(r"[-_.]+")


def normalised_source(uri: SourceUri, folder: Path) -> str:
    """Return the key of a source in the lock file of `folder`, from which relative folders start.

    Raises:
        SourceUriError: the address could be read in two ways.
    """
    match uri:
        case GitUri():
            inside = posixpath.normpath(uri.subdirectory) if uri.subdirectory else ""
            return git_text(_repository(uri), uri.ref, inside)
        case FolderUri():
            return _folder(uri, folder)
        case PackageUri():
            return package_key(uri.name) + (f"=={uri.version}" if uri.version else "")
        case BuiltinUri():
            return f"builtin:{uri.module_id}"
    raise SourceUriError(uri.text, "it is of no known form")


def package_key(name: str) -> str:
    """Return the canonical spelling of a distribution's name on an index."""
    return _SEPARATORS.sub("-", name).lower()


def _repository(uri: GitUri) -> str:
    try:
        parts = urlsplit(uri.url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        raise SourceUriError(uri.text, str(error)) from error
    components = [component for component in parts.path.split("/") if component]
    if any(unquote(component) in (".", "..") or "/" in unquote(component) for component in components):
        raise SourceUriError(uri.text, "its path has a part that could be read in two ways")
    components = [unquote(component) for component in components]
    if parts.scheme == "file":
        # `x.git` is another folder than `x`; only the one in a repository is the repository.
        components = components[:-1] if components[-1:] == [".git"] else components
        return "file:///" + "/".join(map(encoded, components))
    path = "/".join(map(encoded, _without_suffix(components)))
    # With ssh the user is a part of the address (`git@`), elsewhere it may well be a token.
    user = f"{encoded(unquote(parts.username))}@" if parts.scheme == "ssh" and parts.username else ""
    shown_host = f"[{host}]" if ":" in host else host
    shown_port = "" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{user}{shown_host}{shown_port}/{path}"


def _without_suffix(components: list[str]) -> list[str]:
    last = components[-1].removesuffix(".git") if components else ""
    return [*components[:-1], last] if last else components


def _folder(uri: FolderUri, folder: Path) -> str:
    base = Path(os.path.realpath(folder))
    meant = Path(os.path.realpath(base / uri.folder))
    text = str(meant)
    if meant.is_relative_to(base):
        inside = str(meant.relative_to(base))
        text = inside if inside == "." else f"./{inside}"
    if text.isprintable() and text == text.strip():
        return text
    return file_url(meant)
