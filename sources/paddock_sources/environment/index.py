"""The one index that packages come from, as its operator chose it.

There is only one: with several, the higher version on any of them would win, regardless of its publisher. The user and
password in an address are never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from paddock_sources.errors import SourceError, without_credentials
from paddock_sources.kinds.address import is_loopback

if TYPE_CHECKING:
    from paddock_sources.settings import IndexSettings

_DEFAULT_URL = "https://pypi.org/simple"
_FILE_HOSTS = {"pypi.org": "files.pythonhosted.org:443", "test.pypi.org": "test-files.pythonhosted.org:443"}
_IF_CLOSED = "an index with a password is named by the variable UV_DEFAULT_INDEX: `https://user:word@host/…`"
_NPM_URL = "https://registry.npmjs.org"
_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_PORTS = {"https": 443, "http": 80}
_MAX_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class Index:
    """`url` is the address of its simple API, with a password if it has one; `shown` is the same without.

    `hosts` (`host:port`) are all that serve it and its files. `ca_file` has the authorities that are trusted instead of
    uv's own. `table` of the settings names it; `if_closed` says what to do where it lets nobody in.
    """

    url: str = field(repr=False)
    hosts: tuple[str, ...]
    ca_file: Path | None = None
    table: str = "`[index]`"
    if_closed: str = _IF_CLOSED

    def as_order(self) -> dict[str, str]:
        """Return the part of a program's input that lets it ask the index; it may have a password in it."""
        return {"url": self.url, "ca_file": str(self.ca_file or "")}

    @staticmethod
    def of(environ: Mapping[str, str], settings: IndexSettings | None = None) -> Index:
        """Return the index that the settings name, else the one that `environ` sets for pip and uv, else PyPI.

        Raises:
            SourceError: the named index cannot be used.
        """
        origin, url = "the default", _DEFAULT_URL
        for name in reversed(_VARIABLES):
            if environ.get(name):
                origin, url = f"the environment variable {name}", _without_name(environ[name])
        if settings is not None and settings.url:
            origin, url = "`url` under `[index]`", settings.url
        return Index._at(url, origin, settings, environ)

    @staticmethod
    def of_npm(environ: Mapping[str, str], settings: IndexSettings) -> Index:
        """Return the registry of npm that the settings name, else its public one.

        Raises:
            SourceError: the named registry cannot be used.
        """
        index = Index._at(settings.url or _NPM_URL, "`registry` under `[npm]`", settings, environ)
        return replace(index, table="`[npm]`", if_closed="a registry of npm that asks for a password cannot be used")

    @staticmethod
    def _at(url: str, origin: str, settings: IndexSettings | None, environ: Mapping[str, str]) -> Index:
        host = _checked_host(origin, url)
        files = _FILE_HOSTS.get(host.rpartition(":")[0], "")
        more = settings.hosts if settings is not None else ()
        ca_file = Path(environ.get("SSL_CERT_FILE", ""))
        return Index(
            url=url.rstrip("/"),
            hosts=tuple(dict.fromkeys(filter(None, (host, files, *more)))),
            ca_file=ca_file.resolve() if ca_file.is_absolute() and ca_file.is_file() else None,
        )

    def serves(self, url: str) -> bool:
        """Return whether an address leads to one of its hosts."""
        try:
            return _checked_host("", url) in self.hosts
        except SourceError:
            return False

    @property
    def shown(self) -> str:
        """The address as people may see it."""
        return without_credentials(self.url)

    def without_secrets(self, text: str) -> str:
        """Return a program's output without anything that may be one of our passwords."""
        parts = urlsplit(self.url)
        secrets = {secret for secret in (parts.password, unquote(parts.password or "")) if secret}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "****")
        return without_credentials(text)


def _checked_host(origin: str, url: str) -> str:
    if len(url) > _MAX_LENGTH or not url.isprintable() or any(char.isspace() for char in url):
        raise _unusable(origin, "it has a space or an unprintable character, or is too long")
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError as error:
        raise _unusable(origin, "its host or port is malformed") from error
    if parts.scheme not in _PORTS or not parts.hostname or port is None:
        raise _unusable(origin, f"`{without_credentials(url)}` is no web address")
    if parts.query or parts.fragment:
        raise _unusable(origin, f"`{without_credentials(url)}` has a query or a fragment, which no index has")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise _unusable(origin, f"`{without_credentials(url)}` is not encrypted: anybody on the way could answer")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}"


def _unusable(origin: str, problem: str) -> SourceError:
    """Return the error for an address that packages cannot be taken from; `origin` is where it was written."""
    hints = ["an index is written `https://host/simple`"]
    return SourceError(f"{origin} names no package index: {problem}", code="IndexUrlError", hints=hints)


def _without_name(value: str) -> str:
    """Return the address of `name=address`, which is how uv lets an index be named."""
    name, separator, url = value.partition("=")
    return url if separator and "/" not in name and ":" not in name else value
